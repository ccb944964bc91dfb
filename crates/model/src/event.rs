//! Events: processes, OOM kills, TCP connections, files, DNS queries.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::named::named_values;
use crate::{CgroupId, Comm, Owner, ProcessId};

mod kinds;
mod udp;

pub use kinds::{EventKind, EventKinds};
pub use udp::{DnsAnswer, DnsQuery, DnsQuestion, UdpFlow};

/// An event, as the kernel side reported it.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Wall-clock time of the event, in nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// The process that caused the event. `None` for a gap, and for a socket that is older than the
    /// agent and that no process has open.
    pub process: Option<EventProcess>,
    /// How the agent learned of the event.
    pub origin: Origin,
    /// What happened.
    pub what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub struct EventProcess {
    pub id: ProcessId,
    /// Wall-clock time at which the process started, in nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// Command name of the thread group leader at the time of the event.
    pub comm: Comm,
    /// Name of the acting thread, if it is not the leader.
    pub thread: Option<Comm>,
    /// Cgroup at the time of the event. For a socket, this is the cgroup of the process when it
    /// connected or began to listen.
    pub cgroup: CgroupId,
    /// Owner of that cgroup, filled by the identity step.
    pub owner: Option<Arc<Owner>>,
}

named_values! {
    /// How the agent learned of an event.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Origin {
        /// The agent observed the event.
        #[default]
        Seen: "seen",
        /// The process or socket existed when the agent started.
        Existing: "existing",
        /// The record of the event was lost, and a list of live objects revealed the change. The
        /// time is when the list was read. Fields that only the record contains are absent.
        Reconciled: "reconciled",
    }
}

