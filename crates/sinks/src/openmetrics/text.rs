//! Writes the lines of the two text formats.

use std::fmt::Write as _;

use noctule_model::Kind;

use super::Exposition;
use super::escape::{push_help, push_label_value};
use super::writer::{HistogramSample, SampleLabels};

/// The value of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    /// A plain count.
    Count(u64),
    /// Nanoseconds, written as seconds without rounding.
    Nanoseconds(u64),
    /// Microjoules, written as joules without rounding.
    Microjoules(u64),
    /// Any other value. Must be finite.
    Float(f64),
}

impl Value {
    /// Returns 0 in the same unit.
    pub(super) fn zero(self) -> Self {
        match self {
            Self::Count(_) => Self::Count(0),
            Self::Nanoseconds(_) => Self::Nanoseconds(0),
            Self::Microjoules(_) => Self::Microjoules(0),
            Self::Float(_) => Self::Float(0.0),
        }
    }

    /// Returns the value in the displayed unit.
    pub(super) fn as_f64(self) -> f64 {
        match self {
            Self::Count(count) => count as f64,
            Self::Nanoseconds(ns) => ns as f64 / 1e9,
            Self::Microjoules(uj) => uj as f64 / 1e6,
            Self::Float(value) => value,
        }
    }
}

/// An exposition while it is written.
///
/// Writing to a string cannot fail, so the results of `write!` are ignored here.
pub(super) struct Text {
    exposition: Exposition,
    out: String,
    /// Name of the current family.
    family: String,
    /// Name of the family's samples; for a histogram, without their suffixes.
    sample: String,
}

impl Text {
    pub(super) fn new(exposition: Exposition) -> Self {
        Self {
            exposition,
            out: String::new(),
            family: String::new(),
            sample: String::with_capacity(64),
        }
    }

    /// Starts a family, or continues the current one if it has this name.
    pub(super) fn family(&mut self, name: &str, kind: Kind, unit: &str, help: &str) {
        if self.family == name {
            return;
        }
        self.family.clear();
        self.family.push_str(name);
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
        // The classic format has no names of families: its header lines contain the names of the
        // samples.
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

    pub(super) fn sample(&mut self, labels: SampleLabels<'_>, value: Value) {
        self.suffixed("", labels, value);
    }

    /// Writes the samples of a histogram of nanoseconds, and their sum, in seconds.
    pub(super) fn histogram(&mut self, labels: SampleLabels<'_>, sample: &HistogramSample<'_>) {
        let SampleLabels { identity, .. } = labels;
        for (bits, below) in sample.below() {
            let bound = bound(bits);
            let own: (&[&str], &[&str]) = (&["le"], &[&bound]);
            self.suffixed(
                "_bucket",
                SampleLabels { identity, own },
                Value::Count(below),
            );
        }
        let count = Value::Count(sample.histogram.count());
        let own: (&[&str], &[&str]) = (&["le"], &["+Inf"]);
        self.suffixed("_bucket", SampleLabels { identity, own }, count);
        self.suffixed("_count", labels, count);
        self.suffixed("_sum", labels, Value::Nanoseconds(sample.sum_ns));
    }

    fn suffixed(&mut self, suffix: &str, labels: SampleLabels<'_>, value: Value) {
        let SampleLabels {
            identity,
            own: (names, texts),
        } = labels;
        let out = &mut self.out;
        out.push_str(&self.sample);
        out.push_str(suffix);
        let mut separator = '{';
        for labels in identity.into_iter().filter(|labels| !labels.is_empty()) {
            out.push(separator);
            out.push_str(labels);
            separator = ',';
        }
        for (name, text) in names.iter().zip(texts) {
            out.push(separator);
            push_label(out, name, text);
            separator = ',';
        }
        if separator == ',' {
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

    /// Returns the text written since the last call. The next buffer starts with this size.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let empty = String::with_capacity(self.out.len());
        std::mem::replace(&mut self.out, empty).into_bytes()
    }

    /// Writes the end of an exposition.
    pub(super) fn end(&mut self) {
        if self.exposition == Exposition::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
    }
}

/// Returns the label `le` for a power of two. `le` is inclusive and values are whole nanoseconds,
/// so the bound is the power minus 1 ns. The number is written as Go prints floats, which
/// OpenMetrics recommends.
fn bound(bits: u32) -> String {
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
}

/// Appends `name="value"`.
pub(super) fn push_label(out: &mut String, name: &str, value: &str) {
    out.push_str(name);
    out.push_str("=\"");
    push_label_value(out, value);
    out.push('"');
}

/// Writes nanoseconds as seconds with integer arithmetic. With an `f64`, the number of correct
/// digits would depend on the counter's size.
fn push_seconds(out: &mut String, ns: u64) {
    push_decimal(out, ns, 9);
}

/// Appends `value` divided by 10 to the power of `digits`.
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
    use noctule_model::Histogram;

    use super::*;

    const POWERS: std::ops::RangeInclusive<u32> = 10..=34;

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
        let bounds: Vec<String> = POWERS.map(bound).collect();
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
    fn buckets_count_values_below_their_bound() {
        let counts = (0..Histogram::BUCKETS as u64).map(|bucket| bucket % 7);
        let histogram = Histogram::from_counts(counts);
        let mut text = Text::new(Exposition::Classic);
        let labels = SampleLabels {
            identity: ["", ""],
            own: (&[], &[]),
        };
        let sample = HistogramSample {
            histogram: &histogram,
            sum_ns: 5,
            powers: POWERS.collect(),
        };
        text.histogram(labels, &sample);
        let lines: Vec<&str> = text.out.lines().collect();
        for ((bits, bound), line) in POWERS.zip(POWERS.map(bound)).zip(&lines) {
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
