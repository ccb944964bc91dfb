//! The command line as it is typed. Help, man page and completions come from here.

mod diff;
mod export;
mod load;
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
pub(crate) use self::names::Names;
pub(crate) use self::shape::Shape;
pub(crate) use self::tape::{
    RecordArgs, RecordedArgs, SourceArgs, TapeArgs, TapeCommand, TapeInfoArgs,
};
pub(crate) use self::values::{address, duration};
use crate::config::MetricNames;

/// Who uses the CPU of this node, for every process, container, pod and unit.
///
/// Watches the kernel with eBPF programs that were compiled once and adapt themselves to the kernel
/// they find. Needs root, or CAP_BPF, CAP_PERFMON and CAP_DAC_READ_SEARCH.
///
/// Exit status: 0 done; 1 failed; 2 wrong arguments or configuration; 3 the privileges or the kernel
/// do not allow it. With a COMMAND, its own status; 127 where there is no such command, 126 where it
/// cannot be executed.
#[derive(Debug, Parser)]
#[command(
    name = "noctule",
    version,
    max_term_width = 100,
    propagate_version = true
)]
pub(crate) struct Args {
    /// Configuration file (TOML); options given here win over it
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// How much to say on standard error
    #[arg(long, global = true, value_name = "LEVEL", default_value = "warn")]
    pub(crate) log: LogLevel,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

impl LogLevel {
    pub(crate) fn directive(self) -> LevelFilter {
        match self {
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
        }
    }
}

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

/// Collect all the time and serve /metrics
///
/// The agent: collects everything that this kernel can give and serves a page, a JSON API, /metrics, /livez
/// and /readyz on http://127.0.0.1:9470. Prints where it listens, and what is off and why. Ends cleanly on
/// SIGINT and SIGTERM. Of a recording (--from) it serves the page, the API and /metrics of its end.
#[derive(Debug, ClapArgs)]
pub(crate) struct RunArgs {
    /// Address and port to listen on; :PORT is on 127.0.0.1 [default: 127.0.0.1:9470]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Allow plain HTTP on an address other than loopback, readable by everybody who reaches it
    #[arg(long)]
    pub(crate) allow_plain_http: bool,
    /// TLS, passwords and client certificates: a file as of Prometheus' exporter-toolkit (web.yml)
    #[arg(long, value_name = "FILE", value_parser = values::path())]
    pub(crate) web_config: Option<PathBuf>,
    /// Time between two collections [default: 1s]
    #[arg(long, value_name = "DURATION", conflicts_with = "from", value_parser = values::duration)]
    pub(crate) interval: Option<Duration>,
    /// Whose names metrics have [default: noctule]
    #[arg(long, value_name = "NAMES")]
    pub(crate) names: Option<MetricNames>,
    /// Also expose each process in /metrics (many series)
    #[arg(long)]
    pub(crate) process_metrics: bool,
    /// Also record everything in this folder: noctule top, stat, waits, why and events --from look back
    #[arg(long, value_name = "DIR", conflicts_with = "from", value_parser = values::path())]
    pub(crate) tape: Option<PathBuf>,
    /// Also write each event to this file, as lines of JSON (docs/json.md)
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub(crate) events: Option<PathBuf>,
    /// Begin the next file of events from this size on [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub(crate) events_size: Option<u64>,
    /// Keep this many older files of events: FILE.1 and so on [default: 5]
    #[arg(long, value_name = "N")]
    pub(crate) events_keep: Option<u32>,
    #[command(flatten)]
    pub(crate) recorded: RecordedArgs,
    /// End by itself after this time; with --from: length of the part [default: 15m]
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
}

/// Who used the CPU in a window, with every counter there is
///
/// With a COMMAND: runs it, and reports what it and all its descendants used until it ended. The
/// command's output is untouched; the table goes to standard error when it has ended.
#[derive(Debug, ClapArgs)]
pub(crate) struct StatArgs {
    /// What a row stands for [default: container; with a COMMAND: process]
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
    /// Write the answer to this file instead of standard output (standard error with a COMMAND)
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) shape: Shape,
    #[command(flatten)]
    pub(crate) names: Names,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Command to run and follow
    #[arg(
        trailing_var_arg = true,
        value_name = "COMMAND",
        conflicts_with = "from"
    )]
    pub(crate) command: Vec<OsString>,
}

