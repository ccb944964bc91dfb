//! The metric table: every metric is defined here once. The exposition formats and the
//! documentation derive from it.

use crate::{Cause, Counter, Preemptor};

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only goes up; its samples carry the suffix `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts of values up to bounds (`_bucket` with the label `le`), with `_count` and `_sum`. All
    /// only go up.
    Histogram,
}

/// Base unit; its name is the last part of the metric's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Counts of things.
    None,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Hertz.
    Hertz,
    /// A share between 0 and 1.
    Ratio,
}

impl Unit {
    /// The name that OpenMetrics' `# UNIT` and the suffix of the metric use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Seconds => "seconds",
            Self::Bytes => "bytes",
            Self::Hertz => "hertz",
            Self::Ratio => "ratio",
        }
    }
}

/// Where a value at the node, container, unit, cgroup and process levels comes from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// A counter in nanoseconds, shown in seconds.
    Nanoseconds(Counter),
    /// A counter as it is.
    Count(Counter),
    /// Several counters, told apart by the metric's own label.
    Labelled(&'static [(&'static str, Counter)]),
    /// The same with counters in nanoseconds, shown in seconds.
    LabelledNanoseconds(&'static [(&'static str, Counter)]),
    /// Average frequency over the last tick.
    Frequency,
    /// How long waits for a CPU were.
    Waits,
    /// How long was waited while another subject, or the kernel, had the CPU.
    Blame,
    /// What was the matter in the last window: 1 for one kind of verdict, 0 for the others.
    Verdict,
}

/// The levels, as the names of metrics have them.
const LEVELS: &[&str] = &["node", "container", "unit", "cgroup", "process"];

