//! The command line. Help, manual pages and completions are generated from it.

mod diff;
mod export;
mod load;
mod metric_names;
mod names;
mod shape;
pub(crate) mod size;
mod tape;
mod values;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use noctule_model::{EventKind, Level};
use tracing::level_filters::LevelFilter;

pub(crate) use self::diff::DiffArgs;
pub(crate) use self::export::{ExportFormat, ExportPart, TapeExportArgs};
pub(crate) use self::load::LoadArgs;
pub(crate) use self::metric_names::MetricNames;
pub(crate) use self::names::Names;
pub(crate) use self::shape::Shape;
pub(crate) use self::tape::{
    RecordArgs, RecordedArgs, SourceArgs, TapeArgs, TapeCommand, TapeInfoArgs,
};
pub(crate) use self::values::{address, duration};

/// Shows which process, container, pod or unit uses the CPU of this node.
///
/// Watches the kernel with precompiled eBPF programs that adapt to the running kernel. Needs root,
/// or CAP_BPF, CAP_PERFMON and CAP_DAC_READ_SEARCH.
///
/// Exit status: 0 success; 1 failure; 2 wrong arguments or configuration; 3 missing privileges or
/// kernel support. With a COMMAND, its own status; 127 if the command does not exist, 126 if it
/// cannot be executed.
#[derive(Debug, Parser)]
#[command(
    name = "noctule",
    version,
    max_term_width = 100,
    propagate_version = true
)]
pub(crate) struct Args {
    /// Configuration file (TOML); options given here take precedence
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Lowest level of the messages on standard error
    #[arg(long, global = true, value_name = "LEVEL", default_value = "warn",
          value_parser = values::named(LOG_LEVELS))]
    pub(crate) log: LevelFilter,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const LOG_LEVELS: &[(&str, LevelFilter)] = &[
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
];

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    Stat(StatArgs),
    Energy(EnergyArgs),
    Waits(WaitsArgs),
    Why(WhyArgs),
    Top(TopArgs),
    Events(EventsArgs),
    Record(RecordArgs),
    Tape(TapeArgs),
    Diff(DiffArgs),
    Hist(HistArgs),
    Trigger(TriggerArgs),
    Load(LoadArgs),
    Trace(TraceArgs),
    Probes(ProbesArgs),
    Doctor(DoctorArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Collect continuously and serve /metrics
///
/// The agent collects everything that this kernel can provide, and serves a web page, a JSON API,
/// /metrics, /livez and /readyz on http://127.0.0.1:9470. Prints its address, and how many features
/// are on; if its output is not a terminal, which are off and why. Ends cleanly on SIGINT and
/// SIGTERM. With a recording (--from), serves the page, the API, and /metrics as of the recording's
/// end.
///
/// Examples:
///   noctule run
///   noctule run --tape /var/log/noctule/tape
///   noctule run --from /var/log/noctule/tape --at 03:00
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct RunArgs {
    /// Address and port to listen on; :PORT means 127.0.0.1:PORT [default: 127.0.0.1:9470]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Allow plain HTTP on an address other than loopback, readable by everyone who can reach it
    #[arg(long)]
    pub(crate) allow_plain_http: bool,
    /// TLS, passwords and client certificates: a file in the format of Prometheus' exporter-toolkit
    /// (web.yml)
    #[arg(long, value_name = "FILE", value_parser = values::path())]
    pub(crate) web_config: Option<PathBuf>,
    /// Time between two collections [default: 1s]
    #[arg(long, value_name = "DURATION", conflicts_with = "from", value_parser = values::duration)]
    pub(crate) interval: Option<Duration>,
    /// Naming scheme of metrics [default: noctule]
    #[arg(long, value_name = "NAMES")]
    pub(crate) names: Option<MetricNames>,
    /// Also expose each process in /metrics (many series)
    #[arg(long)]
    pub(crate) process_metrics: bool,
    /// Also record everything in this folder, for noctule top, stat, waits, why and events --from
    #[arg(long, value_name = "DIR", conflicts_with = "from", value_parser = values::path())]
    pub(crate) tape: Option<PathBuf>,
    /// Also write each event to this file, as JSON lines (docs/json.md)
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub(crate) events: Option<PathBuf>,
    /// Start a new events file when the current one reaches this size [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) events_size: Option<u64>,
    /// Number of older events files to keep: FILE.1 and so on [default: 5]
    #[arg(long, value_name = "N")]
    pub(crate) events_keep: Option<u32>,
    #[command(flatten)]
    pub(crate) recorded: RecordedArgs,
    /// End after this time; with --from: length of the served part [default: 15m]
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
}

/// The options that all tables of a window have in common.
#[derive(Debug, ClapArgs)]
pub(crate) struct MeasureArgs {
    /// Write the output to this file instead of standard output (standard error with a COMMAND)
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) shape: Shape,
    #[command(flatten)]
    pub(crate) names: Names,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Command to run and follow, after `--`
    #[arg(
        last = true,
        value_name = "COMMAND",
        help_heading = "Arguments",
        conflicts_with = "from"
    )]
    pub(crate) command: Vec<OsString>,
}

