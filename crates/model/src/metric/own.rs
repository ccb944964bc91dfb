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

const ALWAYS: &str = "never absent";
const NO_RECEIVER: &str = "no receiver is configured ([otlp])";
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
        "Idle time, summed over the CPUs.",
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
        "Elapsed CPU time that is neither idle nor charged to a process: interrupts, and steal if the kernel \
         separates it.",
        SelfSource::NodeRemainder,
        "sched_switch could not be attached",
    ),
    own(
        "node_energy_joules",
        Kind::Counter,
        Unit::Joules,
        &["zone", "socket", "source", "kind"],
        "What the meters counted, by where it went: `idle`, `active` (charged to groups), `interrupts`, \
         `other` (in no part of the zone, or not driven by the CPUs), `unattributed`. Zones overlap, \
         so add up only zones of one kind. Sensors with unknown coverage (`other`) have one series per \
         source, which must not be added up.",
        SelfSource::NodeEnergy,
        NO_METER,
    ),
    own(
        "energy_relative_error_ratio",
        Kind::Gauge,
        Unit::Ratio,
        &["zone", "socket", "source"],
        "Half-width of the relative error of the active energy over the last minutes; can exceed 1.",
        SelfSource::EnergyError,
        "there is no meter, or nothing was active",
    ),
    own(
        "node_cpu_interrupt_seconds",
        Kind::Counter,
        Unit::Seconds,
        &[],
        "Time that interrupts took from the CPUs, as the scheduler accounts it (rq->clock_task), up to the \
         last switch of each CPU.",
        SelfSource::NodeInterrupt,
        "the kernel does not measure it (CONFIG_IRQ_TIME_ACCOUNTING)",
    ),
    own(
        "node_cpu_steal_seconds",
        Kind::Counter,
        Unit::Seconds,
        &[],
        "Time that the host took from the CPUs (steal), as the scheduler accounts it, up to the last \
         switch of each CPU.",
        SelfSource::NodeSteal,
        "the kernel counts it as CPU time of the running task (no CONFIG_PARAVIRT_TIME_ACCOUNTING)",
    ),
    own(
        "node_cpu_steal_included_seconds",
        Kind::Counter,
        Unit::Seconds,
        &[],
        "Time that the host took from the CPUs (steal), up to the last switch of each CPU. This kernel counts \
         it as CPU time of the running task or as idle time, which both include it.",
        SelfSource::NodeStealIncluded,
        "the kernel separates it (node_cpu_steal_seconds) or does not measure it",
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
        "the answer is from a recording, served (noctule run --from) or exported",
    ),
    own(
        "self_tick_duration_seconds",
        Kind::Gauge,
        Unit::Seconds,
        &[],
        "Time needed to collect the last batch.",
        SelfSource::TickDuration,
        ALWAYS,
    ),
    own(
        "self_bpf_run_seconds",
        Kind::Counter,
        Unit::Seconds,
        &["program"],
        "Run time of the program within the windows of self_bpf_window_seconds.",
        SelfSource::ProgramTime,
        NO_STATS,
    ),
    own(
        "self_bpf_runs",
        Kind::Counter,
        Unit::None,
        &["program"],
        "Runs of the program within the windows of self_bpf_window_seconds.",
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
        "Time in which the kernel measured the programs; outside these windows measuring costs nothing.",
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
        "Items that should have been counted or reported but were not.",
        SelfSource::Losses,
        ALWAYS,
    ),
    own(
        "self_overflow_subjects",
        Kind::Gauge,
        Unit::None,
        &["level"],
        "Rows of the level that share its overflow row because the series limit is reached.",
        SelfSource::OverflowSubjects,
        ALWAYS,
    ),
    own(
        "self_overflow_blame_pairs",
        Kind::Gauge,
        Unit::None,
        &[],
        "Victim and culprit pairs without their own series because the limit is reached.",
        SelfSource::OverflowPairs,
        NO_WAITS,
    ),
    own(
        "self_overflow_destinations",
        Kind::Gauge,
        Unit::None,
        &[],
        "Destinations of connections without their own series because the limit is reached.",
        SelfSource::OverflowDestinations,
        NO_TCP,
    ),
    own(
        "self_bounded_groups",
        Kind::Gauge,
        Unit::None,
        &["limit"],
        "Groups that get no more rows in a full table for now, because other groups found no room: \
         `limit=\"events.destinations\"`, the rows for destinations on the kernel side. Their further destinations \
         are counted as `_other`; a warning in the log names each group.",
        SelfSource::BoundedGroups,
        "TCP events are switched off, the kernel lacks a hook for them, or a recording is served",
    ),
    own(
        "self_web_refused",
        Kind::Counter,
        Unit::None,
        &["reason"],
        "Requests and connections that the agent's server refused: `no_credentials`, `credentials` (wrong \
         name or password), `busy` (too many passwords wait to be checked), `host` (another name in \
         Host), `crowded` (closed for a newer connection), `plain_http`, `client_certificate`, `tls`.",
        SelfSource::WebRefused,
        "nothing is served",
    ),
    own(
        "self_web_config_valid",
        Kind::Gauge,
        Unit::None,
        &[],
        "1 if the current web configuration files are in effect; 0 if they are invalid, so that an older \
         configuration is still in effect.",
        SelfSource::WebConfigValid,
        "there is no web configuration",
    ),
    own(
        "self_scrapes_untracked",
        Kind::Counter,
        Unit::None,
        &[],
        "Scrapes that got new series with their value instead of 0 first, because the agent remembers as many \
         other scrapers as it can (256). Rates at that scraper lack what these series had.",
        SelfSource::UntrackedScrapes,
        "a recording is served",
    ),
    own(
        "self_otlp_sent",
        Kind::Counter,
        Unit::None,
        &["signal"],
        "Metric points and log records that the OpenTelemetry receiver accepted.",
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
        "Requests that were retried.",
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
        "Encoded bytes of the items in the queue.",
        SelfSource::SendingBytes,
        NO_RECEIVER,
    ),
    own(
        "self_feature",
        Kind::Gauge,
        Unit::None,
        &["name", "state", "reason"],
        "Status of each feature; always 1.",
        SelfSource::Feature,
        ALWAYS,
    ),
];
