//! Metrics of the node as a whole, and of the agent itself.

use super::{
    Bytes, Count, Joules, Metric, NO_METER, NO_TCP, NO_WAITS, Ratio, Seconds, counter, gauge,
};

/// The source of a value of the node or of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfSource {
    /// Idle time of all CPUs.
    NodeIdle,
    /// Number of times that CPUs left their idle task.
    NodeIdleSwitches,
    /// Time that is neither idle nor charged to a process.
    NodeRemainder,
    /// Time that interrupts took from the CPUs.
    NodeInterrupt,
    /// Time that the host took from the CPUs.
    NodeSteal,
    /// Steal time that is included in used and idle time.
    NodeStealIncluded,
    /// Online CPUs.
    NodeCpus,
    /// Energy counted by the meters, by the kind of attribution.
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
    /// Total length of the windows in which the cost of programs is measured.
    ProgramWindow,
    /// Entries of a map.
    MapEntries,
    /// Capacity of a map.
    MapCapacity,
    /// Losses.
    Losses,
    /// Features.
    Feature,
    /// Subjects without their own series, counted in the overflow series.
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
    /// Scrapes for which the agent did not remember the previous scrape.
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

const NO_RECEIVER: &str = "no receiver is configured (section [otlp])";
const NO_STATS: &str = "the agent lacks CAP_SYS_ADMIN, or `collect.program_cost` disables BPF \
         statistics";

