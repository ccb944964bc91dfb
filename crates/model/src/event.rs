//! What happened: processes, OOM kills, TCP connections, files, names that are asked for.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::{CgroupId, Comm, Owner, ProcessId};

mod udp;

pub use udp::{DnsAnswer, DnsQuery, DnsQuestion, UdpFlow};

/// One fact, as the kernel side reported it.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Wall-clock time at which it happened, nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// Whose it is. `None` for a gap, and for a socket whose owner is not known: it was there
    /// before the agent, and no process has it open.
    pub process: Option<EventProcess>,
    /// How the agent learned of it.
    pub origin: Origin,
    /// What happened.
    pub what: What,
}

/// The process of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct EventProcess {
    /// Who it is.
    pub id: ProcessId,
    /// Wall-clock time of its start, nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// Its command name then: that of its leader.
    pub comm: Comm,
    /// The name of the thread that acted, where that is not the leader.
    pub thread: Option<Comm>,
    /// Its group then. For a socket: when it was connected or began to listen.
    pub cgroup: CgroupId,
    /// What is known of that group; filled by the identity step.
    pub owner: Option<Arc<Owner>>,
}

/// How the agent learned of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// It happened while the agent watched.
    #[default]
    Seen,
    /// It was there already when the agent started.
    Existing,
    /// Its own record was lost; a list of what is alive showed it. Then the time is that of the
    /// look, and what only the record had is absent.
    Reconciled,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A process was forked.
    ProcessStart {
        /// Thread-group id of the parent.
        parent_pid: u32,
        /// The parent; `None` when the record was lost, or the process was there before.
        parent: Option<Parent>,
    },
    /// A process executes another program from now on.
    ProcessExec {
        /// Full path of the program, as the process sees it.
        path: FilePath,
        /// The arguments, up to a limit.
        args: Vec<Vec<u8>>,
        /// There were more, or longer ones.
        args_truncated: bool,
        /// Real user id, in the host's user namespace.
        uid: u32,
        /// What else is known of the process.
        context: Box<ExecContext>,
    },
    /// A program could not be executed.
    ProcessExecFailed {
        /// The path as it was asked for; of a program that is only a descriptor that of the
        /// descriptor, as the kernel names it: `/dev/fd/N`.
        path: FilePath,
        /// Real user id, in the host's user namespace.
        uid: u32,
        /// The parent of the process.
        parent: Option<Parent>,
        /// Why (errno).
        errno: i32,
    },
    /// The last thread of a process has ended.
    ProcessExit {
        /// How it ended; `None` when the record was lost.
        status: Option<ExitStatus>,
        /// It died of the OOM killer.
        oom_killed: bool,
        /// The kernel wrote its memory to a core file.
        core_dumped: bool,
        /// Its parent at that time; `None` when the record was lost.
        parent: Option<Parent>,
        /// Time from its start to its end, nanoseconds; `None` when the record was lost.
        duration_ns: Option<u64>,
        /// Time on a CPU, all threads together, up to the end; `None` when it is not known.
        cpu_ns: Option<u64>,
        /// Largest resident set that it had, bytes; `None` when it is not known.
        rss_peak_bytes: Option<u64>,
    },
    /// A signal was sent to a process.
    ProcessSignal {
        /// Its number.
        signal: u8,
        /// Why it was sent: si_code of sigaction(2).
        code: i32,
        /// The process that sent it; `None` for the kernel (a code above 0), and before Linux 5.11.
        sender: Option<Parent>,
    },
    /// A process died of the OOM killer.
    OomKill {
        /// Resident set when it was chosen, bytes, as in the kernel's log; `None` where the kernel
        /// names only the thread (before Linux 6.9): when that ends its memory is gone.
        rss_bytes: Option<u64>,
        /// The lowest memory limit of its group and those above; `None` when none has a limit.
        limit_bytes: Option<u64>,
    },
    /// Something about a TCP socket.
    Tcp {
        /// What.
        change: TcpChange,
        /// Which socket.
        socket: Socket,
    },
    /// A file was opened, or could not be.
    FileOpen {
        /// Its full path; of one that could not be opened, as it was asked for.
        path: FilePath,
        /// Flags as in open(2).
        flags: u32,
        /// Why it was not opened (errno).
        error: Option<i32>,
    },
    /// A name or the mode of a file was changed, or could not be.
    FileChange {
        /// Its full path: of a rename the old one, of a hard link that of the file.
        path: FilePath,
        /// What.
        change: FileChange,
        /// Why it was not done (errno).
        error: Option<i32>,
    },
    /// A name was asked for, and answered or not. In a box: it is seldom, and large.
    DnsQuery(Box<DnsQuery>),
    /// What a socket of UDP has exchanged with a peer.
    UdpFlow(UdpFlow),
    /// Events were lost here. What follows is complete again.
    Gap {
        /// How many, by name of the event.
        lost: Vec<(&'static str, u64)>,
        /// In a file: nobody watched from then on, nanoseconds since 1970, up to the time of this
        /// event; how much that was is not known.
        since_unix_ns: Option<u64>,
    },
}

