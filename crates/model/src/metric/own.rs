//! Metrics of the node as a whole and of the agent itself.

use super::{Kind, Metric, NO_METER, NO_TCP, NO_WAITS, Unit};

/// The source of a value of the node or of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfSource {
    /// Idle time of all CPUs.
    NodeIdle,
    /// Number of times that CPUs left their idle task.
    NodeIdleSwitches,
    /// Time that is neither idle nor charged.
    NodeRemainder,
    /// Time that interrupts took from the CPUs.
    NodeInterrupt,
    /// Time that the host took from the CPUs.
    NodeSteal,
    /// Steal time that used and idle time include.
    NodeStealIncluded,
    /// Online CPUs.
    NodeCpus,
    /// Energy counted by the meters, by attribution.
    NodeEnergy,
    /// Uncertainty of the active energy.
    EnergyError,
    /// CPU time of the agent.
    AgentCpu,
    /// Resident memory of the agent.
    AgentResident,
    /// Age of the last batch.
    TickAge,
    /// Time needed to take the last batch.
    TickDuration,
    /// Run time of BPF programs, in the measured windows.
    ProgramTime,
    /// Runs of BPF programs in the measured windows.
    ProgramRuns,
    /// Runs of BPF programs that the kernel skipped.
    ProgramMisses,
    /// Sum of the measured windows.
    ProgramWindow,
    /// Entries of a map.
    MapEntries,
    /// Capacity of a map.
    MapCapacity,
    /// Losses.
    Losses,
    /// Features.
    Feature,
    /// Subjects without their own series, counted in the overflow.
    OverflowSubjects,
    /// Victim and culprit pairs for which the table has no room.
    OverflowPairs,
    /// Destinations for which the table has no room.
    OverflowDestinations,
    /// Groups that get no more rows in a full table.
    BoundedGroups,
    /// Requests refused by the agent's server.
    WebRefused,
    /// Whether the web configuration is in effect.
    WebConfigValid,
    /// Scrapes without a memory of the scrape before.
    UntrackedScrapes,
    /// Items accepted by a receiver.
    Sent,
    /// Items not delivered to a receiver.
    SendingLost,
    /// Retried requests.
    SendingRetries,
    /// Items waiting to be sent.
    SendingWaits,
    /// Bytes of the waiting items.
    SendingBytes,
    /// Version of the agent.
    BuildInfo,
}