impl Source {
    /// The levels at which there is such a value, as the names of metrics have them.
    pub const fn levels(&self) -> &'static [&'static str] {
        match self {
            Self::Waits => LEVELS.split_at(4).0,
            Self::Blame | Self::Verdict => LEVELS.split_at(4).0.split_at(1).1,
            _ => LEVELS,
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric<S = Source> {
    /// Name without the prefix `noctule_`, the level and the suffix `_total`.
    pub name: &'static str,
    /// Behaviour.
    pub kind: Kind,
    /// Unit.
    pub unit: Unit,
    /// Labels of its own, beside those of the level.
    pub labels: &'static [&'static str],
    /// What it is, in one sentence.
    pub help: &'static str,
    /// Where the value comes from.
    pub source: S,
    /// What it means when the metric is absent.
    pub absent: &'static str,
}

const NO_WAITS: &str = "waits are switched off in the configuration";
const NO_PMU: &str = "no hardware counter for it on this machine, or no right to use it";

/// The metrics of the levels: `noctule_node_*`, `noctule_container_*`, `noctule_unit_*`,
/// `noctule_cgroup_*` and `noctule_process_*`; most of them are at all ([`Source::levels`]).
pub const METRICS: &[Metric] = &[
    Metric {
        name: "cpu_seconds",
        kind: Kind::Counter,
        unit: Unit::Seconds,
        labels: &[],
        help: "Time on a CPU, as the scheduler accounts it (se.sum_exec_runtime).",
        source: Source::Nanoseconds(Counter::CpuTime),
        absent: "the task iterator could not be loaded",
    },
    Metric {
        name: "cpu_cycles",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: &[],
        help: "CPU cycles, scaled when the counter was multiplexed.",
        source: Source::Count(Counter::Cycles),
        absent: NO_PMU,
    },
    Metric {
        name: "cpu_reference_cycles",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: &[],
        help: "Cycles at the nominal frequency, scaled when the counter was multiplexed.",
        source: Source::Count(Counter::ReferenceCycles),
        absent: NO_PMU,
    },
    Metric {
        name: "cpu_instructions",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: &[],
        help: "Retired instructions, scaled when the counter was multiplexed.",
        source: Source::Count(Counter::Instructions),
        absent: NO_PMU,
    },
    Metric {
        name: "cpu_cache_misses",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: &[],
        help: "Last-level cache misses, scaled when the counter was multiplexed.",
        source: Source::Count(Counter::CacheMisses),
        absent: NO_PMU,
    },
    Metric {
        name: "cpu_frequency_hertz",
        kind: Kind::Gauge,
        unit: Unit::Hertz,
        labels: &[],
        help: "Average frequency while running, over the last tick.",
        source: Source::Frequency,
        absent: "cycles are not measured, or nothing ran in the last tick",
    },
    Metric {
        name: "page_cache_accesses",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: &["op"],
        help: "Pages read through the page cache, and pages of it made dirty.",
        source: Source::Labelled(&[("read", Counter::PageReads), ("write", Counter::PageWrites)]),
        absent: "the kernel has no hook for it that these privileges can use",
    },
    Metric {
        name: "softirqs",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: &["vector"],
        help: "Softirqs that ran on top of it, whoever caused them.",
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
        unit: Unit::None,
        labels: &["kind"],
        help: "Times that its threads left a CPU: of their own will, preempted, or for a quota.",
        source: Source::Labelled(&[
            ("voluntary", Counter::SwitchesVoluntary),
            ("preempted", Counter::SwitchesPreempted),
            ("throttled", Counter::SwitchesThrottled),
        ]),
        absent: "the task iterator could not be loaded; throttled: waits are not measured",
    },
    Metric {
        name: "sched_wait_seconds",
        kind: Kind::Counter,
        unit: Unit::Seconds,
        labels: &["cause"],
        help: "Time that its threads waited for a CPU, by what kept them from it.",
        source: Source::LabelledNanoseconds(&[
            ("throttle", Counter::Wait(Cause::Throttle)),
            ("neighbour", Counter::Wait(Cause::Neighbour)),
            ("self", Counter::Wait(Cause::Own)),
            ("system", Counter::Wait(Cause::System)),
            ("idle", Counter::Wait(Cause::Idle)),
            ("unattributed", Counter::Wait(Cause::Unattributed)),
        ]),
        absent: NO_WAITS,
    },
    Metric {
        name: "sched_wait_duration_seconds",
        kind: Kind::Histogram,
        unit: Unit::Seconds,
        labels: &[],
        help: "How long its threads waited each time that one got a CPU, at once or not.",
        source: Source::Waits,
        absent: NO_WAITS,
    },
    Metric {
        name: "sched_blame_seconds",
        kind: Kind::Counter,
        unit: Unit::Seconds,
        labels: &["culprit"],
        help: "Time that its threads waited while another one had the CPU, by who that was.",
        source: Source::Blame,
        absent: NO_WAITS,
    },
    Metric {
        name: "sched_preemptions",
        kind: Kind::Counter,
        unit: Unit::None,
        labels: &["by"],
        help: "Times that a thread lost the CPU although it wanted to go on, by who got it.",
        source: Source::Labelled(&[
            ("neighbour", Counter::PreemptedBy(Preemptor::Neighbour)),
            ("self", Counter::PreemptedBy(Preemptor::Own)),
            ("system", Counter::PreemptedBy(Preemptor::System)),
        ]),
        absent: NO_WAITS,
    },
    Metric {
        name: "sched_verdict",
        kind: Kind::Gauge,
        unit: Unit::None,
        labels: &["verdict"],
        help: "What was the matter with its waits in the last window: 1 for that verdict, else 0.",
        source: Source::Verdict,
        absent: "waits are switched off in the configuration; the first window has not ended",
    },
];

/// Where a value of the node or of the agent itself comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfSource {
    /// Idle time of all CPUs.
    NodeIdle,
    /// How often CPUs left their idle task.
    NodeIdleSwitches,
    /// Time that is neither idle nor charged.
    NodeRemainder,
    /// Online CPUs.
    NodeCpus,
    /// CPU time of the agent.
    AgentCpu,
    /// Resident memory of the agent.
    AgentResident,
    /// Age of the last batch.
    TickAge,
    /// Time that it took to take the last batch.
    TickDuration,
    /// Time that BPF programs ran, in the measured windows.
    ProgramTime,
    /// Runs of BPF programs in the measured windows.
    ProgramRuns,
    /// Runs that were refused.
    ProgramMisses,
    /// Sum of the measured windows.
    ProgramWindow,
    /// Entries of a map.
    MapEntries,
    /// Room of a map.
    MapCapacity,
    /// Losses.
    Losses,
    /// Features.
    Feature,
    /// Subjects that the series budget folded together.
    FoldedSubjects,
    /// Pairs of a victim and a culprit that found no place.
    FoldedPairs,
    /// Version of the agent.
    BuildInfo,
}

const ALWAYS: &str = "never absent";
const NO_STATS: &str = "BPF statistics need CAP_SYS_ADMIN";

const fn own(
    name: &'static str,
    kind: Kind,
    unit: Unit,
    labels: &'static [&'static str],
    help: &'static str,
    source: SelfSource,
    absent: &'static str,
) -> Metric<SelfSource> {
    Metric {
        name,
        kind,
        unit,
        labels,
        help,
        source,
        absent,
    }
}