/// Show who used the CPU in a window, with all counters
///
/// With a COMMAND: runs it, and reports the usage of the command and all its descendants until it
/// ended. The command's output is left untouched; the table goes to standard error at the end.
///
/// Examples:
///   noctule stat --for 10s
///   noctule stat nginx.service --by process
///   noctule stat --by command
///   noctule stat -- make -j8
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct StatArgs {
    /// Level of a row [default: container; with a COMMAND: process]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) by: Option<By>,
    /// Length of the window [default: 5s; with a COMMAND: until it ends]
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
    /// Show at most this many rows
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) top: usize,
    /// One JSON object, with all rows, instead of the table (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) of: MeasureArgs,
}

/// Show the joules of every process, container and pod, adding up to the meter's reading
///
/// Splits the energy counted by the machine's meters (RAPL, sensors, a battery) into idle energy
/// and active energy, and charges the active energy to the processes that used it. With a COMMAND:
/// runs it, and reports the energy of the command and all its descendants until it ended. Fails if
/// there is no meter.
///
/// Examples:
///   noctule energy --for 30s
///   noctule energy --by pod
///   noctule energy -- make -j8
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct EnergyArgs {
    /// Level of a row [default: container; with a COMMAND: process]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) by: Option<By>,
    /// Length of the window [default: 10s; with a COMMAND: until it ends]
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
    /// Show at most this many rows
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) top: usize,
    /// One JSON object, with all rows, instead of the tables (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) of: MeasureArgs,
}

/// Show which groups waited for a CPU, for how long, why, and behind which other groups
///
/// Starts with a sentence for each hurt group, worst first: the culprit, the time lost, and what to
/// try. Then shows, for each container or unit, the distribution of its waits, their causes (quota,
/// neighbours, own threads, kernel threads), the groups that had the CPU meanwhile, and a verdict.
/// With a COMMAND: runs it, and reports the waits of the command and all its descendants until it
/// ended.
///
/// Examples:
///   noctule waits --for 30s
///   noctule waits shop/cart-7d9f --blocked
///   noctule waits --from /var/log/noctule/tape --at 03:10
///   noctule waits -- make -j8
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct WaitsArgs {
    /// Level of a row
    #[arg(long, value_name = "LEVEL", default_value = "container",
          value_parser = values::named(WAIT_LEVELS))]
    pub(crate) by: Level,
    /// Show where the threads' time went: running, runnable, and blocked by class
    #[arg(long)]
    pub(crate) blocked: bool,
    /// Length of the window [default: 10s; with a COMMAND: until it ends]
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
    /// Show at most this many rows
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// One JSON object, with all rows, instead of the table (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) of: MeasureArgs,
}

