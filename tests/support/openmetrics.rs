//! A strict parser of OpenMetrics 1.0 text, which panics on anything that the specification
//! forbids.

use std::collections::{BTreeMap, BTreeSet};

/// A family of samples.
#[derive(Default)]
struct Family {
    kind: String,
    unit: Option<String>,
    help: bool,
    samples: usize,
    histogram: Buckets,
}

/// The histogram whose samples are being parsed.
#[derive(Default)]
struct Buckets {
    labels: String,
    /// Bound and count of the last bucket.
    last: Option<(f64, f64)>,
}

/// Checks a complete exposition. Returns the number of samples.
pub(crate) fn check(text: &str) -> usize {
    let body = text.strip_suffix("# EOF\n");
    let body = body.expect("ends in # EOF and a line feed");
    let forbidden = |c: char| c != '\n' && (c.is_control() || "\u{2028}\u{2029}".contains(c));
    assert!(!text.contains(forbidden), "control characters");
    let mut reader = Reader::default();
    for line in body.split_terminator('\n') {
        assert!(!line.is_empty(), "an empty line");
        reader.line(line);
    }
    for (name, family) in &reader.families {
        assert!(!family.kind.is_empty(), "{name} has no TYPE");
        assert!(family.help, "{name} has no HELP");
        assert!(family.samples > 0, "{name} has no samples");
    }
    reader.series.len()
}

#[derive(Default)]
struct Reader {
    families: BTreeMap<String, Family>,
    /// The current family.
    current: String,
    series: BTreeSet<String>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        match line.strip_prefix("# ") {
            Some(meta) => self.meta(meta),
            None => self.sample(line),
        }
    }

    fn meta(&mut self, meta: &str) {
        let mut words = meta.splitn(3, ' ');
        let mut word = || words.next().unwrap_or_else(|| panic!("too short: {meta}"));
        let (keyword, name, value) = (word(), word(), word());
        assert!(is_name(name, true), "no metric name: {meta}");
        if name != self.current {
            let known = self.families.contains_key(name);
            assert!(!known, "{name} is not in one piece");
            self.current = name.to_owned();
        }
        let family = self.families.entry(name.to_owned()).or_default();
        assert_eq!(family.samples, 0, "after the samples: {meta}");
        match keyword {
            "TYPE" => {
                assert!(family.kind.is_empty(), "twice: {meta}");
                let known = ["counter", "gauge", "histogram"].contains(&value);
                assert!(known, "unknown: {meta}");
                family.kind = value.to_owned();
            }
            "UNIT" => {
                assert!(family.unit.is_none(), "twice: {meta}");
                let suffix = format!("_{value}");
                assert!(name.ends_with(&suffix), "not in the name: {meta}");
                family.unit = Some(value.to_owned());
            }
            "HELP" => {
                assert!(!family.help, "twice: {meta}");
                unescaped(value);
                family.help = true;
            }
            _ => panic!("unknown keyword: {meta}"),
        }
    }

    fn sample(&mut self, line: &str) {
        let end = line.find(['{', ' ']);
        let (name, mut rest) = line.split_at(end.unwrap_or_else(|| panic!("no value: {line}")));
        assert!(is_name(name, true), "no metric name: {line}");
        let mut labels = BTreeMap::new();
        if let Some(inner) = rest.strip_prefix('{') {
            rest = read_labels(inner, &mut labels);
        }
        let value = rest.strip_prefix(' ');
        let value = value.unwrap_or_else(|| panic!("no blank: {line}"));
        assert!(is_number(value), "no number: {line}");
        let number: f64 = value.parse().unwrap_or_else(|e| panic!("{line}: {e}"));
        let family = self.families.get_mut(&self.current);
        let family = family.unwrap_or_else(|| panic!("of no family: {line}"));
        family.samples += 1;
        match family.kind.as_str() {
            "counter" => {
                assert_eq!(name, format!("{}_total", self.current), "{line}");
                assert!(number >= 0.0, "a negative counter: {line}");
            }
            "histogram" => {
                let part = name.strip_prefix(self.current.as_str());
                let part = part.unwrap_or_else(|| panic!("of another family: {line}"));
                family.histogram.sample(part, &labels, number, line);
            }
            _ => assert_eq!(name, self.current, "{line}"),
        }
        // An empty label equals a missing one.
        labels.retain(|_, value| !value.is_empty());
        let series = format!("{name} {labels:?}");
        assert!(self.series.insert(series), "twice: {line}");
    }
}

