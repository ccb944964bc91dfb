//! The metric table, which defines every metric once. The exposition formats and the documentation
//! derive from it.

mod foreign;
mod kepler;
mod otel;
mod own;

use Unit::{Bytes, Count, Joules, Ratio, Seconds};

use crate::{
    BlockClass, Cause, ConnectError, Counter, DestinationCounter, EventCounter, ExitKind, FileMode,
    Preemptor,
};
pub use foreign::{FOREIGN_METRICS, ForeignExporter, ForeignMetric, ForeignOffer, ForeignSource};
pub use kepler::{
    KEPLER_METRICS, KeplerLevel, KeplerMetric, KeplerOffer, KeplerPart, KeplerSource, KeplerVersion,
};
pub use otel::{OTEL_CONVENTIONS, OtelConvention, OtelKind, OtelMetric, otel_attributes};
pub use own::{SELF_METRICS, SelfSource};

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only goes up; its samples have the suffix `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Cumulative counts of values up to bounds (`_bucket` with the label `le`), with `_count` and
    /// `_sum`. All of them only go up.
    Histogram,
}

/// Base unit. Its name is the last part of the metric's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A count, with OpenTelemetry's name of what is counted.
    Count(&'static str),
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Hertz.
    Hertz,
    /// A share from 0 to 1.
    Ratio,
    /// Joules.
    Joules,
}

impl Unit {
    /// Returns the name used by OpenMetrics' `# UNIT` and as the metric's suffix.
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
    /// A counter in nanoseconds, exported in seconds.
    Nanoseconds(Counter),
    /// A plain counter.
    Count(Counter),
    /// Several counters, distinguished by the metric's own label.
    Labelled(&'static [(&'static str, Counter)]),
    /// Like [`Self::Labelled`], for counters in nanoseconds that are exported in seconds.
    LabelledNanoseconds(&'static [(&'static str, Counter)]),
    /// Blocked time by class, in nanoseconds, shown in seconds.
    Blocked(&'static [(&'static str, Counter)]),
    /// Average frequency over the last tick.
    Frequency,
    /// The histogram of waits for a CPU.
    Waits,
    /// The number of threads that wait for a CPU now.
    Waiting,
    /// The longest wait in progress.
    LongestWaiting,
    /// A plain event counter.
    Event(EventCounter),
    /// Several event counters, distinguished by the metric's own label.
    LabelledEvents(&'static [(&'static str, EventCounter)]),
    /// Established connections.
    Connections,
    /// Listening sockets.
    Listeners,
    /// The histogram of connect times.
    Connects,
    /// Counters of destinations, distinguished by the metric's own labels. The first label is
    /// `destination`; the second, if there are several counters, is the part.
    Destinations(&'static [(&'static str, DestinationCounter)]),
    /// Time waited while another subject, or the kernel, had the CPU.
    Blame,
    /// Active energy, by kind of zone and meter.
    Energy,
    /// Verdict on the last window: 1 for the current kind, 0 for the others.
    Verdict,
}

/// The levels, as they appear in metric names.
const LEVELS: &[&str] = &["node", "container", "unit", "cgroup", "process"];

/// Metrics that are exported below the node level only on request, because they have many series
/// that few users need. The node always has them.
pub const DETAILS: &[&str] = &[
    "softirqs",
    "sched_preemptions",
    "sched_waiting_threads",
    "sched_waiting_longest_seconds",
    "sleep_seconds",
];

impl Source {
    /// Returns the levels that have such a value, as they appear in metric names.
    pub const fn levels(&self) -> &'static [&'static str] {
        match self {
            Self::Waits
            | Self::Waiting
            | Self::LongestWaiting
            | Self::Blocked(_)
            | Self::Event(_)
            | Self::LabelledEvents(_)
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

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric<S = Source> {
    /// Name without the prefix `noctule_`, the level and the suffix `_total`.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Unit.
    pub unit: Unit,
    /// Labels of its own, in addition to those of the level.
    pub labels: &'static [&'static str],
    /// Description in one sentence.
    pub help: &'static str,
    /// Source of the value.
    pub source: S,
    /// What the absence of the metric means.
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
        absent: "never absent",
    }
}