/// Explain why one container, pod, unit, cgroup or process is slow, and what to try
///
/// Watches the target for a window. Shows its verdict, its CPU limit, weight, CPUs and pressure
/// next to its usage, and the distribution and causes of its waits. Lists the groups it waited for,
/// with their processes and command lines, the activity of each CPU, and its events. With a
/// recording, data that only kernel files have is missing: limits, weight, CPUs, pressure and
/// command lines. For a process, the report covers the group of the process, and the first line
/// says so. The report also lists the CPU time of the process and of the group's busiest processes.
///
/// Examples:
///   noctule why nginx.service
///   noctule why shop/cart-7d9f --for 10s
///   noctule why /system.slice/docker-4f1c2a9be07d.scope --json
///   noctule why 1234
///   noctule why shop/cart-7d9f --from /var/log/noctule/tape --at 03:10
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct WhyArgs {
    /// A container by its name or the start of its id; a pod by its name, NAMESPACE/NAME or
    /// uid; a unit; the path of a cgroup; or a process by its pid. A fragment of a name is enough
    /// if only one group has it
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Length of the window [default: 5s]
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
    #[command(flatten)]
    pub(crate) recorded: RecordedArgs,
    /// One JSON object instead of the text (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// One line for each fact, regardless of the width of the terminal
    #[arg(long, conflicts_with = "json")]
    pub(crate) wide: bool,
    /// Write the output to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Show live which group is hurt and why, which use the CPU, and the energy they use
///
/// Opens on the answer: the worst verdict in words, and one table of containers with CPU use,
/// waits, blocked time, verdict and culprit. A terminal of 160 columns or more also shows the
/// details of the selected group. Press U for CPU use, w for waits, e for energy; the same key
/// switches back. Press ? for all keys, q to quit. In a recording
/// (--from), left and right move by batch, `[` and `]` by minute, g goes to a time, p plays, and v
/// goes to the next moment at which a group was hurt.
///
/// Examples:
///   noctule top
///   noctule top nginx.service --by process
///   noctule top --from /var/log/noctule/tape --at 03:10
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct TopArgs {
    /// Initial level of a row [default: container; with --cpu or --energy: process]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) by: Option<By>,
    /// Start with the view of CPU use
    #[arg(long, conflicts_with_all = ["waits", "energy"])]
    pub(crate) cpu: bool,
    /// Start with the waits view
    #[arg(long, conflicts_with = "energy")]
    pub(crate) waits: bool,
    #[command(flatten)]
    pub(crate) names: Names,
    /// Start with the energy view
    #[arg(long)]
    pub(crate) energy: bool,
    /// Time between two updates of the screen
    #[arg(long, value_name = "DURATION", default_value = "1s", conflicts_with = "from",
          value_parser = values::duration)]
    pub(crate) interval: Duration,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// End after this time; with --from: length of the shown part
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
}

/// Print events as they happen: processes, OOM kills, TCP connections, files
///
/// Prints one line for each event. Filters run in the kernel where possible. With a COMMAND: runs
/// it, and reports its events and those of all its descendants until it ends. The command's output
/// is left untouched.
///
/// Examples:
///   noctule events --for 10s
///   noctule events nginx.service --kind process,oom
///   noctule events --container web --json
///   noctule events -- make
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct EventsArgs {
    /// Kinds of events; signal, dns and udp only on request [default: process,tcp,oom, or file if
    /// only files are selected]
    #[arg(long, value_name = "KIND", value_delimiter = ',',
          value_parser = values::named(EVENT_KINDS))]
    pub(crate) kind: Vec<EventKind>,
    /// Only files below this path
    #[arg(long, value_name = "PREFIX", value_parser = values::path())]
    pub(crate) path: Option<PathBuf>,
    /// Also files opened only for reading
    #[arg(long)]
    pub(crate) reads: bool,
    /// Also failures: file opens, file changes (except those that a security module denies by
    /// path), and, with --kind process, executions
    #[arg(long)]
    pub(crate) failures: bool,
    /// First list existing processes, listeners and connections
    #[arg(long)]
    pub(crate) existing: bool,
    /// End after this time
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
    /// One JSON object per line for each event (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Full names and one line for each event, regardless of the width of the terminal
    #[arg(long, conflicts_with = "json")]
    pub(crate) wide: bool,
    /// Write the events to this file instead of standard output (standard error with a COMMAND)
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) names: Names,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Command to run and follow, after `--`
    #[arg(
        last = true,
        value_name = "COMMAND",
        help_heading = "Arguments",
        conflicts_with = "from"
    )]
    pub(crate) command: Vec<OsString>,
}

