//! Process events: start, exec, exit, signals and OOM kills.

use noctule_model::{
    Comm, ExecContext, ExitStatus, FileChange, FilePath, Namespace, Parent, TcpChange, UdpFlow,
    What,
};

use super::{EventField, EventKind, get};
use crate::column::{Access, Column, Row, Stored as _, Values, column};
use crate::{Value, counts, flag, integer, mark, names, number, text, texts};

pub(super) const START: EventKind = EventKind {
    name: "process.start",
    help: "A process was forked.",
    fields: &[PARENT],
};

pub(super) const EXEC: EventKind = EventKind {
    name: "process.exec",
    help: "A process replaced its program by executing another one.",
    fields: &[EXECUTABLE, ARGUMENTS, USER, PARENT, CONTEXT],
};

pub(super) const EXEC_FAILED: EventKind = EventKind {
    name: "process.exec_failed",
    help: "A program could not be executed. Reported only with `--kind process --failures`, or \
           with `exec_failures` in the configuration. A search through PATH causes one event for \
           each directory before the right one. Failed calls of 32-bit programs are not seen. If \
           the call fails after the old program is gone, the kernel kills the process instead.",
    fields: &[REQUESTED, USER, PARENT, EXEC_ERROR],
};

pub(super) const EXIT: EventKind = EventKind {
    name: "process.exit",
    help: "The last thread of a process exited.",
    fields: &[STATUS, PARENT, USE],
};

pub(super) const SIGNAL: EventKind = EventKind {
    name: "process.signal",
    help: "A signal was sent to a process that does not ignore it. Reported only with `--kind signal`.",
    fields: &[SENT],
};

pub(super) const OOM_KILL: EventKind = EventKind {
    name: "oom.kill",
    help: "The OOM killer killed a process.",
    fields: &[MEMORY],
};

fn executable(what: &What) -> Option<&FilePath> {
    match what {
        What::ProcessExec { path, .. } | What::ProcessExecFailed { path, .. } => Some(path),
        _ => None,
    }
}

fn context(what: &What) -> Option<&ExecContext> {
    match what {
        What::ProcessExec { context, .. } => Some(context),
        _ => None,
    }
}

fn parent(what: &What) -> Option<&Parent> {
    match what {
        What::ProcessStart { parent, .. }
        | What::ProcessExecFailed { parent, .. }
        | What::ProcessExit { parent, .. } => parent.as_ref(),
        _ => context(what)?.parent.as_ref(),
    }
}

fn parent_pid(what: &What) -> Option<u32> {
    match what {
        What::ProcessStart { parent_pid, .. } => Some(*parent_pid),
        _ => Some(parent(what)?.id.pid),
    }
}

fn user(what: &What) -> Option<u32> {
    match what {
        What::ProcessExec { uid, .. } | What::ProcessExecFailed { uid, .. } => Some(*uid),
        _ => None,
    }
}

fn sender(what: &What) -> Option<&Parent> {
    match what {
        What::ProcessSignal { sender, .. } => sender.as_ref(),
        _ => None,
    }
}

fn name(comm: &Comm) -> Value<'static> {
    Value::text(comm.text())
}

#[rustfmt::skip]
const PARENT: &[EventField] = &[
    integer("process.parent_pid",
        "PID of the parent, which waits for the process. With CLONE_PARENT, the parent is \
         not the process that forked.",
        |what| parent_pid(what).map(Value::from)),
    integer("process.parent.creation.time_unix_nano",
        "Start time of the parent, in nanoseconds since 1970. Absent in `existing` and \
         `reconciled` events.",
        |what| Some(parent(what)?.start_unix_ns.into())),
    text("process.parent.executable.name",
        "Command name of the parent. Absent in `existing` and `reconciled` events.",
        |what| parent(what).map(|parent| name(&parent.comm))),
];

#[rustfmt::skip]
const EXECUTABLE: &[EventField] = &[
    text("process.executable.path",
        "Full path of the program, as the process sees it.",
        |what| Some(Value::Bytes(&executable(what)?.bytes))),
    mark("process.executable.path.truncated",
        "The path was too long; only its end is kept.",
        |what| Value::mark(executable(what)?.truncated)),
    mark("process.executable.deleted",
        "The program file had been removed from its directory; the path is its last one.",
        |what| Value::mark(executable(what)?.deleted)),
    mark("process.executable.unreachable",
        "The program file is not below the root directory of the process. For example, it is \
         in memory (memfd), or in no mount, like the binary of runc.",
        |what| Value::mark(executable(what)?.unreachable)),
];