/// What is done to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// A name is removed; the file is gone with the last one.
    Delete {
        /// That of a directory.
        directory: bool,
    },
    /// It gets another name.
    Rename {
        /// The new one.
        to: FilePath,
        /// The file of that name gets the old one.
        exchanged: bool,
    },
    /// It gets one more name.
    HardLink {
        /// The new one.
        to: FilePath,
    },
    /// A symbolic link is made.
    SymbolicLink {
        /// What it says; not resolved.
        target: FilePath,
    },
    /// Its permissions are set.
    Chmod {
        /// As in chmod(2).
        mode: u32,
    },
}

impl FileChange {
    /// The value of `event.name`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Delete { .. } => "file.delete",
            Self::Rename { .. } => "file.rename",
            Self::HardLink { .. } | Self::SymbolicLink { .. } => "file.link",
            Self::Chmod { .. } => "file.chmod",
        }
    }

    /// The second path, which a rename and a link have.
    pub const fn second(&self) -> Option<&FilePath> {
        match self {
            Self::Rename { to: second, .. }
            | Self::HardLink { to: second }
            | Self::SymbolicLink { target: second } => Some(second),
            Self::Delete { .. } | Self::Chmod { .. } => None,
        }
    }
}

/// The parent of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Which process.
    pub id: ProcessId,
    /// Wall-clock time of its start, nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// Its command name.
    pub comm: Comm,
}

/// A process that executes a program, as it is from then on. Ids are in the host's user namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecContext {
    /// Its parent.
    pub parent: Option<Parent>,
    /// Command names of the parent's parent and those above, the nearest first.
    pub ancestors: Vec<Comm>,
    /// Effective user id.
    pub effective_uid: u32,
    /// Real group id.
    pub gid: u32,
    /// Effective group id.
    pub effective_gid: u32,
    /// Effective capabilities, as bits.
    pub capabilities: u64,
    /// User id of the login, of the audit subsystem.
    pub login_uid: Option<u32>,
    /// Session of the audit subsystem.
    pub audit_session: Option<u32>,
    /// Name of its controlling terminal.
    pub tty: Option<Comm>,
    /// Its namespaces.
    pub namespaces: Vec<Namespace>,
    /// Its working directory.
    pub directory: FilePath,
}

impl ExecContext {
    /// About how many bytes of memory it takes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&*self.namespaces)
            + size_of_val(&*self.ancestors)
            + self.directory.bytes.len()
    }
}

/// A namespace of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// As its file in /proc is called.
    pub kind: &'static str,
    /// Inode of that file.
    pub inode: u32,
    /// It is that of the host; `None` when that is not known.
    pub of_host: Option<bool>,
}

/// A path in bytes: Linux has no encoding of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePath {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The path was longer than the kernel side keeps; its end is here.
    pub truncated: bool,
    /// The file was in no folder any more; the path is its last one.
    pub deleted: bool,
    /// The file is not below the root of the process: in a detached mount or in none, or outside of
    /// its chroot.
    pub unreachable: bool,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// By itself, with this code.
    Code(u8),
    /// By this signal.
    Signal(u8),
}

