//! The metric table, which defines every metric once. The exposition formats and the documentation
//! are derived from it.

mod foreign;
mod kepler;
mod otel;
mod own;

use BlockClass::{
    Child, Disk, Filesystem, Lock, Loopback, Memory, Network, Other, Pipe, Poll, Stopped, Timer,
    Unix, Writeback,
};
use Source::{
    Blame, Blocked, Connections, Connects, Counters, Destinations, Energy, Events, Frequency,
    Listeners, LongestWaiting, Verdict, Waiting, Waits,
};
use Unit::{Bytes, Count, Hertz, Joules, Ratio, Seconds};

use crate::{BlockClass, ConnectError, Counter, DestinationCounter, EventCounter};
pub use foreign::{FOREIGN_METRICS, ForeignExporter, ForeignMetric, ForeignOffer, ForeignSource};
pub use kepler::{
    KEPLER_METRICS, KeplerLevel, KeplerMetric, KeplerOffer, KeplerPart, KeplerSource, KeplerVersion,
};
pub use otel::{OTEL_CONVENTIONS, OtelConvention, OtelKind, OtelMetric, otel_attributes};
pub use own::{SELF_METRICS, SelfSource};

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Never decreases; its samples have the suffix `_total`.
    Counter,
    /// Increases and decreases.
    Gauge,
    /// Cumulative counts of values up to bounds (`_bucket` with the label `le`), with `_count` and
    /// `_sum`. None of them ever decreases.
    Histogram,
}

/// The base unit, which is also the last part of the metric's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A count, with OpenTelemetry's name of the counted items.
    Count(&'static str),
    Seconds,
    Bytes,
    Hertz,
    /// A share from 0 to 1.
    Ratio,
    Joules,
}

impl Unit {
    /// Returns the unit's name, which OpenMetrics uses in `# UNIT` and as the metric's suffix.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count(_) => "",
            Self::Seconds => "seconds",
            Self::Bytes => "bytes",
            Self::Hertz => "hertz",
            Self::Ratio => "ratio",
            Self::Joules => "joules",
        }
    }
}

/// The source of a value at the node, container, unit, cgroup and process levels.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// Counters. The metric's own label, if it has one, is the counter's name within its group
    /// ([`Measurable::part`](crate::Measurable::part)).
    Counters(&'static [Counter]),
    /// Blocked time by class.
    Blocked(&'static [BlockClass]),
    /// Average frequency over the last tick.
    Frequency,
    /// The histogram of waits for a CPU.
    Waits,
    /// The number of threads that wait for a CPU now.
    Waiting,
    /// The longest wait in progress.
    LongestWaiting,
    /// Event counters, labelled like [`Self::Counters`].
    Events(&'static [EventCounter]),
    /// Established connections.
    Connections,
    /// Listening sockets.
    Listeners,
    /// The histogram of connect times.
    Connects,
    /// Counters of destinations, distinguished by the metric's own labels. The first label is
    /// `destination`. If there are several counters, a second label distinguishes them.
    Destinations(&'static [DestinationCounter]),
    /// Time that the subject waited while another subject, or the kernel, had the CPU.
    Blame,
    /// Active energy, by kind of zone and meter.
    Energy,
    /// Verdict on the last window: 1 for the current kind, 0 for the others.
    Verdict,
}

/// The levels, as they appear in metric names.
const LEVELS: &[&str] = &["node", "container", "unit", "cgroup", "process"];

/// Metrics that are exported below the node level only on request, because they have many series
/// that few users need. At the level of the node, these metrics are always exported.
pub const DETAILS: &[&str] = &[
    "softirqs",
    "sched_preemptions",
    "sched_waiting_threads",
    "sched_waiting_longest_seconds",
    "sleep_seconds",
];

impl Source {
    /// Returns the levels that have a value from this source, as they appear in metric names.
    pub const fn levels(&self) -> &'static [&'static str] {
        match self {
            Self::Waits
            | Self::Waiting
            | Self::LongestWaiting
            | Self::Blocked(_)
            | Self::Events(_)
            | Self::Connections
            | Self::Listeners
            | Self::Connects => LEVELS.split_at(4).0,
            Self::Blame | Self::Verdict | Self::Destinations(_) => {
                LEVELS.split_at(4).0.split_at(1).1
            }
            Self::Energy => LEVELS.split_at(1).1,
            _ => LEVELS,
        }
    }
}

/// A metric. The values of counters in nanoseconds are exported in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Metric<S = Source> {
    /// Name without the prefix `noctule_`, the level and the suffix `_total`.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    pub unit: Unit,
    /// The metric's own labels, in addition to the labels of the level.
    pub labels: &'static [&'static str],
    /// Description in one sentence.
    pub help: &'static str,
    /// Source of the value.
    pub source: S,
    /// The meaning of an absent metric.
    pub absent: &'static str,
}