#[rustfmt::skip]
const REQUESTED: &[EventField] = &[text("process.executable.path",
    "The path as requested. A path relative to a file descriptor (execveat) is shown as \
           `/dev/fd/N/...`, as in the kernel.",
    |what| Some(Value::Bytes(&executable(what)?.bytes)))];

#[rustfmt::skip]
const ARGUMENTS: &[EventField] = &[
    texts("process.command_args",
        "The arguments, up to a limit.",
        get!(ProcessExec { args } => {
            Some(Value::Texts(args.iter().map(|arg| Value::Bytes(arg)).collect()))
        })),
    flag("process.command_args.truncated",
        "Whether some arguments were cut off or left out.",
        get!(ProcessExec { args_truncated } => Some(Value::Flag(*args_truncated)))),
];

#[rustfmt::skip]
const USER: &[EventField] = &[integer("user.id",
    "Real user id. Like all ids here, it is in the user namespace of the host.",
    |what| user(what).map(Value::from))];

#[rustfmt::skip]
const CONTEXT: &[EventField] = &[
    texts("process.ancestors",
        "Command names of the grandparent and its ancestors, at most four.",
        |what| {
            let names: Vec<Value<'_>> = context(what)?.ancestors.iter().map(name).collect();
            (!names.is_empty()).then_some(Value::Texts(names))
        }),
    text("process.working_directory",
        "The working directory, as the process sees it.",
        |what| {
            let directory = &context(what)?.directory.bytes;
            (!directory.is_empty()).then_some(Value::Bytes(directory))
        }),
    integer("process.audit.login_user.id",
        "Login user id, from the audit subsystem. Absent if the process was not started by a \
         login.",
        |what| Some(context(what)?.login_uid?.into())),
    integer("process.audit.session.id",
        "Session id, from the audit subsystem. Absent if the process was not started by a \
         login.",
        |what| Some(context(what)?.audit_session?.into())),
    integer("process.real_user.id",
        "Real user id, equal to `user.id`.",
        |what| context(what).and(user(what)).map(Value::from)),
    integer("process.user.id",
        "Effective user id.",
        |what| Some(context(what)?.effective_uid.into())),
    integer("process.real_group.id",
        "Real group id.",
        |what| Some(context(what)?.gid.into())),
    integer("process.group.id",
        "Effective group id.",
        |what| Some(context(what)?.effective_gid.into())),
    text("process.capabilities.effective",
        "Effective capabilities as 16 hexadecimal digits, like `CapEff` in /proc/PID/status.",
        |what| Some(Value::text(format!("{:016x}", context(what)?.capabilities)))),
    text("process.tty",
        "Name of the controlling terminal.",
        |what| context(what)?.tty.as_ref().map(name)),
    counts("process.namespaces",
        "Inode numbers of the namespaces of the process: `cgroup`, `ipc`, `mnt`, `net`, \
         `pid`, `user`, `uts`.",
        |what| {
            let all = &context(what)?.namespaces;
            let inodes = all.iter().map(|space| (space.kind, space.inode.into()));
            (!all.is_empty()).then(|| Value::Counts(inodes.collect()))
        }),
    texts("process.namespaces.host",
        "Which of these namespaces are the host's. For `mnt` and `net`, this is known only \
         if the agent may read the namespaces of process 1.",
        |what| {
            let all = &context(what)?.namespaces;
            let known = all.iter().any(|space| space.of_host.is_some());
            let of_host = all.iter().filter(|space| space.of_host == Some(true));
            known.then(|| Value::Texts(of_host.map(|space| Value::text(space.kind)).collect()))
        }),
];

#[rustfmt::skip]
const EXEC_ERROR: &[EventField] = &[text("error.type",
    "Name of the error, such as `ENOENT`, or its number.",
    get!(ProcessExecFailed { errno } => Some(Value::text(names::error(*errno)))))];

