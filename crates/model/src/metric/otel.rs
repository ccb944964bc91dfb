//! OpenTelemetry names of the metrics.
//!
//! If the semantic conventions define a metric for the same quantity, its name is used
//! ([`OTEL_CONVENTIONS`]). All other names derive from the table: `noctule`, the level, the area
//! and the rest, separated by dots. The unit is a separate field. To convert these names for
//! Prometheus, a receiver replaces dots by underscores and appends the unit and `_total`. The
//! result is the name in `/metrics`, except for CPU time.

use OtelKind::{ExponentialHistogram, Gauge, Sum, UpDownSum};

use super::{Kind, Metric, Unit};

/// The instrument of a metric in OpenTelemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtelKind {
    /// A cumulative sum that never decreases.
    Sum,
    /// A cumulative sum that increases and decreases; values of several nodes may be added up.
    UpDownSum,
    /// A current value.
    Gauge,
    /// A cumulative histogram with exponential buckets.
    ExponentialHistogram,
}

/// A metric that the semantic conventions define.
#[derive(Clone, Copy, Debug)]
pub struct OtelConvention {
    /// Level in metric names; empty for metrics of the node as a whole.
    pub level: &'static str,
    /// Name in noctule's metric table.
    pub metric: &'static str,
    /// Name in the semantic conventions.
    pub name: &'static str,
    /// Unit in the semantic conventions.
    pub unit: &'static str,
    /// Instrument in the semantic conventions.
    pub kind: OtelKind,
    /// Attributes that distinguish metrics with the same name.
    pub attributes: &'static [(&'static str, &'static str)],
}

const fn convention(
    level: &'static str,
    metric: &'static str,
    name: &'static str,
    unit: &'static str,
    kind: OtelKind,
    attributes: &'static [(&'static str, &'static str)],
) -> OtelConvention {
    OtelConvention {
        level,
        metric,
        name,
        unit,
        kind,
        attributes,
    }
}

/// Metrics that the semantic conventions define. A conventional name is used only for the same
/// quantity. For instance, `container.network.io` counts interface traffic, while noctule counts
/// TCP payload.
#[rustfmt::skip]
pub const OTEL_CONVENTIONS: &[OtelConvention] = &[
    // The conventions allow a custom mode if none of the standard ones fits. noctule does not
    // separate user and system time.
    convention("node", "cpu_seconds", "system.cpu.time", "s", Sum, &[("cpu.mode", "busy")]),
    convention("", "node_cpu_idle_seconds", "system.cpu.time", "s", Sum, &[("cpu.mode", "idle")]),
    convention("", "node_cpu_interrupt_seconds", "system.cpu.time", "s", Sum, &[("cpu.mode", "interrupt")]),
    convention("", "node_cpu_steal_seconds", "system.cpu.time", "s", Sum, &[("cpu.mode", "steal")]),
    convention("", "node_cpus", "system.cpu.logical.count", "{cpu}", UpDownSum, &[]),
    convention("node", "cpu_frequency_hertz", "system.cpu.frequency", "Hz", Gauge, &[]),
    convention("node", "process_starts", "system.process.created", "{process}", Sum, &[]),
    convention("node", "tcp_connections", "system.network.connection.count", "{connection}", UpDownSum, &[("network.transport", "tcp"), ("network.connection.state", "established")]),
    convention("node", "tcp_listeners", "system.network.connection.count", "{connection}", UpDownSum, &[("network.transport", "tcp"), ("network.connection.state", "listen")]),
    convention("container", "cpu_seconds", "container.cpu.time", "s", Sum, &[]),
    convention("process", "cpu_seconds", "process.cpu.time", "s", Sum, &[]),
    convention("process", "sched_switches", "process.context_switches", "{context_switch}", Sum, &[]),
];

/// First words of metric names that become namespaces.
const AREAS: &[&str] = &[
    "cpu",
    "energy",
    "file",
    "node",
    "oom",
    "page_cache",
    "process",
    "sched",
    "self",
    "tcp",
];