const fn counter<S>(name: &'static str, unit: Unit, source: S) -> Metric<S> {
    Metric {
        name,
        kind: Kind::Counter,
        unit,
        labels: &[],
        help: "",
        source,
        absent: "never",
    }
}

const fn gauge<S: Copy>(name: &'static str, unit: Unit, source: S) -> Metric<S> {
    let metric = counter(name, unit, source);
    Metric {
        kind: Kind::Gauge,
        ..metric
    }
}

const fn histogram(name: &'static str, source: Source) -> Metric {
    Metric {
        kind: Kind::Histogram,
        ..counter(name, Seconds, source)
    }
}

impl<S: Copy> Metric<S> {
    const fn labels(self, labels: &'static [&'static str]) -> Self {
        Self { labels, ..self }
    }

    const fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }

    const fn absent(self, absent: &'static str) -> Self {
        Self { absent, ..self }
    }
}

const NO_WAITS: &str = "waits are switched off in the configuration";
const NO_PROCESSES: &str = "process events are switched off, or the kernel does not support them";
const NO_TCP: &str = "TCP events are switched off, or the kernel does not support them";
const NO_FILES: &str = "file events are switched off, or the kernel does not support them";
const NO_METER: &str = "the machine has no readable energy meter, and no power model is configured";
const NO_PMU: &str =
    "the machine has no such hardware counter, or the agent is not allowed to use it";

/// Outgoing connections, by result.
const CONNECTS: [EventCounter; 6] = [
    EventCounter::TcpConnects,
    EventCounter::TcpConnectFailures(ConnectError::Refused),
    EventCounter::TcpConnectFailures(ConnectError::Timeout),
    EventCounter::TcpConnectFailures(ConnectError::Abandoned),
    EventCounter::TcpConnectFailures(ConnectError::Unreachable),
    EventCounter::TcpConnectFailures(ConnectError::Other),
];