#[rustfmt::skip]
const STATUS: &[EventField] = &[
    integer("process.exit.code",
        "Exit code. Absent if a signal killed the process.",
        get!(ProcessExit { status } => match status {
            Some(ExitStatus::Code(code)) => Some(u32::from(*code).into()),
            _ => None,
        })),
    integer("process.exit.signal",
        "The signal that killed the process.",
        get!(ProcessExit { status } => match status {
            Some(ExitStatus::Signal(signal)) => Some(u32::from(*signal).into()),
            _ => None,
        })),
    flag("oom_killed",
        "Whether the OOM killer killed the process. Also `false` if the process exited \
         before the kernel reported the kill (`oom.kill` then follows), or if the kernel \
         killed it only because it shares the victim's memory.",
        // If the exit record was lost, only a reported kill shows how the process ended.
        get!(ProcessExit { status, oom_killed } => {
            (status.is_some() || *oom_killed).then_some(Value::Flag(*oom_killed))
        })),
    mark("process.exit.core_dumped",
        "The kernel wrote a core file.",
        get!(ProcessExit { core_dumped } => Value::mark(*core_dumped))),
];

#[rustfmt::skip]
const USE: &[EventField] = &[
    number("duration_seconds",
        "Time from the start of the process to its exit.",
        get!(ProcessExit { duration_ns } => duration_ns.map(Value::seconds))),
    number("cpu.seconds",
        "CPU time of all threads, from the start of the process to this event. The values in \
         `stat`, `/metrics` and the table `exited` of a recording differ in two ways. They \
         include the rest of the exit: about 0.15 ms, or 10 ms and more if the process has \
         gigabytes of memory, which Linux 6.16 and later release after the event. For a \
         process older than the agent, they start when the agent starts.",
        get!(ProcessExit { cpu_ns } => cpu_ns.map(Value::seconds))),
    integer("memory.rss_peak_bytes",
        "Largest resident set size since the last exec. Before Linux 6.16, absent if it never \
         exceeded the largest resident set size before the exec.",
        get!(ProcessExit { rss_peak_bytes } => rss_peak_bytes.map(Value::from))),
];

#[rustfmt::skip]
const SENT: &[EventField] = &[
    integer("signal.number",
        "Signal number.",
        get!(ProcessSignal { signal } => Some(u32::from(*signal).into()))),
    text("signal.name",
        "Signal name.",
        get!(ProcessSignal { signal } => Some(Value::text(names::signal(*signal))))),
    integer("signal.code",
        "Reason (`si_code` in sigaction(2)): 0 for kill(2), -2 for a timer.",
        get!(ProcessSignal { code } => Some((*code).into()))),
    integer("signal.sender.pid",
        "PID of the process that sent the signal. Absent before Linux 5.11, and if the \
         kernel sent the signal, for example for a timer or for a file that became ready \
         (codes other than 0, -1, -3 and -6).",
        |what| Some(sender(what)?.id.pid.into())),
    integer("signal.sender.creation.time_unix_nano",
        "Start time of the sender, in nanoseconds since 1970.",
        |what| Some(sender(what)?.start_unix_ns.into())),
    text("signal.sender.executable.name",
        "Command name of the sender.",
        |what| sender(what).map(|sender| name(&sender.comm))),
];

#[rustfmt::skip]
const MEMORY: &[EventField] = &[
    integer("memory.rss_bytes",
        "Resident set size when the process was selected, as in the kernel's log. Absent if \
         the kernel does not name the process (before Linux 6.9 and 6.1.130).",
        get!(OomKill { rss_bytes } => rss_bytes.map(Value::from))),
    integer("memory.limit_bytes",
        "Lowest memory limit of the cgroup and its ancestors. Absent if there is none.",
        get!(OomKill { limit_bytes } => limit_bytes.map(Value::from))),
];