/// The OpenTelemetry form of a metric at a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtelMetric {
    pub name: String,
    /// UCUM unit; the names of counted items are in braces.
    pub unit: &'static str,
    /// Instrument.
    pub kind: OtelKind,
    /// Attributes of each data point.
    pub attributes: &'static [(&'static str, &'static str)],
}

impl OtelMetric {
    /// Returns the OpenTelemetry form of a metric at a level. The level is empty for metrics of the
    /// node as a whole and of the agent.
    pub fn new<S>(level: &str, metric: &Metric<S>) -> Self {
        let mut known = OTEL_CONVENTIONS.iter();
        if let Some(convention) = known.find(|it| it.level == level && it.metric == metric.name) {
            return Self {
                name: convention.name.to_owned(),
                unit: convention.unit,
                kind: convention.kind,
                attributes: convention.attributes,
            };
        }
        let mut name = String::from("noctule.");
        if !level.is_empty() {
            name.push_str(level);
            name.push('.');
        }
        push_dotted(&mut name, bare(metric));
        Self {
            name,
            unit: unit(metric),
            kind: match metric.kind {
                Kind::Counter => Sum,
                Kind::Gauge => Gauge,
                Kind::Histogram => ExponentialHistogram,
            },
            attributes: &[],
        }
    }
}

/// Metrics whose names keep their unit, because without it each name would be a prefix of another
/// one. CPU time is named as in the conventions.
const KEPT: &[(&str, &str)] = &[
    ("cpu_seconds", "cpu_time"),
    ("self_cpu_seconds", "self_cpu_time"),
    ("self_otlp_queue_bytes", "self_otlp_queue_bytes"),
    ("tcp_bytes", "tcp_bytes"),
    ("tcp_destination_bytes", "tcp_destination_bytes"),
];

/// Returns the name without its unit.
fn bare<S>(metric: &Metric<S>) -> &'static str {
    if let Some((_, kept)) = KEPT.iter().find(|(name, _)| *name == metric.name) {
        return kept;
    }
    let name = metric.name.strip_suffix(metric.unit.name());
    name.map_or(metric.name, |name| name.trim_end_matches('_'))
}

fn push_dotted(out: &mut String, name: &str) {
    let area = AREAS.iter().find_map(|area| {
        let rest = name.strip_prefix(area)?.strip_prefix('_')?;
        Some((area, rest))
    });
    match area {
        Some((area, rest)) => {
            out.push_str(area);
            out.push('.');
            push_dotted(out, rest);
        }
        None => out.push_str(name),
    }
}

fn unit<S>(metric: &Metric<S>) -> &'static str {
    match metric.unit {
        Unit::Seconds => "s",
        Unit::Bytes => "By",
        Unit::Hertz => "Hz",
        Unit::Ratio => "1",
        Unit::Joules => "J",
        Unit::Count(counted) => counted,
    }
}