const fn gauge<S: Copy>(name: &'static str, unit: Unit, source: S) -> Metric<S> {
    let metric = counter(name, unit, source);
    Metric {
        kind: Kind::Gauge,
        ..metric
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
const NO_PROCESSES: &str = "process events are switched off, or the kernel lacks a hook for them";
const NO_TCP: &str = "TCP events are switched off, or the kernel lacks a hook for them";
const NO_FILES: &str = "file events are switched off, or the kernel lacks a hook for them";
const NO_METER: &str = "the machine has no readable energy meter, and no power model is configured";
const NO_PMU: &str =
    "the machine has no such hardware counter, or the agent is not allowed to use it";

/// The metrics of the levels: `noctule_node_*`, `noctule_container_*`, `noctule_unit_*`,
/// `noctule_cgroup_*` and `noctule_process_*`. Most exist at all levels ([`Source::levels`]).
pub const METRICS: &[Metric] = &[
    Metric {
        name: "cpu_seconds",
        kind: Kind::Counter,
        unit: Seconds,
        labels: &[],
        help: "CPU time, as accounted by the scheduler (se.sum_exec_runtime).",
        source: Source::Nanoseconds(Counter::CpuTime),
        absent: "the task iterator could not be loaded",
    },
    Metric {
        name: "cpu_cycles",
        kind: Kind::Counter,
        unit: Count("{cycle}"),
        labels: &[],
        help: "CPU cycles, scaled if the counter was multiplexed.",
        source: Source::Count(Counter::Cycles),
        absent: NO_PMU,
    },
    Metric {
        name: "cpu_reference_cycles",
        kind: Kind::Counter,
        unit: Count("{cycle}"),
        labels: &[],
        help: "Cycles at the nominal frequency, scaled if the counter was multiplexed.",
        source: Source::Count(Counter::ReferenceCycles),
        absent: NO_PMU,
    },
    Metric {
        name: "cpu_instructions",
        kind: Kind::Counter,
        unit: Count("{instruction}"),
        labels: &[],
        help: "Retired instructions, scaled if the counter was multiplexed.",
        source: Source::Count(Counter::Instructions),
        absent: NO_PMU,
    },
    Metric {
        name: "cpu_cache_misses",
        kind: Kind::Counter,
        unit: Count("{miss}"),
        labels: &[],
        help: "Last-level cache misses, scaled if the counter was multiplexed.",
        source: Source::Count(Counter::CacheMisses),
        absent: NO_PMU,
    },
    Metric {
        name: "cpu_sibling_busy_seconds",
        kind: Kind::Counter,
        unit: Seconds,
        labels: &[],
        help: "Time on a CPU while the other hardware thread of its core (SMT) was also busy.",
        source: Source::Nanoseconds(Counter::SiblingBusy),
        absent: "no core of this machine has two hardware threads",
    },
    Metric {
        name: "cpu_frequency_hertz",
        kind: Kind::Gauge,
        unit: Unit::Hertz,
        labels: &[],
        help: "Average CPU frequency while running, over the last tick.",
        source: Source::Frequency,
        absent: "cycles are not measured, or nothing ran in the last tick",
    },
    Metric {
        name: "page_cache_accesses",
        kind: Kind::Counter,
        unit: Count("{access}"),
        labels: &["op"],
        help: "Pages read through the page cache, and page-cache pages dirtied.",
        source: Source::Labelled(&[("read", Counter::PageReads), ("write", Counter::PageWrites)]),
        absent: "the kernel has no suitable hook, or the agent lacks the privileges to use it",
    },
    Metric {
        name: "softirqs",
        kind: Kind::Counter,
        unit: Count("{softirq}"),
        labels: &["vector"],
        help: "Softirqs, counted for the interrupted task, whether or not that task caused them.",
        source: Source::Labelled(&[
            ("hi", Counter::Softirq(0)),
            ("timer", Counter::Softirq(1)),
            ("net_tx", Counter::Softirq(2)),
            ("net_rx", Counter::Softirq(3)),
            ("block", Counter::Softirq(4)),
            ("irq_poll", Counter::Softirq(5)),
            ("tasklet", Counter::Softirq(6)),
            ("sched", Counter::Softirq(7)),
            ("hrtimer", Counter::Softirq(8)),
            ("rcu", Counter::Softirq(9)),
        ]),
        absent: "the tracepoint irq:softirq_entry could not be attached",
    },
    Metric {
        name: "sched_switches",
        kind: Kind::Counter,
        unit: Count("{switch}"),
        labels: &["kind"],
        help: "Context switches: voluntary, preempted, or throttled by a CPU quota.",
        source: Source::Labelled(&[
            ("voluntary", Counter::SwitchesVoluntary),
            ("preempted", Counter::SwitchesPreempted),
            ("throttled", Counter::SwitchesThrottled),
        ]),
        absent: "the task iterator could not be loaded; for `throttled`: waits are not measured",
    },
    Metric {
        name: "sched_wait_seconds",
        kind: Kind::Counter,
        unit: Seconds,
        labels: &["cause"],
        help: "Run-queue latency: time that threads were runnable but not running, by cause.",
        source: Source::LabelledNanoseconds(&[
            ("throttle", Counter::Wait(Cause::Throttle)),
            ("neighbour", Counter::Wait(Cause::Neighbour)),
            ("self", Counter::Wait(Cause::Own)),
            ("kernel", Counter::Wait(Cause::Kernel)),
            ("interrupt", Counter::Wait(Cause::Interrupt)),
            ("host", Counter::Wait(Cause::Host)),
            ("idle", Counter::Wait(Cause::Idle)),
            ("unattributed", Counter::Wait(Cause::Unattributed)),
        ]),
        absent: NO_WAITS,
    },
    Metric {
        name: "sched_wait_duration_seconds",
        kind: Kind::Histogram,
        unit: Seconds,
        labels: &[],
        help: "Distribution of run-queue latency. Each time that a thread gets a CPU counts as one wait, even without a delay.",
        source: Source::Waits,
        absent: NO_WAITS,
    },
    Metric {
        name: "sched_waiting_threads",
        kind: Kind::Gauge,
        unit: Count("{thread}"),
        labels: &[],
        help: "Number of threads that are runnable but not running at the time of the tick, including throttled threads.",
        source: Source::Waiting,
        absent: NO_WAITS,
    },
    Metric {
        name: "sched_waiting_longest_seconds",
        kind: Kind::Gauge,
        unit: Seconds,
        labels: &[],
        help: "Longest wait in progress at the time of the tick; 0 if no thread is waiting. sched_wait_seconds includes the elapsed part of a wait in progress; sched_wait_duration_seconds includes a wait once it has ended.",
        source: Source::LongestWaiting,
        absent: NO_WAITS,
    },
    Metric {
        name: "sched_blame_seconds",
        kind: Kind::Counter,
        unit: Seconds,
        labels: &["culprit", "culprit_kind"],
        help: "Time that threads waited while another group (the culprit) had the CPU, by culprit.",
        source: Source::Blame,
        absent: NO_WAITS,
    },
    Metric {
        name: "sched_preemptions",
        kind: Kind::Counter,
        unit: Count("{preemption}"),
        labels: &["by"],
        help: "Preemptions of runnable threads, by the kind of task that got the CPU.",
        source: Source::Labelled(&[
            ("neighbour", Counter::PreemptedBy(Preemptor::Neighbour)),
            ("self", Counter::PreemptedBy(Preemptor::Own)),
            ("kernel", Counter::PreemptedBy(Preemptor::Kernel)),
        ]),
        absent: NO_WAITS,
    },
    Metric {
        name: "blocked_seconds",
        kind: Kind::Counter,
        unit: Seconds,
        labels: &["class"],
        help: "Time that threads were blocked although they may have had work to do, by class (docs/blocked.md).",
        source: Source::Blocked(&[
            ("lock", Counter::Blocked(BlockClass::Lock)),
            ("disk", Counter::Blocked(BlockClass::Disk)),
            ("filesystem", Counter::Blocked(BlockClass::Filesystem)),
            ("memory", Counter::Blocked(BlockClass::Memory)),
            ("writeback", Counter::Blocked(BlockClass::Writeback)),
            ("stopped", Counter::Blocked(BlockClass::Stopped)),
        ]),
        absent: NO_WAITS,
    },
    Metric {
        name: "sleep_seconds",
        kind: Kind::Counter,
        unit: Seconds,
        labels: &["class"],
        help: "Time that threads slept for lack of work, or waited for another process or host, by class (docs/blocked.md).",
        source: Source::Blocked(&[
            ("poll", Counter::Blocked(BlockClass::Poll)),
            ("timer", Counter::Blocked(BlockClass::Timer)),
            ("pipe", Counter::Blocked(BlockClass::Pipe)),
            ("unix", Counter::Blocked(BlockClass::Unix)),
            ("loopback", Counter::Blocked(BlockClass::Loopback)),
            ("network", Counter::Blocked(BlockClass::Network)),
            ("child", Counter::Blocked(BlockClass::Child)),
            ("other", Counter::Blocked(BlockClass::Other)),
        ]),
        absent: NO_WAITS,
    },
    Metric {
        name: "sched_verdict",
        kind: Kind::Gauge,
        unit: Count("{verdict}"),
        labels: &["verdict"],
        help: "Verdict for the last window (docs/glossary.md): 1 for the current verdict, 0 for earlier ones.",
        source: Source::Verdict,
        absent: "waits are switched off in the configuration, or the first window has not ended",
    },
    Metric {
        name: "energy_joules",
        kind: Kind::Counter,
        unit: Joules,
        labels: &["zone", "source"],
        help: "Active energy by zone. Does not include the idle energy of the zone.",
        source: Source::Energy,
        absent: NO_METER,
    },
    Metric {
        name: "process_starts",
        kind: Kind::Counter,
        unit: Count("{process}"),
        labels: &[],
        help: "Processes forked, counted for the group in which they first ran.",
        source: Source::Event(EventCounter::ProcessStarts),
        absent: NO_PROCESSES,
    },
    Metric {
        name: "process_exits",
        kind: Kind::Counter,
        unit: Count("{process}"),
        labels: &["reason"],
        help: "Processes whose last thread exited: with code 0, with another code, killed by a signal, or killed by the OOM killer.",
        source: Source::LabelledEvents(&[
            ("completed", EventCounter::ProcessExits(ExitKind::Completed)),
            ("failed", EventCounter::ProcessExits(ExitKind::Failed)),
            ("killed", EventCounter::ProcessExits(ExitKind::Killed)),
            ("oom", EventCounter::ProcessExits(ExitKind::OomKilled)),
        ]),
        absent: NO_PROCESSES,
    },
    Metric {
        name: "oom_kills",
        kind: Kind::Counter,
        unit: Count("{process}"),
        labels: &[],
        help: "Processes killed by the OOM killer. Processes that were selected but survived are not counted.",
        source: Source::Event(EventCounter::OomKills),
        absent: NO_PROCESSES,
    },
    Metric {
        name: "tcp_connects",
        kind: Kind::Counter,
        unit: Count("{connection}"),
        labels: &["result"],
        help: "Outgoing connection attempts by result: established (`ok`), or the reason for the failure. Each is counted when its result is known.",
        source: Source::LabelledEvents(&[
            ("ok", EventCounter::TcpConnects),
            (
                "refused",
                EventCounter::TcpConnectFailures(ConnectError::Refused),
            ),
            (
                "timeout",
                EventCounter::TcpConnectFailures(ConnectError::Timeout),
            ),
            (
                "abandoned",
                EventCounter::TcpConnectFailures(ConnectError::Abandoned),
            ),
            (
                "unreachable",
                EventCounter::TcpConnectFailures(ConnectError::Unreachable),
            ),
            (
                "other",
                EventCounter::TcpConnectFailures(ConnectError::Other),
            ),
        ]),
        absent: NO_TCP,
    },
    Metric {
        name: "tcp_connect_seconds",
        kind: Kind::Histogram,
        unit: Seconds,
        labels: &[],
        help: "Time from the connect call to the end of the handshake, for established outgoing connections.",
        source: Source::Connects,
        absent: NO_TCP,
    },
    Metric {
        name: "tcp_accepts",
        kind: Kind::Counter,
        unit: Count("{connection}"),
        labels: &[],
        help: "Incoming connections, counted for the group that started listening.",
        source: Source::Event(EventCounter::TcpAccepts),
        absent: NO_TCP,
    },
    Metric {
        name: "tcp_retransmits",
        kind: Kind::Counter,
        unit: Count("{segment}"),
        labels: &[],
        help: "Retransmitted segments, including those of handshakes.",
        source: Source::Event(EventCounter::TcpRetransmits),
        absent: NO_TCP,
    },
    Metric {
        name: "tcp_bytes",
        kind: Kind::Counter,
        unit: Bytes,
        labels: &["direction"],
        help: "Payload bytes as of the tick. Each byte is counted once; sent bytes are counted when they are acknowledged. Bytes are charged to the group that connected or started listening.",
        source: Source::LabelledEvents(&[
            ("sent", EventCounter::TcpBytesSent),
            ("received", EventCounter::TcpBytesReceived),
        ]),
        absent: NO_TCP,
    },
    Metric {
        name: "tcp_connections",
        kind: Kind::Gauge,
        unit: Count("{connection}"),
        labels: &[],
        help: "Number of established connections, incoming and outgoing, counted for the group that connected or started listening.",
        source: Source::Connections,
        absent: NO_TCP,
    },
    Metric {
        name: "tcp_listeners",
        kind: Kind::Gauge,
        unit: Count("{socket}"),
        labels: &[],
        help: "Number of listening sockets, counted for the group that started listening.",
        source: Source::Listeners,
        absent: NO_TCP,
    },
    Metric {
        name: "tcp_destination_connects",
        kind: Kind::Counter,
        unit: Count("{connection}"),
        labels: &["destination", "result"],
        help: "Outgoing connection attempts by destination: established or failed.",
        source: Source::Destinations(&[
            ("ok", DestinationCounter::Connects),
            ("failed", DestinationCounter::Failures),
        ]),
        absent: NO_TCP,
    },
    Metric {
        name: "tcp_destination_connect_seconds",
        kind: Kind::Counter,
        unit: Seconds,
        labels: &["destination"],
        help: "Total time from the connect call to the end of the handshake, for established outgoing connections, by destination.",
        source: Source::Destinations(&[("", DestinationCounter::ConnectNs)]),
        absent: NO_TCP,
    },
    Metric {
        name: "tcp_destination_bytes",
        kind: Kind::Counter,
        unit: Bytes,
        labels: &["destination", "direction"],
        help: "Payload bytes of outgoing connections as of the tick, by destination. Each byte is counted once; sent bytes are counted when they are acknowledged.",
        source: Source::Destinations(&[
            ("sent", DestinationCounter::BytesSent),
            ("received", DestinationCounter::BytesReceived),
        ]),
        absent: NO_TCP,
    },
    Metric {
        name: "tcp_destination_retransmits",
        kind: Kind::Counter,
        unit: Count("{segment}"),
        labels: &["destination"],
        help: "Retransmitted segments of outgoing connections, by destination.",
        source: Source::Destinations(&[("", DestinationCounter::Retransmits)]),
        absent: NO_TCP,
    },
    Metric {
        name: "file_opens",
        kind: Kind::Counter,
        unit: Count("{file}"),
        labels: &["mode"],
        help: "Files opened, read-only or for writing.",
        source: Source::LabelledEvents(&[
            ("read", EventCounter::FileOpens(FileMode::Read)),
            ("write", EventCounter::FileOpens(FileMode::Write)),
        ]),
        absent: NO_FILES,
    },
    Metric {
        name: "file_open_failures",
        kind: Kind::Counter,
        unit: Count("{file}"),
        labels: &[],
        help: "Failed attempts to open a file.",
        source: Source::Event(EventCounter::FileOpenFailures),
        absent: NO_FILES,
    },
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

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
        // An offered name has one meaning, whichever version it comes from.
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
                Source::Nanoseconds(c) | Source::Count(c) => vec![c],
                Source::Labelled(list)
                | Source::LabelledNanoseconds(list)
                | Source::Blocked(list) => list.iter().map(|&(_, c)| c).collect(),
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
                Source::Event(counter) => vec![counter],
                Source::LabelledEvents(list) => list.iter().map(|&(_, c)| c).collect(),
                Source::Connects => vec![EventCounter::TcpConnectNs],
                _ => vec![],
            };
            for counter in counters {
                assert!(seen.insert(counter), "{counter:?} is in two metrics");
            }
        }
        assert_eq!(seen, EventCounter::all().collect());
    }

    #[test]
    fn labels_of_events_are_the_names_of_their_kinds() {
        let lists = METRICS.iter().filter_map(|m| match m.source {
            Source::LabelledEvents(list) => Some(list),
            _ => None,
        });
        for (label, counter) in lists.flatten() {
            let name = match counter {
                EventCounter::ProcessExits(kind) => kind.name(),
                EventCounter::TcpConnectFailures(reason) => reason.name(),
                EventCounter::FileOpens(mode) => mode.name(),
                _ => continue,
            };
            assert_eq!(*label, name);
        }
    }

    #[test]
    fn parts_of_destinations_have_labels() {
        let mut seen = HashSet::new();
        for metric in METRICS {
            let Source::Destinations(parts) = metric.source else {
                continue;
            };
            assert_eq!(metric.labels.len(), 1 + usize::from(parts.len() > 1));
            assert_eq!(metric.labels[0], "destination");
            for (_, counter) in parts {
                assert!(seen.insert(*counter), "{counter:?} is in two metrics");
            }
        }
        assert_eq!(seen, DestinationCounter::ALL.into());
    }

    #[test]
    fn softirq_labels_follow_the_kernels_order() {
        let labels = METRICS.iter().find_map(|m| match m.source {
            Source::Labelled(list) if m.name == "softirqs" => Some(list),
            _ => None,
        });
        for (name, counter) in labels.expect("the softirqs metric") {
            let Counter::Softirq(vector) = counter else {
                panic!("{counter:?}")
            };
            assert_eq!(*name, crate::SOFTIRQ_VECTORS[usize::from(*vector)]);
        }
    }
}