/// Count the hits of any tracepoint by key, with the kernel's histogram triggers
///
/// The trigger is in the kernel's own language (docs.kernel.org/trace/histogram.html), which
/// noctule compiles to BPF. It works on kernels without CONFIG_HIST_TRIGGERS, and needs no
/// compiler. Extensions: any number of keys and values; filters that compare fields, calculate, or
/// use `x in {1, 2}`; values with .min, .max, .avg and percentiles such as .p99; keys with .flags
/// for the event's own names.
///
/// On a terminal the table is redrawn until Ctrl-C, and then printed in the kernel's format. If the
/// output is not a terminal, it is printed only at the end.
///
/// Examples:
///   noctule hist syscalls:sys_enter_openat --for 5s
///   noctule hist sched:sched_switch 'keys=prev_comm:sort=hitcount.descending' --for 5s
///   noctule hist kmem:kmalloc 'keys=call_site.sym:vals=bytes_req,bytes_req.p99 if bytes_req > 64'
///   noctule hist raw_syscalls:sys_enter 'keys=id.syscall,common_pid.execname'
///   noctule hist kmem:kmalloc 'keys=bytes_req.log2' --graph --for 5s
///   noctule hist syscalls:sys_enter_openat 'keys=container,comm'
///   noctule hist sched:sched_wakeup..sched:sched_switch 'on=pid==next_pid:keys=latency.log2'
///   noctule hist socket:lo 'keys=ip_proto.flags,port_dst:vals=len' --for 5s
///   noctule hist socket:lo 'keys=ip_src:vals=len' --filter 'tcp port 80' --for 5s
///   noctule hist profile:99 'keys=comm:sort=hitcount.descending' --for 5s
///   noctule hist software:page-faults 'keys=comm,ip.sym-offset' --for 5s
///   noctule hist uprobe:libc.so.6:malloc 'keys=comm:vals=arg1.p50,arg1.max' --for 5s
///   noctule hist kprobe:vfs_read..kretprobe:vfs_read 'on=common_pid:keys=latency.log2' --for 5s
///   noctule hist 'sched:sched_process_*' 'keys=event,common_comm' --for 5s
///   noctule hist irq:softirq_entry name=all:keys=comm irq:irq_handler_entry name=all:keys=comm
///
/// Other events: socket:INTERFACE counts packets, and socket:any those of all interfaces.
/// profile:HZ, interval:TIME, software:EVENT and hardware:EVENT count samples; the last two accept
/// :PERIOD. kprobe:FUNCTION, kretprobe:FUNCTION, uprobe:FILE:FUNCTION and uretprobe:FILE:FUNCTION
/// count calls. Their fields are in docs/probes.md.
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct HistArgs {
    /// An event and its trigger, such as sched:sched_switch 'keys=prev_comm if prev_pid > 0'.
    /// Without a trigger, a single event is counted by command. An event is SYSTEM:EVENT, a pattern
    /// for several, socket:INTERFACE, profile:HZ, interval:TIME, software:EVENT, hardware:EVENT,
    /// kprobe:FUNCTION, uprobe:FILE:FUNCTION, or two of them for the time between: FIRST..SECOND
    #[arg(value_names = ["EVENT", "TRIGGER"], required = true, num_args = 1..)]
    pub(crate) pairs: Vec<String>,
    /// Count only packets that pass this filter, in tcpdump's language or as printed by `tcpdump
    /// -ddd`
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) filter: Option<String>,
    /// Read the commands pause, cont and clear from this FIFO, one per line, optionally followed by
    /// the name= of a table; `-` means standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) control: Option<PathBuf>,
    /// Define a synthetic event, as the kernel's synthetic_events does: 'wakeup_latency u64 lat;
    /// pid_t pid'. Actions of triggers generate it; count it as synthetic:NAME. Can be given
    /// several times
    #[arg(long, value_name = "DEFINITION")]
    pub(crate) synth: Vec<String>,
    /// Event to show in the snapshot() of a trigger, optionally with a filter; can be given several
    /// times
    #[arg(long, value_name = "EVENT")]
    pub(crate) trace: Vec<String>,
    /// Number of events kept for a snapshot()
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) keep: usize,
    /// Size of the buffer between the kernel and noctule, for --trace
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = size::parse)]
    pub(crate) buffer: u64,
    /// Print the instructions, including --filter as classic BPF, and count nothing
    #[arg(long)]
    pub(crate) dump: bool,
    /// End after this time [default: when interrupted]
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
    /// Time between two updates on a terminal
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = values::duration)]
    pub(crate) interval: Duration,
    /// One JSON object instead of the table (docs/json.md)
    #[arg(long, conflicts_with = "graph")]
    pub(crate) json: bool,
    /// Draw the distribution of a key with .log2 or .buckets, or of a percentile
    #[arg(long)]
    pub(crate) graph: bool,
    /// Write the output to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Act on events, with the kernel's event triggers
