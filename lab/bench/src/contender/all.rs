//! The tables of contenders.

use super::tool::Tool;
use super::{
    Contender, EMPTY, EMPTY_ACCOUNTS, EMPTY_HOOKS, KEPLER, Kind, NETFLIX, NO_EVENTS, NONE, OURS,
    RUNQLAT, SCAN, STREAM,
};
use crate::events::{Format, Scope, Sort};
use crate::load::{Part, Subject};

/// The agent with only CPU time and context switches.
const MINIMAL: &str =
    "[collect]\nhardware_counters = false\npage_cache = false\nsoftirqs = false\nwaits = false\n";
/// The agent without waits: CPU accounting only.
const CPU_ONLY: &str = "[collect]\nwaits = false\n";
/// The agent without events.
const EVENTS_OFF: &str = "[events]\nprocesses = false\ntcp = false\n";
/// The agent with file opens, which it does not count by default.
const FILES: &str = "[events]\nfiles = true\n";

const ACCOUNTING: &[Subject] = &[Subject::Accounting];
const PROCESSES: &[Subject] = &[Subject::Events(Sort::Processes)];
const CONNECTIONS: &[Subject] = &[Subject::Events(Sort::Connections)];
const OPENS: &[Subject] = &[Subject::Events(Sort::Opens)];
const STREAMED: &[Subject] = &[
    Subject::Events(Sort::Processes),
    Subject::Events(Sort::Connections),
    Subject::Server,
];
/// Loads with frequent new connections.
const SERVED: &[Subject] = &[Subject::Events(Sort::Connections), Subject::Server];
const EVENTS: &[Subject] = &[
    Subject::Events(Sort::Processes),
    Subject::Events(Sort::Connections),
    Subject::Events(Sort::Opens),
    Subject::Server,
];
const KINDS: &[Subject] = &[Subject::Kinds];
const EVERYTHING: &[Subject] = &[
    Subject::Kinds,
    Subject::Accounting,
    Subject::Events(Sort::Processes),
    Subject::Events(Sort::Connections),
    Subject::Events(Sort::Opens),
    Subject::Server,
];

const fn tool(package: &'static str, program: &'static str, arguments: &'static [&str]) -> Tool {
    Tool {
        program,
        arguments,
        package,
        needs_tracefs: false,
        format: None,
    }
}

/// Returns a tool of libbpf-tools that reports events. Some of these tools use tracepoints through
/// tracefs.
const fn reporter(program: &'static str, arguments: &'static [&str], format: Format) -> Tool {
    Tool {
        needs_tracefs: true,
        format: Some(format),
        ..tool("libbpf-tools", program, arguments)
    }
}

/// Returns a bpftrace script of the bench that reports events.
const fn script(arguments: &'static [&str]) -> Tool {
    Tool {
        package: "bpftrace",
        ..reporter("bpftrace", arguments, Format::Bpftrace)
    }
}

const EXECSNOOP: Tool = reporter("execsnoop", &[], Format::Execsnoop);
const EXITSNOOP: Tool = reporter("exitsnoop", &[], Format::Exitsnoop);
const TCPLIFE: Tool = reporter("tcplife", &["-w"], Format::Tcplife);
const TCPSTATES: Tool = reporter("tcpstates", &["-w"], Format::Tcpstates);
const OPENSNOOP: Tool = reporter("opensnoop", &["-e"], Format::Opensnoop);
const OOMKILL: Tool = reporter("oomkill", &[], Format::Bpftrace);
const MARK_VICTIM: Tool = script(&[
    "-e",
    "tracepoint:oom:mark_victim { printf(\"oom %d\\n\", args->pid); }",
]);
/// 0x10000 is CLONE_THREAD.
const NEWTASK: Tool = script(&[
    "-e",
    "tracepoint:task:task_newtask { \
     printf(\"new %d %d %llu\\n\", args->pid, (args->clone_flags & 0x10000) != 0, nsecs); }",
]);

const fn contender(name: &'static str, kind: Kind, subjects: &'static [Subject]) -> Contender {
    Contender {
        name,
        kind,
        subjects,
    }
}