/// An event and its fields.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A process was forked.
    ProcessStart {
        /// Thread-group id of the parent.
        parent_pid: u32,
        /// The parent; `None` if the record was lost or the process existed at the start.
        parent: Option<Parent>,
    },
    /// A process executed another program.
    ProcessExec {
        /// Full path of the program, as seen by the process.
        path: FilePath,
        /// The arguments, up to a limit.
        args: Vec<Vec<u8>>,
        /// Whether arguments were left out or truncated.
        args_truncated: bool,
        /// Real user id, in the host's user namespace.
        uid: u32,
        /// Additional facts about the process.
        context: Box<ExecContext>,
    },
    /// A program could not be executed.
    ProcessExecFailed {
        /// The requested path. For a program given only by a descriptor, it is `/dev/fd/N`, as the
        /// kernel names it.
        path: FilePath,
        /// Real user id, in the host's user namespace.
        uid: u32,
        /// The parent of the process.
        parent: Option<Parent>,
        /// The error (errno).
        errno: i32,
    },
    /// The last thread of a process ended.
    ProcessExit {
        /// How the process ended; `None` if the record was lost.
        status: Option<ExitStatus>,
        /// Whether the OOM killer killed the process.
        oom_killed: bool,
        /// Whether the kernel wrote a core file.
        core_dumped: bool,
        /// The parent when the process ended; `None` if the record was lost.
        parent: Option<Parent>,
        /// Lifetime in nanoseconds; `None` if the record was lost.
        duration_ns: Option<u64>,
        /// CPU time of all threads, in nanoseconds; `None` if unknown.
        cpu_ns: Option<u64>,
        /// Peak resident set, in bytes; `None` if unknown.
        rss_peak_bytes: Option<u64>,
    },
    /// A signal was sent to a process.
    ProcessSignal {
        /// Signal number.
        signal: u8,
        /// Why the signal was sent: si_code of sigaction(2).
        code: i32,
        /// The sending process. `None` for the kernel (a code above 0), and before Linux 5.11.
        sender: Option<Parent>,
    },
    /// The OOM killer killed a process.
    OomKill {
        /// Resident set when the process was chosen, in bytes, as in the kernel's log. `None` if
        /// the kernel reports only the thread (before Linux 6.9), whose memory is freed when it
        /// ends.
        rss_bytes: Option<u64>,
        /// The lowest memory limit of the process's cgroup and its ancestors; `None` if there is no
        /// limit.
        limit_bytes: Option<u64>,
    },
    /// A change of a TCP socket.
    Tcp { change: TcpChange, socket: Socket },
    /// A file was opened, or could not be opened.
    FileOpen {
        /// Full path. For a failed open, the requested path.
        path: FilePath,
        /// Flags as in open(2).
        flags: u32,
        /// The error (errno) of a failed open.
        error: Option<i32>,
    },
    /// A name or the mode of a file was changed, or the change failed.
    FileChange {
        /// Full path. It is the old path of a rename, and the path of the file for a hard link.
        path: FilePath,
        change: FileChange,
        /// The error (errno) of a failed change.
        error: Option<i32>,
    },
    /// A DNS query, with or without a response. The query is boxed because it is rare and large.
    DnsQuery(Box<DnsQuery>),
    /// Traffic of a UDP socket with one peer.
    UdpFlow(UdpFlow),
    /// Events were lost at this point. Afterwards the stream is complete again.
    Gap {
        /// Number of lost events, by name.
        lost: Vec<(&'static str, u64)>,
        /// Only in a file: the time, in nanoseconds since 1970, from which nothing was recorded
        /// until the time of this event. The number of missed events is unknown.
        since_unix_ns: Option<u64>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// A name was removed. The file is deleted with its last name.
    Delete {
        /// Whether the deleted file was a directory.
        directory: bool,
    },
    /// The file was renamed.
    Rename {
        to: FilePath,
        /// Whether the file at the new path got the old path in exchange.
        exchanged: bool,
    },
    /// The file got an additional name.
    HardLink { to: FilePath },
    /// A symbolic link was created.
    SymbolicLink {
        /// The unresolved target.
        target: FilePath,
    },
    /// The permissions were set.
    Chmod {
        /// Mode as in chmod(2).
        mode: u32,
    },
}

impl FileChange {
    /// `file.link` gives a hard link.
    fn blank(name: &str) -> Option<Self> {
        let to = FilePath::default();
        Some(match name {
            "file.delete" => Self::Delete { directory: false },
            "file.rename" => Self::Rename {
                to,
                exchanged: false,
            },
            "file.link" => Self::HardLink { to },
            "file.chmod" => Self::Chmod { mode: 0 },
            _ => return None,
        })
    }

    /// Returns the name of the event, which outputs write as `event.name`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Delete { .. } => "file.delete",
            Self::Rename { .. } => "file.rename",
            Self::HardLink { .. } | Self::SymbolicLink { .. } => "file.link",
            Self::Chmod { .. } => "file.chmod",
        }
    }

    /// Returns the second path of a rename or link.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parent {
    pub id: ProcessId,
    /// Wall-clock time at which the parent started, in nanoseconds since 1970.
    pub start_unix_ns: u64,
    pub comm: Comm,
}

/// The state of a process after a successful exec. Ids are in the host's user namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecContext {
    pub parent: Option<Parent>,
    /// Command names of the grandparent and its ancestors, nearest first.
    pub ancestors: Vec<Comm>,
    /// Effective user id.
    pub effective_uid: u32,
    /// Real group id.
    pub gid: u32,
    /// Effective group id.
    pub effective_gid: u32,
    /// Effective capabilities, as a bit mask.
    pub capabilities: u64,
    /// Login user id of the audit subsystem.
    pub login_uid: Option<u32>,
    /// Session id of the audit subsystem.
    pub audit_session: Option<u32>,
    /// Name of the controlling terminal.
    pub tty: Option<Comm>,
    pub namespaces: Vec<Namespace>,
    /// The working directory.
    pub directory: FilePath,
}

