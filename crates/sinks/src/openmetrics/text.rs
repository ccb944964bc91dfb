//! Lines of the two formats.

use std::fmt::Write as _;

use noctule_model::{Histogram, Kind, Metric};

use super::Exposition;
use super::escape::{push_help, push_label_value};

/// The powers of two of nanoseconds at which the buckets of a histogram end.
pub(super) type Powers = std::ops::RangeInclusive<u32>;

/// A sample's value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    /// A count as it is.
    Count(u64),
    /// Nanoseconds, written as seconds without a rounding error.
    Nanoseconds(u64),
    /// Microjoules, written as joules without a rounding error.
    Microjoules(u64),
    /// Anything else; must be finite.
    Float(f64),
}

/// Text in the making.
///
/// Writing to a string cannot fail, which is why the results of `write!` are dropped here.
pub(super) struct Text {
    exposition: Exposition,
    out: String,
    /// Name of the family's samples, for a histogram without their suffixes.
    sample: String,
}

impl Text {
    pub(super) fn new(exposition: Exposition, capacity: usize) -> Self {
        Self {
            exposition,
            out: String::with_capacity(capacity),
            sample: String::with_capacity(64),
        }
    }

    /// Starts a family: `noctule_`, the level if there is one, the metric's name. Its samples must
    /// follow at once.
    pub(super) fn family<S>(&mut self, level: &str, metric: &Metric<S>) {
        self.sample.clear();
        self.sample.push_str("noctule_");
        if !level.is_empty() {
            self.sample.extend([level, "_"]);
        }
        self.sample.push_str(metric.name);
        self.head(metric.kind, metric.unit.name(), metric.help);
    }

    /// Starts a family with this name. Its samples must follow at once.
    pub(super) fn named_family(&mut self, name: &str, kind: Kind, unit: &str, help: &str) {
        self.sample.clear();
        self.sample.push_str(name);
        self.head(kind, unit, help);
    }

    fn head(&mut self, kind: Kind, unit: &str, help: &str) {
        let family = self.sample.len();
        let kind = match kind {
            Kind::Counter => {
                self.sample.push_str("_total");
                "counter"
            }
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let open = self.exposition == Exposition::OpenMetrics;
        // The classic format has no families: its lines name the samples.
        let name = if open {
            &self.sample[..family]
        } else {
            &self.sample
        };
        let _ = writeln!(self.out, "# TYPE {name} {kind}");
        if open && !unit.is_empty() {
            let _ = writeln!(self.out, "# UNIT {name} {unit}");
        }
        let _ = write!(self.out, "# HELP {name} ");
        push_help(&mut self.out, help, open);
        self.out.push('\n');
    }

    /// One sample of the family. `identity` is a list of labels that is escaped already, or empty;
    /// `own` are the metric's own labels and their values, which are escaped here.
    pub(super) fn sample(&mut self, identity: &str, own: (&[&str], &[&str]), value: Value) {
        self.suffixed("", identity, own, value);
    }

    /// The samples of a histogram of nanoseconds, in seconds, and the sum of its values.
    pub(super) fn histogram(
        &mut self,
        identity: &str,
        histogram: &Histogram,
        sum_ns: u64,
        powers: Powers,
    ) {
        let mut buckets = histogram.buckets().peekable();
        let mut below = 0;
        for (bits, bound) in powers.clone().zip(bounds(powers)) {
            // No bucket lies on both sides of a power of two.
            while let Some((_, count)) = buckets.next_if(|(low, _)| *low < 1 << bits) {
                below += count;
            }
            let le: (&[&str], &[&str]) = (&["le"], &[&bound]);
            self.suffixed("_bucket", identity, le, Value::Count(below));
        }
        let count = Value::Count(histogram.count());
        self.suffixed("_bucket", identity, (&["le"], &["+Inf"]), count);
        self.suffixed("_count", identity, (&[], &[]), count);
        self.suffixed("_sum", identity, (&[], &[]), Value::Nanoseconds(sum_ns));
    }

    fn suffixed(&mut self, suffix: &str, identity: &str, own: (&[&str], &[&str]), value: Value) {
        let (names, texts) = own;
        let out = &mut self.out;
        out.push_str(&self.sample);
        out.push_str(suffix);
        if !identity.is_empty() || !names.is_empty() {
            out.push('{');
            out.push_str(identity);
            for (i, (name, text)) in names.iter().zip(texts).enumerate() {
                if i > 0 || !identity.is_empty() {
                    out.push(',');
                }
                push_label(out, name, text);
            }
            out.push('}');
        }
        out.push(' ');
        match value {
            Value::Count(n) => _ = write!(out, "{n}"),
            Value::Nanoseconds(ns) => push_seconds(out, ns),
            Value::Microjoules(uj) => push_decimal(out, uj, 6),
            Value::Float(x) => _ = write!(out, "{x}"),
        }
        out.push('\n');
    }

    /// What was written, where more of the exposition follows.
    pub(super) fn part(self) -> String {
        self.out
    }

    pub(super) fn finish(mut self) -> String {
        if self.exposition == Exposition::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }
}

/// The label `le` of each power. `le` includes its bound, so this is 1 ns less than the
/// power: values are whole nanoseconds. Written as Go writes floats, which OpenMetrics asks for.
fn bounds(powers: Powers) -> impl Iterator<Item = String> {
    powers.map(|bits| {
        let ns = (1_u64 << bits) - 1;
        let mut bound = String::new();
        if ns < 100_000 {
            let digits = ns.to_string();
            let (first, rest) = digits.split_at(1);
            let exponent = 10 - digits.len();
            let _ = write!(bound, "{first}.{rest}e-{exponent:02}");
        } else {
            push_seconds(&mut bound, ns);
        }
        bound
    })
}

/// Appends `name="value"`.
pub(super) fn push_label(out: &mut String, name: &str, value: &str) {
    out.push_str(name);
    out.push_str("=\"");
    push_label_value(out, value);
    out.push('"');
}

/// Through an `f64` the digits would depend on the size of the counter.
fn push_seconds(out: &mut String, ns: u64) {
    push_decimal(out, ns, 9);
}

/// Appends a number whose unit is a power of ten below what is shown.
fn push_decimal(out: &mut String, value: u64, mut digits: usize) {
    let unit = 10_u64.pow(digits as u32);
    let (whole, mut rest) = (value / unit, value % unit);
    if rest == 0 {
        let _ = write!(out, "{whole}");
        return;
    }
    while rest % 10 == 0 {
        rest /= 10;
        digits -= 1;
    }
    let _ = write!(out, "{whole}.{rest:0digits$}");
}

#[cfg(test)]
mod tests {
    use super::*;