///
/// Each EVENT has an ACTION in the kernel's own language
/// (docs.kernel.org/trace/events.html#event-triggers): stacktrace, snapshot, traceon, traceoff,
/// enable_event:SYSTEM:EVENT or disable_event:SYSTEM:EVENT, each optionally with a count (:N) and a
/// filter (if FILTER). The actions are BPF programs of this command: they work on kernels without
/// triggers, and end with the command. They control what this command traces (--trace, and the
/// targets of enable_event), in the kernel, at that event. A count decreases only if the action
/// changed something.
///
/// stacktrace shows the event with the kernel's stack. snapshot shows the last traced events
/// (--keep), which are otherwise not shown. traceon and traceoff switch everything, including
/// stacks. The event that turns tracing on is shown, too, even where the kernel would omit it.
///
/// Examples:
///   noctule trigger sched:sched_process_exec stacktrace:3 --for 10s
///   noctule trigger sched:sched_process_exit 'snapshot if comm == "sh"' --trace sched:sched_switch
///   noctule trigger task:task_newtask traceon task:task_rename traceoff:5 --off --trace irq:*
///   noctule trigger signal:signal_generate 'enable_event:sched:sched_switch:1 if sig == 15'
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct TriggerArgs {
    /// An event and its action, such as sched:sched_process_exit 'stacktrace:5 if prio < 100'
    #[arg(value_names = ["EVENT", "ACTION"], required = true, num_args = 2..)]
    pub(crate) pairs: Vec<String>,
    /// Also trace this event, optionally with a filter; can be given several times
    #[arg(long, value_name = "EVENT")]
    pub(crate) trace: Vec<String>,
    /// Start with tracing off, until a traceon trigger
    #[arg(long)]
    pub(crate) off: bool,
    /// Number of events kept for a snapshot
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) keep: usize,
    /// End after this time [default: when interrupted]
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
    /// End after showing this many events and actions
    #[arg(long, value_name = "N")]
    pub(crate) max: Option<u64>,
    /// Size of the buffer between the kernel and noctule
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = size::parse)]
    pub(crate) buffer: u64,
    /// One JSON object per line for each event and action (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the output to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Print every matching event with all fields