impl ExecContext {
    /// Returns the approximate memory use in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&*self.namespaces)
            + size_of_val(&*self.ancestors)
            + self.directory.bytes.len()
    }
}

/// A namespace of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// Name of the namespace's file in /proc.
    pub kind: &'static str,
    /// Inode of the namespace's file.
    pub inode: u32,
    /// Whether this is the host's namespace; `None` if unknown.
    pub of_host: Option<bool>,
}

/// A path as bytes, because Linux paths have no encoding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePath {
    pub bytes: Vec<u8>,
    /// Whether the path was too long for the kernel side, so that only its last part is here.
    pub truncated: bool,
    /// Whether the file had no directory entry left. If it had none, the path is the last one of
    /// the file.
    pub deleted: bool,
    /// Whether the file is not below the root of the process, because it is in a detached mount or
    /// outside the process's chroot.
    pub unreachable: bool,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// The process exited with this code.
    Code(u8),
    /// This signal killed the process.
    Signal(u8),
}

/// A change of a TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpChange {
    /// The socket began to listen.
    Listen,
    /// The socket stopped listening.
    ListenClose,
    /// An outgoing connection was established.
    Connect {
        /// Time from the call to the end of the handshake, in nanoseconds; `None` for a connection
        /// older than the agent.
        duration_ns: Option<u64>,
    },
    /// An outgoing connection could not be established.
    ConnectFailed {
        reason: ConnectError,
        /// The error that the application receives (errno); 0 if the application gave up.
        errno: i32,
        /// Time from the call to the failure, in nanoseconds; `None` if either time is unknown.
        duration_ns: Option<u64>,
    },
    /// An incoming connection was established. The process is the one that accepts it. If the
    /// kernel does not show that process, it is the one that listens.
    Accept,
    /// Segments were retransmitted.
    Retransmit {
        /// Number of segments, as the kernel counts them.
        segments: u32,
        /// Number of these segments that the host itself dropped because a queue was full.
        failed: u32,
    },
    /// A connection ended.
    Close {
        /// Payload bytes that the peer acknowledged; retransmitted bytes count once. All fields are
        /// `None` if the record was lost.
        bytes_sent: Option<u64>,
        /// Payload bytes received.
        bytes_received: Option<u64>,
        /// Time since the connection was established, in nanoseconds; `None` if unknown.
        duration_ns: Option<u64>,
        /// Why the connection ended; `None` if unknown.
        reason: Option<CloseReason>,
        /// Whether this side ended the connection; `None` if neither side did, or if that is
        /// unknown.
        closed_here: Option<bool>,
        /// Retransmitted segments.
        retransmits: Option<u32>,
        /// Smoothed round-trip time, in microseconds; `None` if it was not measured.
        rtt_us: Option<u32>,
    },
}

impl TcpChange {
    /// The end of a connection whose other fields are unknown.
    pub const UNKNOWN_CLOSE: Self = Self::Close {
        bytes_sent: None,
        bytes_received: None,
        duration_ns: None,
        reason: None,
        closed_here: None,
        retransmits: None,
        rtt_us: None,
    };

    fn blank(name: &str) -> Option<Self> {
        Some(match name {
            "tcp.listen" => Self::Listen,
            "tcp.listen_close" => Self::ListenClose,
            "tcp.connect" => Self::Connect { duration_ns: None },
            "tcp.connect_failed" => Self::ConnectFailed {
                reason: ConnectError::Other,
                errno: 0,
                duration_ns: None,
            },
            "tcp.accept" => Self::Accept,
            "tcp.retransmit" => Self::Retransmit {
                segments: 0,
                failed: 0,
            },
            "tcp.close" => Self::UNKNOWN_CLOSE,
            _ => return None,
        })
    }
}