/// All contenders, in order.
pub(crate) const ALL: [Contender; 23] = [
    contender(NONE, Kind::Nothing, EVERYTHING),
    contender(OURS, Kind::Noctule(""), EVERYTHING),
    contender("noctule_cpu", Kind::Noctule(CPU_ONLY), ACCOUNTING),
    contender("noctule-minimal", Kind::Noctule(MINIMAL), ACCOUNTING),
    contender(NO_EVENTS, Kind::Noctule(EVENTS_OFF), EVENTS),
    contender("noctule_files", Kind::Noctule(FILES), OPENS),
    contender(STREAM, Kind::Stream(&[]), STREAMED),
    contender(
        "noctule_stream_files",
        Kind::Stream(&["--kind", "file"]),
        OPENS,
    ),
    contender(
        "noctule_stream_kinds",
        Kind::Stream(&["--kind", "process,signal,file,dns,udp", "--failures"]),
        KINDS,
    ),
    contender(
        EMPTY,
        Kind::Own(Part::Object, "nothing, on sched_switch"),
        ACCOUNTING,
    ),
    contender(
        EMPTY_HOOKS,
        Kind::Own(Part::Object, "nothing, on each hook of a request"),
        SERVED,
    ),
    contender(
        EMPTY_ACCOUNTS,
        Kind::Own(Part::Object, "the same, and storage for each socket"),
        SERVED,
    ),
    contender(
        NETFLIX,
        Kind::Own(Part::Netflix, "stamps in a hash, events through a ring"),
        ACCOUNTING,
    ),
    contender(
        KEPLER,
        Kind::Own(Part::Kepler, "rows in a hash, counters in arrays"),
        ACCOUNTING,
    ),
    contender(
        RUNQLAT,
        Kind::Tools(&[tool("libbpf-tools", "runqlat", &["1"])]),
        ACCOUNTING,
    ),
    contender(
        "cpudist",
        Kind::Tools(&[tool("libbpf-tools", "cpudist", &["1"])]),
        ACCOUNTING,
    ),
    contender("bpftrace", Kind::Tools(&[SWITCHES]), ACCOUNTING),
    contender(
        "perf-stat",
        Kind::Tools(&[tool("linux-perf", "perf", PERF_STAT)]),
        ACCOUNTING,
    ),
    contender(
        "execsnoop+exitsnoop",
        Kind::Tools(&[EXECSNOOP, EXITSNOOP]),
        PROCESSES,
    ),
    contender("tcplife", Kind::Tools(&[TCPLIFE]), CONNECTIONS),
    contender("tcpstates", Kind::Tools(&[TCPSTATES]), CONNECTIONS),
    contender("opensnoop", Kind::Tools(&[OPENSNOOP]), OPENS),
    contender(SCAN, Kind::ProcScan, ACCOUNTING),
];

const SWITCHES: Tool = Tool {
    needs_tracefs: true,
    ..tool(
        "bpftrace",
        "bpftrace",
        &["-e", "tracepoint:sched:sched_switch { @[pid] = count(); }"],
    )
};
const PERF_STAT: &[&str] = &[
    "stat",
    "-a",
    "-I",
    "1000",
    "-e",
    "context-switches,cpu-clock",
];

/// The agent with every kind of event, for the side-by-side run.
pub(crate) const STREAM_ALL: Contender = contender(
    STREAM,
    Kind::Stream(&["--kind", "process,tcp,oom,file", "--reads", "--failures"]),
    &[],
);

/// A tool that runs in parallel with the agent in the side-by-side run.
pub(crate) struct Peer {
    pub(crate) scope: Scope,
    pub(crate) contender: Contender,
    /// The contender to use instead if this one cannot be attached.
    pub(crate) instead: Option<Contender>,
}

pub(crate) const PEERS: [Peer; 7] = [
    peer(Scope::Execs, "execsnoop", &[EXECSNOOP]),
    peer(Scope::Exits, "exitsnoop", &[EXITSNOOP]),
    peer(Scope::Lives, "tcplife", &[TCPLIFE]),
    peer(Scope::States, "tcpstates", &[TCPSTATES]),
    peer(Scope::Opens, "opensnoop", &[OPENSNOOP]),
    Peer {
        instead: Some(contender("mark_victim", Kind::Tools(&[MARK_VICTIM]), &[])),
        ..peer(Scope::Kills, "oomkill", &[OOMKILL])
    },
    peer(Scope::Starts, "task_newtask", &[NEWTASK]),
];

const fn peer(scope: Scope, name: &'static str, tools: &'static [Tool]) -> Peer {
    Peer {
        scope,
        contender: contender(name, Kind::Tools(tools), &[]),
        instead: None,
    }
}