/// Returns the attributes for a label and its value. Most labels become an attribute of the same
/// name. If the conventions have a name for a label, that name is used.
pub fn otel_attributes(name: &str, label: &str, value: &str) -> Vec<(String, String)> {
    let one = |key: &str, value: &str| vec![(key.to_owned(), value.to_owned())];
    match (name, label) {
        (_, "direction") => {
            let direction = match value {
                "sent" => "transmit",
                "received" => "receive",
                other => other,
            };
            one("network.io.direction", direction)
        }
        // The conventions define two types of switches. The exact kind is added as an attribute.
        ("process.context_switches", "kind") => {
            let involuntary = if value == "voluntary" { "" } else { "in" };
            let mut both = one(
                "process.context_switch.type",
                &format!("{involuntary}voluntary"),
            );
            both.push(("noctule.kind".to_owned(), value.to_owned()));
            both
        }
        (_, label) => match label.strip_prefix("culprit_") {
            Some(part) => one(&format!("noctule.culprit.{part}"), value),
            None => one(&format!("noctule.{label}"), value),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::{METRICS, SELF_METRICS};
    use super::*;

    /// Returns each metric at each level.
    fn all() -> Vec<(String, OtelMetric, String)> {
        let mut all = Vec::new();
        for metric in METRICS {
            for level in metric.source.levels() {
                let ours = format!("noctule_{level}_{}", metric.name);
                all.push((ours, OtelMetric::new(level, metric), metric.name.to_owned()));
            }
        }
        for metric in SELF_METRICS {
            let ours = format!("noctule_{}", metric.name);
            all.push((ours, OtelMetric::new("", metric), metric.name.to_owned()));
        }
        all
    }

    #[test]
    fn prometheus_names_of_receivers_match_metrics() {
        let ruled = all();
        let ruled = ruled
            .iter()
            .filter(|(_, metric, _)| metric.name.starts_with("noctule."))
            .filter(|(_, metric, _)| !metric.name.ends_with(".cpu.time"));
        for (ours, metric, _) in ruled {
            let mut name = metric.name.replace('.', "_");
            let unit = match metric.unit {
                "s" => "_seconds",
                "By" => "_bytes",
                "Hz" => "_hertz",
                "J" => "_joules",
                "1" => "_ratio",
                other => {
                    assert!(other.starts_with('{') && other.ends_with('}'), "{other}");
                    ""
                }
            };
            if !name.ends_with(unit) {
                name.push_str(unit);
            }
            assert_eq!(name, *ours);
        }
    }

    #[test]
    fn shared_names_differ_only_in_attributes() {
        let mut seen: HashMap<String, OtelMetric> = HashMap::new();
        for (ours, metric, _) in all() {
            if let Some(other) = seen.get(&metric.name) {
                assert_eq!(
                    (other.unit, other.kind),
                    (metric.unit, metric.kind),
                    "{ours}"
                );
                assert_ne!(other.attributes, metric.attributes, "{ours}");
                let keys =
                    |it: &OtelMetric| it.attributes.iter().map(|it| it.0).collect::<Vec<_>>();
                assert_eq!(keys(other), keys(&metric), "{ours}");
            }
            seen.insert(metric.name.clone(), metric);
        }
    }

    #[test]
    fn no_name_is_a_prefix_of_another() {
        let all = all();
        for (ours, metric, _) in &all {
            let within = format!("{}.", metric.name);
            let other = all.iter().find(|(_, it, _)| it.name.starts_with(&within));
            assert!(other.is_none(), "{ours}: {other:?}");
        }
    }

    #[test]
    fn each_entry_is_used() {
        let used = all();
        for convention in OTEL_CONVENTIONS {
            let mut same = used.iter().filter(|(_, metric, name)| {
                metric.name == convention.name && name == convention.metric
            });
            assert!(same.next().is_some(), "{} of no metric", convention.name);
        }
    }

    #[test]
    fn labels_have_attributes() {
        let cases = [
            ("x", "cause", "host", "noctule.cause=host"),
            ("x", "direction", "sent", "network.io.direction=transmit"),
            ("x", "culprit", "kernel", "noctule.culprit=kernel"),
            ("x", "culprit_pod", "a", "noctule.culprit.pod=a"),
            (
                "noctule.node.sched.switches",
                "kind",
                "preempted",
                "noctule.kind=preempted",
            ),
            (
                "process.context_switches",
                "kind",
                "preempted",
                "process.context_switch.type=involuntary noctule.kind=preempted",
            ),
        ];
        for (name, label, value, expected) in cases {
            let pairs = otel_attributes(name, label, value);
            let pairs: Vec<_> = pairs.iter().map(|(k, v)| format!("{k}={v}")).collect();
            assert_eq!(pairs.join(" "), expected);
        }
    }
}