const ALWAYS: &str = "never";
const NO_RECEIVER: &str = "no receiver is configured (section [otlp])";
const NO_STATS: &str = "the agent lacks CAP_SYS_ADMIN, or `collect.program_cost` disables BPF \
                        statistics";

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
        "Idle time, summed over all CPUs.",
        SelfSource::NodeIdle,
        "sched_switch could not be attached",
    ),
    own(
        "node_cpu_idle_switches",
        Kind::Counter,
        Unit::None,
        &[],
        "Number of times that a CPU left its idle task.",
        SelfSource::NodeIdleSwitches,
        "sched_switch could not be attached",
    ),
    own(
        "node_cpu_remainder_seconds",
        Kind::Gauge,
        Unit::Seconds,
        &[],
        "CPU time that is neither idle nor charged to a process: interrupts, plus steal time if \
         the kernel accounts it separately.",
        SelfSource::NodeRemainder,
        "sched_switch could not be attached",
    ),
    own(
        "node_energy_joules",
        Kind::Counter,
        Unit::Joules,
        &["zone", "socket", "source", "kind"],
        "Energy measured by the meters, by use: `idle`, `active` (charged to groups), \
         `interrupts`, `other` (outside all inner zones, or not driven by the CPUs), \
         `unattributed`. Zones overlap: add up only zones of the same kind. Sensors with unknown \
         coverage (`zone=\"other\"`) have one series per source; do not add them up.",
        SelfSource::NodeEnergy,
        NO_METER,
    ),
    own(
        "energy_relative_error_ratio",
        Kind::Gauge,
        Unit::Ratio,
        &["zone", "socket", "source"],
        "Relative uncertainty (half-width) of the active energy over the last few minutes; can \
         exceed 1.",
        SelfSource::EnergyError,
        "there is no meter, or there was no active energy",
    ),
    own(
        "node_cpu_interrupt_seconds",
        Kind::Counter,
        Unit::Seconds,
        &[],
        "Time that interrupts took from the CPUs, as accounted by the scheduler (rq->clock_task), \
         up to the last context switch on each CPU.",
        SelfSource::NodeInterrupt,
        "the kernel does not measure it (no CONFIG_IRQ_TIME_ACCOUNTING)",
    ),
    own(
        "node_cpu_steal_seconds",
        Kind::Counter,
        Unit::Seconds,
        &[],
        "Steal time, as accounted by the scheduler, up to the last context switch on each CPU.",
        SelfSource::NodeSteal,
        "the kernel counts it as CPU time of the running task (no CONFIG_PARAVIRT_TIME_ACCOUNTING)",
    ),
    own(
        "node_cpu_steal_included_seconds",
        Kind::Counter,
        Unit::Seconds,
        &[],
        "Steal time up to the last context switch on each CPU, on kernels that do not account it \
         separately. It is included in the CPU time of the running task or in the idle time.",
        SelfSource::NodeStealIncluded,
        "the kernel accounts it separately (node_cpu_steal_seconds), or does not measure it",
    ),
    own(
        "node_cpus",
        Kind::Gauge,
        Unit::None,
        &[],
        "Number of online CPUs.",
        SelfSource::NodeCpus,
        ALWAYS,
    ),
    own(
        "self_build_info",
        Kind::Gauge,
        Unit::None,
        &["version"],
        "Version of the agent, as a label. The value is always 1.",
        SelfSource::BuildInfo,
        ALWAYS,
    ),
    own(
        "self_cpu_seconds",
        Kind::Counter,
        Unit::Seconds,
        &[],
        "User and system CPU time of the agent's process.",
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
        "Age of the values in this response.",
        SelfSource::TickAge,
        "the values come from a recording (noctule run --from, or an export)",
    ),
    own(
        "self_tick_duration_seconds",
        Kind::Gauge,
        Unit::Seconds,
        &[],
        "Time spent collecting the last batch.",
        SelfSource::TickDuration,
        ALWAYS,
    ),
    own(
        "self_bpf_run_seconds",
        Kind::Counter,
        Unit::Seconds,
        &["program"],
        "Run time of the BPF program during the measurement windows (self_bpf_window_seconds).",
        SelfSource::ProgramTime,
        NO_STATS,
    ),
    own(
        "self_bpf_runs",
        Kind::Counter,
        Unit::None,
        &["program"],
        "Runs of the BPF program during the measurement windows (self_bpf_window_seconds).",
        SelfSource::ProgramRuns,
        NO_STATS,
    ),
    own(
        "self_bpf_recursion_misses",
        Kind::Counter,
        Unit::None,
        &["program"],
        "Runs that the kernel skipped because the program was already running on that CPU.",
        SelfSource::ProgramMisses,
        NO_STATS,
    ),
    own(
        "self_bpf_window_seconds",
        Kind::Counter,
        Unit::Seconds,
        &[],
        "Time during which the kernel measured the BPF programs. Outside these windows, \
         measurement costs nothing.",
        SelfSource::ProgramWindow,
        NO_STATS,
    ),
    own(
        "self_map_entries",
        Kind::Gauge,
        Unit::None,
        &["map"],
        "Number of map entries in use.",
        SelfSource::MapEntries,
        ALWAYS,
    ),
    own(
        "self_map_capacity",
        Kind::Gauge,
        Unit::None,
        &["map"],
        "Maximum number of map entries.",
        SelfSource::MapCapacity,
        ALWAYS,
    ),
    own(
        "self_losses",
        Kind::Counter,
        Unit::None,
        &["kind", "place"],
        "Items that should have been counted or reported but were not.",
        SelfSource::Losses,
        ALWAYS,
    ),
    own(
        "self_overflow_subjects",
        Kind::Gauge,
        Unit::None,
        &["level"],
        "Number of rows at this level that share the overflow row because the series limit is \
         reached.",
        SelfSource::OverflowSubjects,
        ALWAYS,
    ),
    own(
        "self_overflow_blame_pairs",
        Kind::Gauge,
        Unit::None,
        &[],
        "Number of pairs of victim and culprit without their own series because the limit is \
         reached.",
        SelfSource::OverflowPairs,
        NO_WAITS,
    ),
    own(
        "self_overflow_destinations",
        Kind::Gauge,
        Unit::None,
        &[],
        "Number of connection destinations without their own series because the limit is reached.",
        SelfSource::OverflowDestinations,
        NO_TCP,
    ),
    own(
        "self_bounded_groups",
        Kind::Gauge,
        Unit::None,
        &["limit"],
        "Number of groups that currently get no more rows in a full table, because other groups \
         found no room in it. `limit=\"events.destinations\"` is the table of destinations in the \
         kernel; further destinations of these groups are counted as `_other`. A warning in the \
         log names each group.",
        SelfSource::BoundedGroups,
        "TCP events are switched off, the kernel lacks a hook for them, or a recording is served",
    ),
    own(
        "self_web_refused",
        Kind::Counter,
        Unit::None,
        &["reason"],
        "Requests and connections refused by the agent's HTTP server: `no_credentials`, \
         `credentials` (wrong name or password), `busy` (too many password checks pending), `host` \
         (name in the Host header not allowed), `crowded` (closed to admit a newer connection), \
         `plain_http`, `client_certificate`, `tls`.",
        SelfSource::WebRefused,
        "nothing is served",
    ),
    own(
        "self_web_config_valid",
        Kind::Gauge,
        Unit::None,
        &[],
        "1 if the current web configuration files are in effect; 0 if they are invalid and an \
         older configuration is still in effect.",
        SelfSource::WebConfigValid,
        "no web configuration file is used",
    ),
    own(
        "self_scrapes_untracked",
        Kind::Counter,
        Unit::None,
        &[],
        "Scrapes in which new series started at their current value instead of 0, because the \
         agent already tracks the maximum number of scrapers (256). Rates computed from such \
         scrapes miss the first value of these series.",
        SelfSource::UntrackedScrapes,
        "a recording is served",
    ),
    own(
        "self_otlp_sent",
        Kind::Counter,
        Unit::None,
        &["signal"],
        "Metric points and log records accepted by the OpenTelemetry receiver.",
        SelfSource::Sent,
        NO_RECEIVER,
    ),
    own(
        "self_otlp_lost",
        Kind::Counter,
        Unit::None,
        &["signal", "reason"],
        "Metric points and log records that were not delivered: the queue was full (`queue_full`), the receiver \
         refused the request (`refused`) or the item (`rejected`), or the agent stopped (`unsent`).",
        SelfSource::SendingLost,
        NO_RECEIVER,
    ),
    own(
        "self_otlp_retries",
        Kind::Counter,
        Unit::None,
        &["signal"],
        "Retried requests.",
        SelfSource::SendingRetries,
        NO_RECEIVER,
    ),
    own(
        "self_otlp_queue_items",
        Kind::Gauge,
        Unit::None,
        &["signal"],
        "Metric points and log records waiting to be sent or in flight.",
        SelfSource::SendingWaits,
        NO_RECEIVER,
    ),
    own(
        "self_otlp_queue_bytes",
        Kind::Gauge,
        Unit::Bytes,
        &["signal"],
        "Encoded size of the items in the queue.",
        SelfSource::SendingBytes,
        NO_RECEIVER,
    ),
    own(
        "self_feature",
        Kind::Gauge,
        Unit::None,
        &["name", "state", "reason"],
        "Status of each feature, as labels. The value is always 1.",
        SelfSource::Feature,
        ALWAYS,
    ),
];