    const POWERS: Powers = 10..=34;

    #[test]
    fn seconds_are_exact() {
        let cases = [
            (0, "0"),
            (1, "0.000000001"),
            (1_500_000_000, "1.5"),
            (20_000_000, "0.02"),
            (u64::MAX, "18446744073.709551615"),
        ];
        for (ns, expected) in cases {
            let mut out = String::new();
            push_seconds(&mut out, ns);
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn bounds_are_exact() {
        let bounds: Vec<String> = bounds(POWERS).collect();
        for (bits, bound) in POWERS.zip(&bounds) {
            let exact = ((1_u64 << bits) - 1) as f64 / 1e9;
            assert_eq!(bound.parse(), Ok(exact), "{bound}");
        }
        let reported = [0, 6, 7, 20, 24].map(|i| bounds[i].as_str());
        let expected = [
            "1.023e-06",
            "6.5535e-05",
            "0.000131071",
            "1.073741823",
            "17.179869183",
        ];
        assert_eq!(reported, expected);
    }

    #[test]
    fn buckets_count_what_is_below_their_power() {
        let counts = (0..Histogram::BUCKETS as u64).map(|bucket| bucket % 7);
        let histogram = Histogram::from_counts(counts);
        let mut text = Text::new(Exposition::Classic, 0);
        text.histogram("", &histogram, 5, POWERS);
        let lines: Vec<&str> = text.out.lines().collect();
        for ((bits, bound), line) in POWERS.zip(bounds(POWERS)).zip(&lines) {
            let below = histogram.count_below_power(bits);
            assert_eq!(*line, format!("_bucket{{le=\"{bound}\"}} {below}"));
        }
        let all = histogram.count();
        let rest = [
            format!("_bucket{{le=\"+Inf\"}} {all}"),
            format!("_count {all}"),
            "_sum 0.000000005".to_owned(),
        ];
        assert_eq!(lines[lines.len() - 3..], rest);
    }
}