impl Buckets {
    /// Checks a sample of a histogram. Buckets come first, ordered by their bounds, with cumulative
    /// counts. The last bucket counts everything.
    fn sample(&mut self, part: &str, labels: &BTreeMap<String, String>, number: f64, line: &str) {
        let mut identity = labels.clone();
        let bound = identity.remove("le");
        let identity = format!("{identity:?}");
        assert!(number >= 0.0, "negative: {line}");
        if part == "_bucket" {
            let bound = bound.unwrap_or_else(|| panic!("a bucket without a bound: {line}"));
            let bound = match bound.as_str() {
                "+Inf" => f64::INFINITY,
                text => text.parse().unwrap_or_else(|e| panic!("{line}: {e}")),
            };
            if identity != self.labels {
                self.labels = identity;
                self.last = None;
            }
            if let Some((lower, below)) = self.last {
                assert!(lower < bound && below <= number, "not cumulative: {line}");
            }
            self.last = Some((bound, number));
            return;
        }
        assert!(bound.is_none(), "a bound on a sum: {line}");
        assert_eq!(identity, self.labels, "without buckets: {line}");
        let last = self
            .last
            .unwrap_or_else(|| panic!("without buckets: {line}"));
        assert_eq!(last.0, f64::INFINITY, "no bucket for everything: {line}");
        match part {
            "_count" => assert_eq!(last.1, number, "{line}"),
            "_sum" => {}
            _ => panic!("no part of a histogram: {line}"),
        }
    }
}

/// Parses labels up to the closing brace. Returns the rest.
fn read_labels<'a>(text: &'a str, labels: &mut BTreeMap<String, String>) -> &'a str {
    let mut rest = text;
    loop {
        let label = rest.split_once("=\"");
        let (name, after) = label.unwrap_or_else(|| panic!("no label: {rest}"));
        assert!(is_name(name, false), "no label name: {rest}");
        let end = closing_quote(after);
        let value = unescaped(&after[..end]);
        let before = labels.insert(name.to_owned(), value);
        assert!(before.is_none(), "a label twice: {text}");
        rest = &after[end + 1..];
        match rest.split_at_checked(1) {
            Some((",", more)) => rest = more,
            Some(("}", more)) => return more,
            _ => panic!("neither comma nor brace: {rest}"),
        }
    }
}

fn closing_quote(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at,
            _ => {}
        }
    }
    panic!("no closing quote: {text}")
}

/// Resolves the three escapes.
fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(match chars.next() {
                Some('n') => '\n',
                Some(c @ ('\\' | '"')) => c,
                other => panic!("no escape: \\{other:?} in {text}"),
            }),
            '"' => panic!("a quote without escape: {text}"),
            c => out.push(c),
        }
    }
    out
}

fn is_name(text: &str, colon: bool) -> bool {
    let start = |c: char| c.is_ascii_alphabetic() || c == '_' || (colon && c == ':');
    text.starts_with(start) && text.chars().all(|c| start(c) || c.is_ascii_digit())
}

/// Returns whether the text is a plain decimal number. NaN, infinity and forms that only some
/// parsers accept are not.
fn is_number(text: &str) -> bool {
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    match unsigned.split_once('.') {
        Some((whole, fraction)) => digits(whole) && digits(fraction),
        None => digits(unsigned),
    }
}