/// Columns in recordings. Other kinds of events also use the columns of paths, user ids, times and
/// errors.
pub(super) const COLUMNS: &[Column<What>] = &[
    column!(MaybeU32 "parent_pid": What::ProcessStart { parent_pid, .. } => parent_pid),
    column!(Parents "parent":
        What::ProcessStart { parent, .. }
        | What::ProcessExecFailed { parent, .. }
        | What::ProcessExit { parent, .. }
        | What::ProcessSignal { sender: parent, .. } => parent),
    column!(Path "path":
        What::ProcessExec { path, .. }
        | What::ProcessExecFailed { path, .. }
        | What::FileOpen { path, .. }
        | What::FileChange { path, .. } => path),
    column!(Paths "second_path":
        What::FileChange {
            change: FileChange::Rename { to, .. }
                | FileChange::HardLink { to }
                | FileChange::SymbolicLink { target: to },
            ..
        } => to),
    column!(WordsList "args": What::ProcessExec { args, .. } => args),
    column!(Flag "args_truncated": What::ProcessExec { args_truncated, .. } => args_truncated),
    column!(MaybeU32 "uid":
        What::ProcessExec { uid, .. } | What::ProcessExecFailed { uid, .. } => uid),
    column!(Contexts "context": What::ProcessExec { context, .. } => (**context)),
    EXIT_CODE,
    EXIT_SIGNAL,
    column!(Flag "oom_killed": What::ProcessExit { oom_killed, .. } => oom_killed),
    column!(Flag "core_dumped": What::ProcessExit { core_dumped, .. } => core_dumped),
    column!(MaybeU8 "signal": What::ProcessSignal { signal, .. } => signal),
    column!(MaybeI32 "signal_code": What::ProcessSignal { code, .. } => code),
    column!(MaybeU64 "duration_ns":
        What::ProcessExit { duration_ns, .. }
        | What::Tcp {
            change: TcpChange::Connect { duration_ns }
                | TcpChange::ConnectFailed { duration_ns, .. }
                | TcpChange::Close { duration_ns, .. },
            ..
        } => duration_ns,
        What::UdpFlow(UdpFlow { duration_ns, .. }) => duration_ns),
    column!(MaybeU64 "cpu_ns": What::ProcessExit { cpu_ns, .. } => cpu_ns),
    column!(MaybeU64 "rss_peak_bytes": What::ProcessExit { rss_peak_bytes, .. } => rss_peak_bytes),
    column!(MaybeU64 "rss_bytes": What::OomKill { rss_bytes, .. } => rss_bytes),
    column!(MaybeU64 "limit_bytes": What::OomKill { limit_bytes, .. } => limit_bytes),
];

const EXIT_CODE: Column<What> = Column {
    name: "exit_code",
    values: Values::MaybeU8(Access {
        get: |what| match what {
            What::ProcessExit {
                status: Some(ExitStatus::Code(code)),
                ..
            } => Some(*code),
            _ => None,
        },
        set: |what, code| {
            if let What::ProcessExit { status, .. } = what {
                *status = code.map(ExitStatus::Code);
            }
            true
        },
    }),
};

const EXIT_SIGNAL: Column<What> = Column {
    name: "exit_signal",
    values: Values::MaybeU8(Access {
        get: |what| match what {
            What::ProcessExit {
                status: Some(ExitStatus::Signal(signal)),
                ..
            } => Some(*signal),
            _ => None,
        },
        set: |what, signal| {
            if let What::ProcessExit { status, .. } = what {
                *status = status.or(signal.map(ExitStatus::Signal));
            }
            true
        },
    }),
};

impl Row for Parent {
    const COLUMNS: &'static [&'static [Column<Self>]] = &[&[
        column!(U32 "pid" id.pid),
        column!(U64 "start_ns" id.start_ns),
        column!(Moment "start_time" start_unix_ns),
        column!(Words "comm" comm),
    ]];
}

impl Row for Namespace {
    const COLUMNS: &'static [&'static [Column<Self>]] = &[&[
        column!(Word "kind" kind),
        column!(U32 "inode" inode),
        column!(MaybeFlag "of_host" of_host),
    ]];
}

impl Row for ExecContext {
    const COLUMNS: &'static [&'static [Column<Self>]] = &[&[
        column!(Parents "parent" parent),
        column!(WordsList "ancestors" ancestors),
        column!(U32 "effective_uid" effective_uid),
        column!(U32 "gid" gid),
        column!(U32 "effective_gid" effective_gid),
        column!(U64 "capabilities" capabilities),
        column!(MaybeU32 "login_uid" login_uid),
        column!(MaybeU32 "audit_session" audit_session),
        column!(MaybeWords "tty" tty),
        column!(Namespaces "namespaces" namespaces),
        column!(Path "directory" directory),
    ]];
}