named_values! {
    /// Why a connection ended.
    ///
    /// The name is the value of `tcp.close.reason`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CloseReason {
        /// Both sides closed the connection.
        Fin: "fin",
        /// The peer reset the connection.
        Reset: "reset",
        /// This side closed the connection with unread data, or without lingering.
        Aborted: "aborted",
        /// The peer stopped acknowledging data.
        Timeout: "timeout",
        /// The peer did not respond to keepalive probes.
        Keepalive: "keepalive",
        /// Another program ended the connection (`ss -K`).
        Killed: "killed",
    }
}

named_values! {
    /// Why a connection could not be established.
    ///
    /// The name of a value is used in `error.type` and in the label `result`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ConnectError {
        /// The peer refused the connection (ECONNREFUSED, ECONNRESET).
        Refused: "refused",
        /// The kernel gave up (ETIMEDOUT).
        Timeout: "timeout",
        /// The application gave up: it closed the socket before the peer responded.
        Abandoned: "abandoned",
        /// No route to the peer (EHOSTUNREACH, ENETUNREACH).
        Unreachable: "unreachable",
        /// Another error.
        Other: "other",
    }
}

/// A TCP socket at the time of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Socket {
    /// Number of the socket, unique while the agent runs; 0 if the socket is not tracked.
    pub id: u64,
    /// Local address; `None` if no port has been chosen yet.
    pub local: Option<SocketAddr>,
    /// Remote address; `None` for a listening socket, or if it is no longer known.
    pub peer: Option<SocketAddr>,
    /// Cookie of the socket's network namespace; `None` if the kernel does not provide cookies
    /// (before Linux 5.12).
    pub netns_cookie: Option<u64>,
    /// Whether the socket is a subflow of a Multipath TCP connection.
    pub multipath: bool,
}

impl What {
    /// The exit of a process whose other fields are unknown.
    pub const UNKNOWN_EXIT: Self = Self::ProcessExit {
        status: None,
        oom_killed: false,
        core_dumped: false,
        parent: None,
        duration_ns: None,
        cpu_ns: None,
        rss_peak_bytes: None,
    };

    /// Returns an event with this name in which numbers are 0, strings and lists are empty, and
    /// optional fields are absent. Returns `None` for a name that is not in [`What::NAMES`].
    pub fn blank(name: &str) -> Option<Self> {
        Some(match name {
            "process.start" => Self::ProcessStart {
                parent_pid: 0,
                parent: None,
            },
            "process.exec" => Self::ProcessExec {
                path: FilePath::default(),
                args: Vec::new(),
                args_truncated: false,
                uid: 0,
                context: Box::default(),
            },
            "process.exec_failed" => Self::ProcessExecFailed {
                path: FilePath::default(),
                uid: 0,
                parent: None,
                errno: 0,
            },
            "process.exit" => Self::UNKNOWN_EXIT,
            "process.signal" => Self::ProcessSignal {
                signal: 0,
                code: 0,
                sender: None,
            },
            "oom.kill" => Self::OomKill {
                rss_bytes: None,
                limit_bytes: None,
            },
            "file.open" => Self::FileOpen {
                path: FilePath::default(),
                flags: 0,
                error: None,
            },
            "dns.query" => Self::DnsQuery(Box::default()),
            "udp.flow" => Self::UdpFlow(UdpFlow::default()),
            "gap" => Self::Gap {
                lost: Vec::new(),
                since_unix_ns: None,
            },
            _ => match (TcpChange::blank(name), FileChange::blank(name)) {
                (Some(change), _) => Self::Tcp {
                    change,
                    socket: Socket::default(),
                },
                (_, Some(change)) => Self::FileChange {
                    path: FilePath::default(),
                    change,
                    error: None,
                },
                (None, None) => return None,
            },
        })
    }

    /// All values of `event.name`.
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

    /// Returns the name of the event, which outputs write as `event.name`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_name_has_its_own_blank_event() {
        for name in What::NAMES {
            assert_eq!(What::blank(name).map(|what| what.name()), Some(name));
        }
        assert_eq!(What::blank("tcp.unknown"), None);
    }
}
