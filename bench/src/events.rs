//! Events as the agent and its peers report them: lines of many formats, one vocabulary.

use std::net::{IpAddr, SocketAddr};

mod delivered;
mod lines;
mod noctule;

pub(super) use delivered::{Marks, Sort, address_of, folder_of, lost_words};
pub(super) use noctule::Gap;

/// Who writes the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// `noctule events --json`.
    Noctule,
    Execsnoop,
    Exitsnoop,
    Tcplife,
    Tcpstates,
    /// With `-e`, for the flags.
    Opensnoop,
    /// Our own one-liners: `new PID IS_THREAD MONOTONIC` and `oom PID`.
    Bpftrace,
}

impl Format {
    /// The event of a line; none for heads of tables and for events that have no variant here.
    pub(super) fn read(self, line: &str) -> Option<Reported> {
        let event = match self {
            Self::Noctule => return noctule::read(line),
            Self::Execsnoop => lines::execsnoop(line),
            Self::Exitsnoop => lines::exitsnoop(line),
            Self::Tcplife => lines::tcplife(line),
            Self::Tcpstates => lines::tcpstates(line),
            Self::Opensnoop => lines::opensnoop(line),
            Self::Bpftrace => return lines::bpftrace(line),
        };
        event.map(|event| Reported {
            at: None,
            event,
            netns: None,
        })
    }
}

/// The kinds of events that a peer reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Starts,
    Execs,
    Exits,
    /// Ends of connections, established or not.
    Lives,
    /// Every state of a socket.
    States,
    Opens,
    Kills,
}

/// One line.
#[derive(Debug, PartialEq)]
pub(super) struct Reported {
    /// If it is reported: nanoseconds since 1970, or on the monotonic clock for our own one-liners.
    pub(super) at: Option<u64>,
    /// Cookie of the network namespace, if it is reported.
    pub(super) netns: Option<u64>,
    pub(super) event: Event,
}

/// What happened.
#[derive(Debug, PartialEq)]
pub(super) enum Event {
    Start {
        pid: u32,
        /// Only the agent reports it.
        parent: Option<u32>,
    },
    /// Not a process; reported by tools that see both.
    ThreadStart,
    Exec {
        pid: u32,
        parent: Option<u32>,
        name: String,
        arguments: Arguments,
    },
    Exit {
        pid: u32,
        parent: Option<u32>,
        name: String,
        end: End,
    },
    Tcp(Change, Ends),
    /// Segments that were sent again.
    Retransmit(u64),
    Open {
        pid: u32,
        path: String,
        flags: Flags,
        failed: bool,
    },
    Oom {
        pid: u32,
    },
    Gap(Gap),
}

/// Of a program, without the first, which is its name: joined by spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arguments {
    pub(super) words: String,
    /// There were more.
    pub(super) truncated: bool,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Code(i64),
    Signal(i64),
}

/// How a socket changed, as far as the agent reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    Listen,
    ListenClose,
    Connect,
    ConnectFailed,
    Accept,
    Close,
    /// States between, which no event of the agent reports.
    Between,
}

/// Own end and the other one; an absent address is unspecified, an absent port 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
}

impl Ends {
    /// IPv4 through an IPv6 socket is IPv4.
    fn new(local: (IpAddr, u16), peer: (IpAddr, u16)) -> Self {
        let end = |(address, port): (IpAddr, u16)| SocketAddr::new(address.to_canonical(), port);
        Self {
            local: end(local),
            peer: end(peer),
        }
    }
}

/// Flags of open(2) that decide whether the agent reports an open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flags {
    /// The file is not opened, only named.
    pub(super) path_only: bool,
}