///
/// Each EVENT is SYSTEM:EVENT or a pattern, optionally with a filter in the language of the
/// kernel's event filters (docs.kernel.org/trace/events.html#event-filtering). The filter runs in
/// the kernel. Each line has the time, CPU, thread, event, and the fields in the event's own print
/// format. Events are sorted by time. Events that did not fit into the buffer are counted, and
/// shown as a gap where they belong.
///
/// Examples:
///   noctule trace sched:sched_process_exec --for 10s
///   noctule trace 'sched:sched_switch if prev_comm ~ "ba*" && next_prio < 120' --max 20
///   noctule trace 'sched:sched_process_*' 'signal:signal_generate if sig == 9'
///   noctule trace 'syscalls:sys_enter_openat if comm == "cat"' --json
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct TraceArgs {
    /// An event, such as 'sched:sched_switch if prev_pid > 0'; a pattern stands for several
    #[arg(value_name = "EVENT", required = true)]
    pub(crate) events: Vec<String>,
    /// End after this time [default: when interrupted]
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
    /// End after this many events
    #[arg(long, value_name = "N")]
    pub(crate) max: Option<u64>,
    /// Size of the buffer between the kernel and noctule
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = size::parse)]
    pub(crate) buffer: u64,
    /// One JSON object per line for each event (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the events to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// List the events that can be traced and counted, with their fields
///
/// One line for each event, in the form that `noctule hist` accepts: tracepoints of the kernel and
/// its modules, and registered dynamic events such as kprobes and uprobes. With -v also the fields
/// with their types and offsets, and the names of their values in the event's print format.
///
/// Examples:
///   noctule probes 'sched:*exec*'
///   noctule probes -v irq:softirq_entry
///   noctule probes kmem
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct ProbesArgs {
    /// Only events that match this shell pattern: SYSTEM:EVENT, the event or the system
    #[arg(value_name = "GLOB")]
    pub(crate) glob: Option<String>,
    /// Also the fields
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// One JSON object instead of the list (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the output to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Show what this kernel, these privileges and these files allow
///
/// Lists each feature as on, degraded or off, with the reason and a remedy. Loads and
/// attaches everything for a moment, because only loading shows what works. With `[otlp]`, sends
/// empty requests to the receiver and shows its answers, except with --json.
///
/// Examples:
///   noctule doctor
///   noctule doctor --json
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct DoctorArgs {
    /// One JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print a completion script for a shell
///
/// Examples:
///   noctule completions bash > /etc/bash_completion.d/noctule
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct CompletionsArgs {
    /// Name of the shell
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page, or write all pages into a folder
///
/// Examples:
///   noctule man | man -l -
///   noctule man /usr/local/share/man/man1
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct ManArgs {
    /// Folder for noctule.1 and one page for each command
    pub(crate) folder: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    Process,
    Command,
    Container,
    Pod,
    Unit,
    Cgroup,
}

/// Waits are kept per cgroup, not per process.
const WAIT_LEVELS: &[(&str, Level)] = &[
    ("container", Level::Container),
    ("pod", Level::Pod),
    ("unit", Level::Unit),
    ("cgroup", Level::Cgroup),
];

const EVENT_KINDS: &[(&str, EventKind)] = &[
    ("process", EventKind::Process),
    ("tcp", EventKind::Tcp),
    ("file", EventKind::File),
    ("oom", EventKind::Oom),
    ("signal", EventKind::Signal),
    ("dns", EventKind::Dns),
    ("udp", EventKind::Udp),
];

impl From<By> for Level {
    fn from(by: By) -> Self {
        match by {
            By::Process | By::Command => Self::Process,
            By::Container => Self::Container,
            By::Pod => Self::Pod,
            By::Unit => Self::Unit,
            By::Cgroup => Self::Cgroup,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn walk(command: &clap::Command, check: &impl Fn(&clap::Command)) {
        check(command);
        command.get_subcommands().for_each(|sub| walk(sub, check));
    }

    #[test]
    fn the_definition_is_consistent_and_everything_has_help() {
        let mut command = Args::command();
        command.build();
        command.clone().debug_assert();
        walk(&command, &|command| {
            assert!(
                command.get_about().is_some(),
                "{} has no help",
                command.get_name()
            );
            for argument in command.get_arguments() {
                let name = argument.get_id();
                assert!(
                    argument.get_help().is_some(),
                    "{} {name}: no help",
                    command.get_name()
                );
            }
        });
    }
}