/// What happened to a TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpChange {
    /// It listens from now on.
    Listen,
    /// It no longer listens.
    ListenClose,
    /// A connection was established from this side.
    Connect {
        /// From the call to the handshake's end, nanoseconds; `None` for one that was there before
        /// the agent.
        duration_ns: Option<u64>,
    },
    /// A connection could not be established.
    ConnectFailed {
        /// Why.
        reason: ConnectError,
        /// The error that the application gets (errno); 0 when it gave up itself.
        errno: i32,
        /// From the call to the end, nanoseconds; `None` when either is not known.
        duration_ns: Option<u64>,
    },
    /// A connection was established from the other side. Its process is the one that accepts it, or,
    /// where the kernel does not show that, the one that listens.
    Accept,
    /// Segments were sent again.
    Retransmit {
        /// How many, as the kernel counts them.
        segments: u32,
        /// Those of them that the host itself dropped, because a queue was full.
        failed: u32,
    },
    /// A connection ended.
    Close {
        /// Payload that the other end has acknowledged, each byte once; like the rest `None` when the record was lost.
        bytes_sent: Option<u64>,
        /// Payload that was received.
        bytes_received: Option<u64>,
        /// From its establishment, nanoseconds; `None` when that is not known.
        duration_ns: Option<u64>,
        /// Why it ended; `None` when that is not known.
        reason: Option<CloseReason>,
        /// This side ended it, or the other; `None` when neither did, or that is not known.
        closed_here: Option<bool>,
        /// Segments that were sent again.
        retransmits: Option<u32>,
        /// Smoothed round-trip time, microseconds; `None` when none was measured.
        rtt_us: Option<u32>,
    },
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Both sides closed it.
    Fin,
    /// The other side reset it.
    Reset,
    /// This side closed it with data that nobody had read, or without waiting.
    Aborted,
    /// The other side acknowledged nothing any more.
    Timeout,
    /// The other side answered no probe.
    Keepalive,
    /// It was ended from outside (`ss -K`).
    Killed,
}

impl CloseReason {
    /// The value of `tcp.close.reason`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fin => "fin",
            Self::Reset => "reset",
            Self::Aborted => "aborted",
            Self::Timeout => "timeout",
            Self::Keepalive => "keepalive",
            Self::Killed => "killed",
        }
    }
}

/// Why a connection could not be established.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectError {
    /// The other side refused it (ECONNREFUSED, ECONNRESET).
    Refused,
    /// The kernel gave up (ETIMEDOUT).
    Timeout,
    /// The application gave up: it closed the socket before there was an answer.
    Abandoned,
    /// There is no way to the other side (EHOSTUNREACH, ENETUNREACH).
    Unreachable,
    /// Another error.
    Other,
}

impl ConnectError {
    /// All of them, in the order of the kernel side.
    pub const ALL: [Self; 5] = [
        Self::Refused,
        Self::Timeout,
        Self::Abandoned,
        Self::Unreachable,
        Self::Other,
    ];

    /// The value of `error.type` and of the label `result`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::Abandoned => "abandoned",
            Self::Unreachable => "unreachable",
            Self::Other => "other",
        }
    }
}

/// A TCP socket at the time of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Number of the socket, unique while the agent runs; 0 when it is not followed.
    pub id: u64,
    /// Own end; `None` while no port was chosen.
    pub local: Option<SocketAddr>,
    /// The other end; `None` for one that listens, and where it is not known any more.
    pub peer: Option<SocketAddr>,
    /// Cookie of its network namespace; `None` where the kernel has none (before Linux 5.12).
    pub netns_cookie: Option<u64>,
    /// A connection of Multipath TCP has it as one of its ways.
    pub multipath: bool,
}

impl What {
    /// Every value of `event.name`.
    pub const NAMES: [&'static str; 21] = [
        "process.start",
        "process.exec",
        "process.exec_failed",
        "process.exit",
        "process.signal",
        "oom.kill",
        "tcp.listen",
        "tcp.listen_close",
        "tcp.connect",
        "tcp.connect_failed",
        "tcp.accept",
        "tcp.retransmit",
        "tcp.close",
        "file.open",
        "file.delete",
        "file.rename",
        "file.link",
        "file.chmod",
        "dns.query",
        "udp.flow",
        "gap",
    ];

    /// The value of `event.name`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ProcessStart { .. } => "process.start",
            Self::ProcessExec { .. } => "process.exec",
            Self::ProcessExecFailed { .. } => "process.exec_failed",
            Self::ProcessExit { .. } => "process.exit",
            Self::ProcessSignal { .. } => "process.signal",
            Self::OomKill { .. } => "oom.kill",
            Self::Tcp { change, .. } => match change {
                TcpChange::Listen => "tcp.listen",
                TcpChange::ListenClose => "tcp.listen_close",
                TcpChange::Connect { .. } => "tcp.connect",
                TcpChange::ConnectFailed { .. } => "tcp.connect_failed",
                TcpChange::Accept => "tcp.accept",
                TcpChange::Retransmit { .. } => "tcp.retransmit",
                TcpChange::Close { .. } => "tcp.close",
            },
            Self::FileOpen { .. } => "file.open",
            Self::FileChange { change, .. } => change.name(),
            Self::DnsQuery(_) => "dns.query",
            Self::UdpFlow(_) => "udp.flow",
            Self::Gap { .. } => "gap",
        }
    }
}