/// Metrics of the node as a whole and of the agent itself.
#[rustfmt::skip]
pub const SELF_METRICS: &[Metric<SelfSource>] = &[
    counter("node_cpu_idle_seconds", Seconds, SelfSource::NodeIdle)
        .help("Idle time, summed over all CPUs.")
        .absent("sched_switch could not be attached"),
    counter("node_cpu_idle_switches", Count("{switch}"), SelfSource::NodeIdleSwitches)
        .help("Number of times that a CPU left its idle task.")
        .absent("sched_switch could not be attached"),
    gauge("node_cpu_remainder_seconds", Seconds, SelfSource::NodeRemainder)
        .help("CPU time that is neither idle nor charged to a process: interrupts, plus steal time if \
         the kernel accounts it separately.")
        .absent("sched_switch could not be attached"),
    counter("node_energy_joules", Joules, SelfSource::NodeEnergy)
        .labels(&["zone", "socket", "source", "kind"])
        .help("Energy measured by the meters, by use: `idle`, `active` (charged to groups), \
         `interrupts`, `other` (outside all inner zones, or not driven by the CPUs), \
         `unattributed`. Zones overlap: add up only zones of the same kind. Sensors with unknown \
         coverage (`zone=\"other\"`) have one series per source; do not add them up.")
        .absent(NO_METER),
    gauge("energy_relative_error_ratio", Ratio, SelfSource::EnergyError)
        .labels(&["zone", "socket", "source"])
        .help("Relative uncertainty (half-width) of the active energy over the last few minutes; can \
         exceed 1.")
        .absent("there is no meter, or there was no active energy"),
    counter("node_cpu_interrupt_seconds", Seconds, SelfSource::NodeInterrupt)
        .help("Time that interrupts took from the CPUs, as accounted by the scheduler (rq->clock_task), \
         up to the last context switch on each CPU.")
        .absent("the kernel does not account interrupt time separately (no CONFIG_IRQ_TIME_ACCOUNTING)"),
    counter("node_cpu_steal_seconds", Seconds, SelfSource::NodeSteal)
        .help("Steal time, as accounted by the scheduler, up to the last context switch on each CPU.")
        .absent("the kernel counts steal time as CPU time of the running task (no CONFIG_PARAVIRT_TIME_ACCOUNTING)"),
    counter("node_cpu_steal_included_seconds", Seconds, SelfSource::NodeStealIncluded)
        .help("Steal time up to the last context switch on each CPU, on kernels that do not account it \
         separately. It is included in the CPU time of the running task or in the idle time.")
        .absent("the kernel accounts steal time separately (node_cpu_steal_seconds), or does not measure it"),
    gauge("node_cpus", Count("{cpu}"), SelfSource::NodeCpus)
        .help("Number of online CPUs."),
    gauge("self_build_info", Count("{build}"), SelfSource::BuildInfo)
        .labels(&["version"])
        .help("Version of the agent, as a label. The value is always 1."),
    counter("self_cpu_seconds", Seconds, SelfSource::AgentCpu)
        .help("User and system CPU time of the agent's process."),
    gauge("self_resident_memory_bytes", Bytes, SelfSource::AgentResident)
        .help("Resident memory of the agent's process."),
    gauge("self_tick_age_seconds", Seconds, SelfSource::TickAge)
        .help("Age of the values in this response.")
        .absent("the values come from a recording (noctule run --from, or an export)"),
    gauge("self_tick_duration_seconds", Seconds, SelfSource::TickDuration)
        .help("Time spent collecting the last batch."),
    counter("self_bpf_run_seconds", Seconds, SelfSource::ProgramTime)
        .labels(&["program"])
        .help("Run time of the BPF program during the measurement windows (self_bpf_window_seconds).")
        .absent(NO_STATS),
    counter("self_bpf_runs", Count("{run}"), SelfSource::ProgramRuns)
        .labels(&["program"])
        .help("Runs of the BPF program during the measurement windows (self_bpf_window_seconds).")
        .absent(NO_STATS),
    counter("self_bpf_recursion_misses", Count("{run}"), SelfSource::ProgramMisses)
        .labels(&["program"])
        .help("Runs that the kernel skipped because the program was already running on that CPU.")
        .absent(NO_STATS),
    counter("self_bpf_window_seconds", Seconds, SelfSource::ProgramWindow)
        .help("Time during which the kernel measured the BPF programs. Outside these windows, \
         measurement costs nothing.")
        .absent(NO_STATS),
    gauge("self_map_entries", Count("{entry}"), SelfSource::MapEntries)
        .labels(&["map"])
        .help("Number of map entries in use."),
    gauge("self_map_capacity", Count("{entry}"), SelfSource::MapCapacity)
        .labels(&["map"])
        .help("Maximum number of map entries."),
    counter("self_losses", Count("{loss}"), SelfSource::Losses)
        .labels(&["kind", "place"])
        .help("Items that should have been counted or reported but were not."),
    gauge("self_overflow_subjects", Count("{row}"), SelfSource::OverflowSubjects)
        .labels(&["level"])
        .help("Number of rows at this level that share the overflow row because the series limit is \
         reached."),
    gauge("self_overflow_blame_pairs", Count("{pair}"), SelfSource::OverflowPairs)
        .help("Number of pairs of victim and culprit without their own series because the limit is \
         reached.")
        .absent(NO_WAITS),
    gauge("self_overflow_destinations", Count("{destination}"), SelfSource::OverflowDestinations)
        .help("Number of connection destinations without their own series because the limit is reached.")
        .absent(NO_TCP),
    gauge("self_bounded_groups", Count("{group}"), SelfSource::BoundedGroups)
        .labels(&["limit"])
        .help("Number of groups that exceed their share of a full table and get no new rows for \
         now. `limit=\"events.destinations\"` is the table of destinations in the \
         kernel; further destinations of these groups are counted as `_other`. A warning in the \
         log names each group.")
        .absent("TCP events are switched off, the kernel does not support them, or a recording is served"),
    counter("self_web_refused", Count("{request}"), SelfSource::WebRefused)
        .labels(&["reason"])
        .help("Requests and connections refused by the agent's HTTP server: `no_credentials`, \
         `credentials` (wrong name or password), `busy` (too many password checks pending), `host` \
         (name in the Host header not allowed), `crowded` (closed to admit a newer connection), \
         `plain_http`, `client_certificate`, `tls`.")
        .absent("nothing is served"),
    gauge("self_web_config_valid", Count("{configuration}"), SelfSource::WebConfigValid)
        .help("1 if the current web configuration files are in effect; 0 if they are invalid and an \
         older configuration is still in effect.")
        .absent("no web configuration file is used"),
    counter("self_scrapes_untracked", Count("{scrape}"), SelfSource::UntrackedScrapes)
        .help("Scrapes in which new series started at their current value instead of 0, because the \
         agent already tracks the maximum number of scrapers (256). Rates computed from such \
         scrapes miss the first value of these series.")
        .absent("a recording is served"),
    counter("self_otlp_sent", Count("{item}"), SelfSource::Sent)
        .labels(&["signal"])
        .help("Metric points and log records accepted by the OpenTelemetry receiver.")
        .absent(NO_RECEIVER),
    counter("self_otlp_lost", Count("{item}"), SelfSource::SendingLost)
        .labels(&["signal", "reason"])
        .help("Metric points and log records that were not delivered: the queue was full (`queue_full`), the receiver refused the request (`refused`) or the item (`rejected`), or the agent stopped (`unsent`).")
        .absent(NO_RECEIVER),
    counter("self_otlp_retries", Count("{request}"), SelfSource::SendingRetries)
        .labels(&["signal"])
        .help("Retried requests.")
        .absent(NO_RECEIVER),
    gauge("self_otlp_queue_items", Count("{item}"), SelfSource::SendingWaits)
        .labels(&["signal"])
        .help("Metric points and log records waiting to be sent or in flight.")
        .absent(NO_RECEIVER),
    gauge("self_otlp_queue_bytes", Bytes, SelfSource::SendingBytes)
        .labels(&["signal"])
        .help("Encoded size of the items in the queue.")
        .absent(NO_RECEIVER),
    gauge("self_feature", Count("{feature}"), SelfSource::Feature)
        .labels(&["name", "state", "reason"])
        .help("Status of each feature, as labels. The value is always 1."),
];