/// Joules for every process, container and pod, with sums that equal the meter
///
/// Divides what the machine's meters of energy counted (RAPL, sensors, a battery) into what each zone
/// takes when idle and what work costs, and the latter among those who worked. With a COMMAND: runs
/// it, and reports what it and all its descendants cost until it ended. Fails where there is no meter.
#[derive(Debug, ClapArgs)]
pub(crate) struct EnergyArgs {
    /// What a row stands for [default: container; with a COMMAND: process]
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
    /// Write the answer to this file instead of standard output (standard error with a COMMAND)
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) shape: Shape,
    #[command(flatten)]
    pub(crate) names: Names,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Command to run and follow
    #[arg(
        trailing_var_arg = true,
        value_name = "COMMAND",
        conflicts_with = "from"
    )]
    pub(crate) command: Vec<OsString>,
}

/// Who waited for the CPU, how long, why, and because of whom
///
/// First a sentence for each group that is hurt, the worst first: by whom, how much, and what to try. Then,
/// for each container, or unit: the distribution of its waits, what kept it from the CPU (its quota,
/// neighbours, its own threads, kernel threads), who had the CPU meanwhile, and a verdict. With a
/// COMMAND: runs it, and reports what it and all its descendants waited for until it ended.
#[derive(Debug, ClapArgs)]
pub(crate) struct WaitsArgs {
    /// What a row stands for
    #[arg(long, value_name = "LEVEL", default_value = "container")]
    pub(crate) by: WaitsBy,
    /// Show where the time of the threads went: running, runnable, and blocked by class
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
    /// Write the answer to this file instead of standard output (standard error with a COMMAND)
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) shape: Shape,
    #[command(flatten)]
    pub(crate) names: Names,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Command to run and follow
    #[arg(
        trailing_var_arg = true,
        value_name = "COMMAND",
        conflicts_with = "from"
    )]
    pub(crate) command: Vec<OsString>,
}

/// Why one container, pod, unit, cgroup or process is slow, and what to try
///
/// Watches it for a window: its verdict, its CPU limit, weight, CPUs and pressure beside what it
/// used, the distribution and the causes of its waits, those behind whom it waited with their
/// processes and command lines, what each CPU did, and what happened in it. From a recording it
/// has all that but what only files of the kernel say: limits, weight, CPUs, pressure, command
/// lines. Of a process the answer is that of its group, and says so first; its own CPU time is
/// listed with those of the group's busiest processes.
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
    /// A container by its name or the beginning of its id, a pod by its name, NAMESPACE/NAME or uid, a
    /// unit, the path of a cgroup, or a process by its pid
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
    /// One line for each fact, however narrow the terminal is
    #[arg(long, conflicts_with = "json")]
    pub(crate) wide: bool,
    /// Write the answer to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Who uses the CPU, who waits for it, and what it costs, live
///
/// Begins with who uses the CPU; the key w changes to who waits for it, why and because of whom, and e to
/// what it costs in energy; the same key again goes back. Press ? for the keys. Ends with q. Of a recording
/// (--from): left and right by batch, `[` and `]` by minute, g to a time, p to play, v to the next moment at
/// which somebody was hurt.
#[derive(Debug, ClapArgs)]
pub(crate) struct TopArgs {
    /// What a row stands for at first [default: process; with --waits: container]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) by: Option<By>,
    /// Begin with who waits for the CPU
    #[arg(long, conflicts_with = "energy")]
    pub(crate) waits: bool,
    #[command(flatten)]
    pub(crate) names: Names,
    /// Begin with what it costs in energy
    #[arg(long)]
    pub(crate) energy: bool,
    /// Time between two screens
    #[arg(long, value_name = "DURATION", default_value = "1s", conflicts_with = "from",
          value_parser = values::duration)]
    pub(crate) interval: Duration,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// End by itself after this time; with --from: length of the part that is shown
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
}