/// The metrics of the levels: `noctule_node_*`, `noctule_container_*`, `noctule_unit_*`,
/// `noctule_cgroup_*` and `noctule_process_*`. Most exist at all levels ([`Source::levels`]).
#[rustfmt::skip]
pub const METRICS: &[Metric] = &[
    counter("cpu_seconds", Seconds, Counters(&[Counter::CpuTime]))
        .help("CPU time, as accounted by the scheduler (se.sum_exec_runtime).")
        .absent("the task iterator could not be loaded"),
    counter("cpu_cycles", Count("{cycle}"), Counters(&[Counter::Cycles]))
        .help("CPU cycles, scaled if the counter was multiplexed.")
        .absent(NO_PMU),
    counter("cpu_reference_cycles", Count("{cycle}"), Counters(&[Counter::ReferenceCycles]))
        .help("Cycles at the nominal frequency, scaled if the counter was multiplexed.")
        .absent(NO_PMU),
    counter("cpu_instructions", Count("{instruction}"), Counters(&[Counter::Instructions]))
        .help("Retired instructions, scaled if the counter was multiplexed.")
        .absent(NO_PMU),
    counter("cpu_cache_misses", Count("{miss}"), Counters(&[Counter::CacheMisses]))
        .help("Last-level cache misses, scaled if the counter was multiplexed.")
        .absent(NO_PMU),
    counter("cpu_sibling_busy_seconds", Seconds, Counters(&[Counter::SiblingBusy]))
        .help("Time on a CPU while the other hardware thread of its core (SMT) was also busy.")
        .absent("no core of this machine has two hardware threads"),
    gauge("cpu_frequency_hertz", Hertz, Frequency)
        .help("Average CPU frequency while running, over the last tick.")
        .absent("cycles are not measured, or nothing ran in the last tick"),
    counter("page_cache_accesses", Count("{access}"), Counters(&[Counter::PageReads, Counter::PageWrites]))
        .labels(&["op"])
        .help("Pages read through the page cache, and page-cache pages dirtied.")
        .absent("the kernel has no suitable hook, or the agent has no permission to use it"),
    counter("softirqs", Count("{softirq}"), Counters(&Counter::SOFTIRQS))
        .labels(&["vector"])
        .help("Softirqs, counted for the interrupted task, whether or not that task caused them.")
        .absent("the tracepoint irq:softirq_entry could not be attached"),
    counter("sched_switches", Count("{switch}"),
        Counters(&[Counter::SwitchesVoluntary, Counter::SwitchesPreempted, Counter::SwitchesThrottled]))
        .labels(&["kind"])
        .help("Context switches: voluntary, preempted, or throttled by a CPU quota.")
        .absent("the task iterator could not be loaded; for `throttled`: waits are not measured"),
    counter("sched_wait_seconds", Seconds, Counters(&Counter::WAITS))
        .labels(&["cause"])
        .help("Run-queue latency: time that threads were runnable but not running, by cause.")
        .absent(NO_WAITS),
    histogram("sched_wait_duration_seconds", Waits)
        .help("Distribution of run-queue latency. Each time that a thread gets a CPU counts as one wait, even without a delay.")
        .absent(NO_WAITS),
    gauge("sched_waiting_threads", Count("{thread}"), Waiting)
        .help("Number of threads that are runnable but not running at the time of the tick, including throttled threads.")
        .absent(NO_WAITS),
    gauge("sched_waiting_longest_seconds", Seconds, LongestWaiting)
        .help("Longest wait in progress at the time of the tick; 0 if no thread is waiting. sched_wait_seconds includes the elapsed part of a wait in progress; sched_wait_duration_seconds includes a wait once it has ended.")
        .absent(NO_WAITS),
    counter("sched_blame_seconds", Seconds, Blame)
        .labels(&["culprit", "culprit_kind"])
        .help("Time that threads waited while another group (the culprit) had the CPU, by culprit.")
        .absent(NO_WAITS),
    counter("sched_preemptions", Count("{preemption}"), Counters(&Counter::PREEMPTIONS))
        .labels(&["by"])
        .help("Preemptions of runnable threads, by the kind of task that got the CPU.")
        .absent(NO_WAITS),
    counter("blocked_seconds", Seconds, Blocked(&[Lock, Disk, Filesystem, Memory, Writeback, Stopped]))
        .labels(&["class"])
        .help("Time that threads were blocked although they may have had work to do, by class (docs/blocked.md).")
        .absent(NO_WAITS),
    counter("sleep_seconds", Seconds, Blocked(&[Poll, Timer, Pipe, Unix, Loopback, Network, Child, Other]))
        .labels(&["class"])
        .help("Time that threads slept for lack of work, or waited for another process or host, by class (docs/blocked.md).")
        .absent(NO_WAITS),
    gauge("sched_verdict", Count("{verdict}"), Verdict)
        .labels(&["verdict"])
        .help("Verdict for the last window (docs/glossary.md): 1 for the current verdict, 0 for earlier ones.")
        .absent("waits are switched off in the configuration, or the first window is still open"),
    counter("energy_joules", Joules, Energy)
        .labels(&["zone", "source"])
        .help("Active energy by zone. Does not include the idle energy of the zone.")
        .absent(NO_METER),
    counter("process_starts", Count("{process}"), Events(&[EventCounter::ProcessStarts]))
        .help("Processes forked, counted for the group in which they first ran.")
        .absent(NO_PROCESSES),
    counter("process_exits", Count("{process}"), Events(&EventCounter::EXITS))
        .labels(&["reason"])
        .help("Processes whose last thread exited: with code 0, with another code, killed by a signal, or killed by the OOM killer.")
        .absent(NO_PROCESSES),
    counter("oom_kills", Count("{process}"), Events(&[EventCounter::OomKills]))
        .help("Processes killed by the OOM killer. Processes that were selected but survived are not counted.")
        .absent(NO_PROCESSES),
    counter("tcp_connects", Count("{connection}"), Events(&CONNECTS))
        .labels(&["result"])
        .help("Outgoing connection attempts by result: established (`ok`), or the reason for the failure. Each is counted when its result is known.")
        .absent(NO_TCP),
    histogram("tcp_connect_seconds", Connects)
        .help("Time from the connect call to the end of the handshake, for established outgoing connections.")
        .absent(NO_TCP),
    counter("tcp_accepts", Count("{connection}"), Events(&[EventCounter::TcpAccepts]))
        .help("Incoming connections, counted for the group that started listening.")
        .absent(NO_TCP),
    counter("tcp_retransmits", Count("{segment}"), Events(&[EventCounter::TcpRetransmits]))
        .help("Retransmitted segments, including those of handshakes.")
        .absent(NO_TCP),
    counter("tcp_bytes", Bytes, Events(&[EventCounter::TcpBytesSent, EventCounter::TcpBytesReceived]))
        .labels(&["direction"])
        .help("Payload bytes as of the tick. Each byte is counted once; sent bytes are counted when they are acknowledged. Bytes are charged to the group that connected or started listening.")
        .absent(NO_TCP),
    gauge("tcp_connections", Count("{connection}"), Connections)
        .help("Number of established connections, incoming and outgoing, counted for the group that connected or started listening.")
        .absent(NO_TCP),
    gauge("tcp_listeners", Count("{socket}"), Listeners)
        .help("Number of listening sockets, counted for the group that started listening.")
        .absent(NO_TCP),
    counter("tcp_destination_connects", Count("{connection}"),
        Destinations(&[DestinationCounter::Connects, DestinationCounter::Failures]))
        .labels(&["destination", "result"])
        .help("Outgoing connection attempts by destination: established or failed.")
        .absent(NO_TCP),
    counter("tcp_destination_connect_seconds", Seconds, Destinations(&[DestinationCounter::ConnectNs]))
        .labels(&["destination"])
        .help("Total time from the connect call to the end of the handshake, for established outgoing connections, by destination.")
        .absent(NO_TCP),
    counter("tcp_destination_bytes", Bytes,
        Destinations(&[DestinationCounter::BytesSent, DestinationCounter::BytesReceived]))
        .labels(&["destination", "direction"])
        .help("Payload bytes of outgoing connections as of the tick, by destination. Each byte is counted once; sent bytes are counted when they are acknowledged.")
        .absent(NO_TCP),
    counter("tcp_destination_retransmits", Count("{segment}"), Destinations(&[DestinationCounter::Retransmits]))
        .labels(&["destination"])
        .help("Retransmitted segments of outgoing connections, by destination.")
        .absent(NO_TCP),
    counter("file_opens", Count("{file}"), Events(&EventCounter::OPENS))
        .labels(&["mode"])
        .help("Files opened, read-only or for writing.")
        .absent(NO_FILES),
    counter("file_open_failures", Count("{file}"), Events(&[EventCounter::FileOpenFailures]))
        .help("Failed attempts to open a file.")
        .absent(NO_FILES),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::Measurable as _;

    fn check<S>(metrics: &[Metric<S>]) {
        let mut names = HashSet::new();
        for metric in metrics {
            let name = metric.name;
            assert!(names.insert(name), "{name} is defined twice");
            let fine = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(
                name.chars().all(fine),
                "{name} has another character than a-z and _"
            );
            assert!(
                name.ends_with(metric.unit.name()),
                "{name} does not end with its unit"
            );
            assert!(
                !name.ends_with("_total"),
                "{name}: the suffix comes from the kind"
            );
            assert!(metric.help.ends_with('.'), "{name}: help is a sentence");
            assert!(
                !metric.absent.is_empty(),
                "{name}: says what its absence means"
            );
            let labels: HashSet<_> = metric.labels.iter().collect();
            assert_eq!(labels.len(), metric.labels.len(), "{name} repeats a label");
        }
    }

    #[test]
    fn the_tables_keep_the_naming_rules() {
        check(METRICS);
        check(SELF_METRICS);
    }

    #[test]
    fn details_exist_at_the_node_level() {
        for name in DETAILS {
            let metric = METRICS.iter().find(|metric| metric.name == *name);
            let metric = metric.unwrap_or_else(|| panic!("{name} is not a metric"));
            assert!(metric.source.levels().contains(&"node"), "{name}");
        }
    }

    #[test]
    fn kepler_names_are_unique_per_version() {
        let mut names = HashSet::new();
        for metric in KEPLER_METRICS {
            let name = metric.name;
            assert!(names.insert((metric.version.name(), name)), "{name}");
            assert!(name.starts_with("kepler_") && !name.ends_with("_total"));
            match metric.offer {
                KeplerOffer::Given(_) => {
                    assert!(metric.help.ends_with('.'), "{name}: help is a sentence");
                    assert!(!metric.labels().is_empty(), "{name} has no labels");
                }
                KeplerOffer::Not(why) => assert!(!why.is_empty(), "{name}"),
            }
        }
        // A name that noctule exports must have one meaning in all versions of Kepler.
        let offered = KEPLER_METRICS
            .iter()
            .filter(|it| matches!(it.offer, KeplerOffer::Given(_)));
        let offered: Vec<_> = offered.map(|it| it.name).collect();
        let once: HashSet<_> = offered.iter().collect();
        assert_eq!(once.len(), offered.len());
    }

    #[test]
    fn foreign_names_are_unique() {
        let mut names = HashSet::new();
        for metric in FOREIGN_METRICS {
            let (name, exporter) = (metric.name, format!("{:?}", metric.exporter));
            assert!(names.insert((exporter, name)), "{name}");
            match metric.offer {
                ForeignOffer::Given(_) => {
                    assert!(metric.help.ends_with('.'), "{name}: help is a sentence");
                    assert!(!name.contains('*'), "{name}");
                    let total = name.ends_with("_total");
                    assert_eq!(total, metric.kind == Kind::Counter, "{name}");
                }
                ForeignOffer::Not(why) => assert!(!why.is_empty(), "{name}"),
            }
        }
    }

    #[test]
    fn every_counter_has_exactly_one_metric() {
        let mut seen = HashSet::new();
        for metric in METRICS {
            let counters: Vec<Counter> = match metric.source {
                Counters(list) => list.to_vec(),
                Blocked(classes) => classes.iter().copied().map(Counter::Blocked).collect(),
                _ => vec![],
            };
            for counter in counters {
                assert!(seen.insert(counter), "{counter:?} is in two metrics");
            }
        }
        assert_eq!(seen, Counter::all().collect());
    }

    #[test]
    fn every_counter_of_events_has_exactly_one_metric() {
        let mut seen = HashSet::new();
        for metric in METRICS {
            let counters: Vec<EventCounter> = match metric.source {
                Events(list) => list.to_vec(),
                Connects => vec![EventCounter::TcpConnectNs],
                _ => vec![],
            };
            for counter in counters {
                assert!(seen.insert(counter), "{counter:?} is in two metrics");
            }
        }
        assert_eq!(seen, EventCounter::all().collect());
    }

    #[test]
    fn counters_with_a_label_have_different_names_within_the_metric() {
        let parts = |metric: &Metric| -> Vec<&str> {
            match metric.source {
                Counters(list) => list.iter().map(|it| it.part()).collect(),
                Events(list) => list.iter().map(|it| it.part()).collect(),
                _ => Vec::new(),
            }
        };
        for metric in METRICS.iter().filter(|metric| !parts(metric).is_empty()) {
            let names: HashSet<&str> = parts(metric).into_iter().collect();
            assert_eq!(names.len(), parts(metric).len(), "{}", metric.name);
            let is_labelled = !metric.labels.is_empty();
            assert!(!is_labelled || !names.contains(""), "{}", metric.name);
            assert!(is_labelled || names.len() == 1, "{}", metric.name);
        }
    }

    #[test]
    fn parts_of_destinations_have_labels() {
        let mut seen = HashSet::new();
        for metric in METRICS {
            let Destinations(parts) = metric.source else {
                continue;
            };
            assert_eq!(metric.labels.len(), 1 + usize::from(parts.len() > 1));
            assert_eq!(metric.labels[0], "destination");
            for counter in parts {
                assert!(seen.insert(*counter), "{counter:?} is in two metrics");
            }
        }
        assert_eq!(seen, DestinationCounter::ALL.into());
    }
}
