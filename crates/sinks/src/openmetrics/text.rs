//! Lines of the two formats.

use std::fmt::Write as _;

use noctule_model::{Kind, Metric};

use super::Exposition;
use super::escape::{push_help, push_label_value};

/// A sample's value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    /// A count as it is.
    Count(u64),
    /// Nanoseconds, written as seconds without a rounding error.
    Nanoseconds(u64),
    /// Anything else; must be finite.
    Float(f64),
}

/// Text in the making.
///
/// Writing to a string cannot fail, which is why the results of `write!` are dropped here.
pub(super) struct Text {
    exposition: Exposition,
    out: String,
    /// Name of the family's samples.
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
        let family = self.sample.len();
        let kind = match metric.kind {
            Kind::Counter => {
                self.sample.push_str("_total");
                "counter"
            }
            Kind::Gauge => "gauge",
        };
        let open = self.exposition == Exposition::OpenMetrics;
        // The classic format has no families: its lines name the samples.
        let name = if open {
            &self.sample[..family]
        } else {
            &self.sample
        };
        let _ = writeln!(self.out, "# TYPE {name} {kind}");
        if open && !metric.unit.name().is_empty() {
            let _ = writeln!(self.out, "# UNIT {name} {}", metric.unit.name());
        }
        let _ = write!(self.out, "# HELP {name} ");
        push_help(&mut self.out, metric.help, open);
        self.out.push('\n');
    }

    /// One sample of the family. `identity` is a list of labels that is escaped already, or empty;
    /// `own` are the metric's own labels and their values, which are escaped here.
    pub(super) fn sample(&mut self, identity: &str, own: (&[&str], &[&str]), value: Value) {
        let (names, texts) = own;
        let out = &mut self.out;
        out.push_str(&self.sample);
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
            Value::Float(x) => _ = write!(out, "{x}"),
        }
        out.push('\n');
    }

    pub(super) fn finish(mut self) -> String {
        if self.exposition == Exposition::OpenMetrics {
            self.out.push_str("# EOF\n");
        }
        self.out
    }
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
    let (seconds, mut rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
    if rest == 0 {
        let _ = write!(out, "{seconds}");
        return;
    }
    let mut digits = 9;
    while rest % 10 == 0 {
        rest /= 10;
        digits -= 1;
    }
    let _ = write!(out, "{seconds}.{rest:0digits$}");
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