/// What happens, as it happens: processes, OOM kills, TCP connections, files
///
/// One line for each event. The filters work in the kernel where they can. With a COMMAND: runs it,
/// and reports what happens to it and all its descendants until it ends; the command's output is
/// untouched.
#[derive(Debug, ClapArgs)]
pub(crate) struct EventsArgs {
    /// Which kinds [default: process,tcp,oom; file when only files are asked about]; signals, DNS and
    /// UDP only on request
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) kind: Vec<AskedKind>,
    /// Only files below this path
    #[arg(long, value_name = "PREFIX", value_parser = values::path())]
    pub(crate) path: Option<PathBuf>,
    /// Also files that are opened for reading only
    #[arg(long)]
    pub(crate) reads: bool,
    /// Also what failed: opens of files, changes (not those that a security module denies by their path),
    /// and with --kind process executions
    #[arg(long)]
    pub(crate) failures: bool,
    /// First what is there already: processes, listeners, connections
    #[arg(long)]
    pub(crate) existing: bool,
    /// End by itself after this time
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
    /// One JSON object for each event, one on a line (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Names in full and one line for each event, however narrow the terminal is
    #[arg(long, conflicts_with = "json")]
    pub(crate) wide: bool,
    /// Write the events to this file instead of standard output (standard error with a COMMAND)
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) names: Names,
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Command to run and follow
    #[arg(
        trailing_var_arg = true,
        value_name = "COMMAND",
        conflicts_with = "from"
    )]
    pub(crate) command: Vec<OsString>,
}

/// Count the hits of any tracepoint by key, with the kernel's histogram triggers
///
/// The trigger is in the kernel's own language (docs.kernel.org/trace/histogram.html), compiled
/// to BPF here: it works on kernels without CONFIG_HIST_TRIGGERS, and needs no compiler. Beyond
/// the kernel's: any number of keys and values, field against field and arithmetic in filters, `x
/// in {1, 2}`, values with .min, .max, .avg and percentiles such as .p99, keys with .flags for
/// the event's own names.
///
/// On a terminal the table is drawn again and again until Ctrl-C; then, and at once where the
/// output is no terminal, the answer is in the kernel's format.
///
/// Examples:
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
/// Beside tracepoints: socket:INTERFACE counts packets, socket:any those of all interfaces;
/// profile:HZ, interval:TIME, software:EVENT and hardware:EVENT, the last two with :PERIOD if
/// wanted, count samples; kprobe:FUNCTION, kretprobe:FUNCTION, uprobe:FILE:FUNCTION and
/// uretprobe:FILE:FUNCTION count calls. Their fields are in docs/probes.md.
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct HistArgs {
    /// An event and what is counted of it, such as sched:sched_switch 'keys=prev_comm if prev_pid > 0'.
    /// An event is SYSTEM:EVENT, a pattern of such, socket:INTERFACE, profile:HZ, interval:TIME,
    /// software:EVENT, hardware:EVENT, kprobe:FUNCTION, uprobe:FILE:FUNCTION, or two of them for the time
    /// between: FIRST..SECOND
    #[arg(value_names = ["EVENT", "TRIGGER"], required = true, num_args = 2..)]
    pub(crate) pairs: Vec<String>,
    /// Of packets: count those that pass this filter in tcpdump's language, or in what `tcpdump -ddd`
    /// has printed for it
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) filter: Option<String>,
    /// Take the orders pause, cont and clear from this FIFO, one on a line, each with the name= of a
    /// table if it is not for all; `-`: from standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) control: Option<PathBuf>,
    /// Define a synthetic event, as the kernel's synthetic_events does: 'wakeup_latency u64 lat; pid_t
    /// pid'. Actions of triggers make it; count it as synthetic:NAME. Can be given several times
    #[arg(long, value_name = "DEFINITION")]
    pub(crate) synth: Vec<String>,
    /// What the snapshot() of a trigger shows: this event, with or without a filter; can be given several
    /// times
    #[arg(long, value_name = "EVENT")]
    pub(crate) trace: Vec<String>,
    /// Events that are kept for a snapshot()
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) keep: usize,
    /// Size of the buffer between the kernel and noctule, for --trace
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = size::parse)]
    pub(crate) buffer: u64,
    /// Print the instructions, those of --filter as classic BPF too, and count nothing
    #[arg(long)]
    pub(crate) dump: bool,
    /// End by itself after this time [default: when it is interrupted]
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
    /// Time between two drawings on a terminal
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = values::duration)]
    pub(crate) interval: Duration,
    /// One JSON object instead of the table (docs/json.md)
    #[arg(long, conflicts_with = "graph")]
    pub(crate) json: bool,
    /// Draw the distribution of a key with .log2 or .buckets, or of a percentile
    #[arg(long)]
    pub(crate) graph: bool,
    /// Write the answer to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Do something at an event: the kernel's event triggers