/// Metrics of the node as a whole and of the agent itself.
pub const SELF_METRICS: &[Metric<SelfSource>] = &[
    own(
        "node_cpu_idle_seconds",
        Kind::Counter,
        Unit::Seconds,
        &[],
        "Time that CPUs were idle, summed over them.",
        SelfSource::NodeIdle,
        "sched_switch could not be attached",
    ),
    own(
        "node_cpu_idle_switches",
        Kind::Counter,
        Unit::None,
        &[],
        "Times that a CPU left its idle task.",
        SelfSource::NodeIdleSwitches,
        "sched_switch could not be attached",
    ),
    own(
        "node_cpu_remainder_seconds",
        Kind::Gauge,
        Unit::Seconds,
        &[],
        "Elapsed CPU time that is neither idle nor charged to a process: interrupts and steal.",
        SelfSource::NodeRemainder,
        "sched_switch could not be attached",
    ),
    own(
        "node_cpus",
        Kind::Gauge,
        Unit::None,
        &[],
        "CPUs online.",
        SelfSource::NodeCpus,
        ALWAYS,
    ),
    own(
        "self_build_info",
        Kind::Gauge,
        Unit::None,
        &["version"],
        "Version of the agent; always 1.",
        SelfSource::BuildInfo,
        ALWAYS,
    ),
    own(
        "self_cpu_seconds",
        Kind::Counter,
        Unit::Seconds,
        &[],
        "User and system time of the agent's process.",
        SelfSource::AgentCpu,
        ALWAYS,
    ),
    own(
        "self_resident_memory_bytes",
        Kind::Gauge,
        Unit::Bytes,
        &[],
        "Resident memory of the agent's process.",
        SelfSource::AgentResident,
        ALWAYS,
    ),
    own(
        "self_tick_age_seconds",
        Kind::Gauge,
        Unit::Seconds,
        &[],
        "Age of the figures in this answer.",
        SelfSource::TickAge,
        ALWAYS,
    ),
    own(
        "self_tick_duration_seconds",
        Kind::Gauge,
        Unit::Seconds,
        &[],
        "Time that it took to collect the last batch.",
        SelfSource::TickDuration,
        ALWAYS,
    ),
    own(
        "self_bpf_run_seconds",
        Kind::Counter,
        Unit::Seconds,
        &["program"],
        "Time that the program ran inside the windows of self_bpf_window_seconds.",
        SelfSource::ProgramTime,
        NO_STATS,
    ),
    own(
        "self_bpf_runs",
        Kind::Counter,
        Unit::None,
        &["program"],
        "Runs of the program inside the windows of self_bpf_window_seconds.",
        SelfSource::ProgramRuns,
        NO_STATS,
    ),
    own(
        "self_bpf_recursion_misses",
        Kind::Counter,
        Unit::None,
        &["program"],
        "Runs that the kernel refused because the program was running on that CPU.",
        SelfSource::ProgramMisses,
        NO_STATS,
    ),
    own(
        "self_bpf_window_seconds",
        Kind::Counter,
        Unit::Seconds,
        &[],
        "Time in which the kernel measured the programs; outside it measuring costs nothing.",
        SelfSource::ProgramWindow,
        NO_STATS,
    ),
    own(
        "self_map_entries",
        Kind::Gauge,
        Unit::None,
        &["map"],
        "Entries in use.",
        SelfSource::MapEntries,
        ALWAYS,
    ),
    own(
        "self_map_capacity",
        Kind::Gauge,
        Unit::None,
        &["map"],
        "Entries that fit.",
        SelfSource::MapCapacity,
        ALWAYS,
    ),
    own(
        "self_losses",
        Kind::Counter,
        Unit::None,
        &["kind", "place"],
        "What should have been counted or reported and was not.",
        SelfSource::Losses,
        ALWAYS,
    ),
    own(
        "self_folded_subjects",
        Kind::Gauge,
        Unit::None,
        &["level"],
        "Rows of the level that share its overflow row for want of room.",
        SelfSource::FoldedSubjects,
        ALWAYS,
    ),
    own(
        "self_folded_blame_pairs",
        Kind::Gauge,
        Unit::None,
        &[],
        "Pairs of a victim and a culprit that have no series of their own for want of room.",
        SelfSource::FoldedPairs,
        NO_WAITS,
    ),
    own(
        "self_feature",
        Kind::Gauge,
        Unit::None,
        &["name", "state", "reason"],
        "Verdict of each feature; always 1.",
        SelfSource::Feature,
        ALWAYS,
    ),
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
    fn every_counter_has_exactly_one_metric() {
        let mut seen = HashSet::new();
        for metric in METRICS {
            let counters: Vec<Counter> = match metric.source {
                Source::Nanoseconds(c) | Source::Count(c) => vec![c],
                Source::Labelled(list) | Source::LabelledNanoseconds(list) => {
                    list.iter().map(|&(_, c)| c).collect()
                }
                Source::Frequency | Source::Waits | Source::Blame | Source::Verdict => vec![],
            };
            for counter in counters {
                assert!(seen.insert(counter), "{counter:?} is in two metrics");
            }
        }
        assert_eq!(seen, Counter::all().collect());
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