///
/// Each EVENT has an ACTION in the kernel's own language
/// (docs.kernel.org/trace/events.html#event-triggers): stacktrace, snapshot, traceon, traceoff,
/// enable_event:SYSTEM:EVENT or disable_event:SYSTEM:EVENT, each with or without a count (:N) and
/// a filter (if FILTER). The actions are programs of this command: they work on kernels without
/// the triggers, and nothing of them is left when it ends. They switch what this command traces
/// (--trace, and the targets of enable_event), in the kernel, at that event. A count is used up
/// only when the action changed something.
///
/// stacktrace shows the event with the kernel's stack. snapshot shows the last traced events
/// (--keep), which are not shown before. traceon and traceoff turn all on and off, stacks too. The
/// event that turns tracing on is shown itself, also where the kernel leaves it out.
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
    /// Also trace this event, with or without a filter; can be given several times
    #[arg(long, value_name = "EVENT")]
    pub(crate) trace: Vec<String>,
    /// Begin with tracing off, until a traceon trigger
    #[arg(long)]
    pub(crate) off: bool,
    /// Events that are kept for a snapshot
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) keep: usize,
    /// End by itself after this time [default: when it is interrupted]
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
    /// End after this many events and actions were shown
    #[arg(long, value_name = "N")]
    pub(crate) max: Option<u64>,
    /// Size of the buffer between the kernel and noctule
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = size::parse)]
    pub(crate) buffer: u64,
    /// One JSON object for each event and action, one on a line (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the answer to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Print every event that matches, with all its fields
///
/// Each EVENT is SYSTEM:EVENT or a pattern, with or without a filter in the language of the
/// kernel's event filters (docs.kernel.org/trace/events.html#event-filtering). The filter runs in
/// the kernel. A line has the time, the CPU, the thread, the event, and its fields as the event's
/// own print format shows them. Several events come in the order of time. What the buffer had no
/// room for is counted, and stands as a gap where it is missing.
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
    /// End by itself after this time [default: when it is interrupted]
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
    /// End after this many events
    #[arg(long, value_name = "N")]
    pub(crate) max: Option<u64>,
    /// Size of the buffer between the kernel and noctule
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = size::parse)]
    pub(crate) buffer: u64,
    /// One JSON object for each event, one on a line (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the events to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// The events that can be traced and counted, with their fields
///
/// One line for each event, as `noctule hist` takes it: tracepoints of the kernel and its
/// modules, and the kprobes, uprobes and other dynamic events that are registered. With -v also
/// the fields with their types and places, and the names that the event's print format has for
/// their values.
///
/// Examples:
///   noctule probes 'sched:*exec*'
///   noctule probes -v irq:softirq_entry
///   noctule probes kmem
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct ProbesArgs {
    /// Only those that match: a pattern as in a shell, for SYSTEM:EVENT, the event or the system
    #[arg(value_name = "GLOB")]
    pub(crate) glob: Option<String>,
    /// Also the fields
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// One JSON object instead of the list (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the answer to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// What this kernel, these privileges and these files allow
///
/// Feature by feature: on, degraded or off, the reason, and how to change it. Loads and attaches
/// everything for a moment, because only loading shows it. With `[otlp]` it sends the receiver empty requests,
/// and shows what it answers; with --json it sends none.
#[derive(Debug, ClapArgs)]
pub(crate) struct DoctorArgs {
    /// One JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print a completion script for a shell
#[derive(Debug, ClapArgs)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page, or write all of them into a folder
#[derive(Debug, ClapArgs)]
pub(crate) struct ManArgs {
    /// Folder for noctule.1 and one page for each command
    pub(crate) folder: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    Process,
    Container,
    Pod,
    Unit,
    Cgroup,
}

/// Waits are kept for each cgroup, not for each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitsBy {
    Container,
    Pod,
    Unit,
    Cgroup,
}

impl From<WaitsBy> for Level {
    fn from(by: WaitsBy) -> Self {
        match by {
            WaitsBy::Container => Self::Container,
            WaitsBy::Pod => Self::Pod,
            WaitsBy::Unit => Self::Unit,
            WaitsBy::Cgroup => Self::Cgroup,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AskedKind {
    Process,
    Tcp,
    File,
    Oom,
    Signal,
    Dns,
    Udp,
}

impl From<AskedKind> for EventKind {
    fn from(asked: AskedKind) -> Self {
        match asked {
            AskedKind::Process => Self::Process,
            AskedKind::Tcp => Self::Tcp,
            AskedKind::File => Self::File,
            AskedKind::Oom => Self::Oom,
            AskedKind::Signal => Self::Signal,
            AskedKind::Dns => Self::Dns,
            AskedKind::Udp => Self::Udp,
        }
    }
}

impl From<By> for Level {
    fn from(by: By) -> Self {
        match by {
            By::Process => Self::Process,
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
