//! Events reported by the agent and its peers, parsed from many formats into common types.

use std::net::{IpAddr, SocketAddr};

mod delivered;
mod lines;
mod noctule;

pub(super) use delivered::{Marks, Sort, address_of, folder_of, lost_words};
pub(super) use noctule::Gap;

/// The format of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// `noctule events --json`.
    Noctule,
    Execsnoop,
    Exitsnoop,
    Tcplife,
    Tcpstates,
    /// `opensnoop -e`, which prints the flags of each open.
    Opensnoop,
    /// bpftrace one-liners of the bench: `new PID IS_THREAD MONOTONIC` and `oom PID`.
    Bpftrace,
}

impl Format {
    /// Parses the event of a line. Returns `None` for table headings and for events without a
    /// variant here.
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

/// An event parsed from a line.
#[derive(Debug, PartialEq)]
pub(super) struct Reported {
    /// The time, if the line contains one: nanoseconds since 1970, or on the monotonic clock for
    /// one-liners of the bench.
    pub(super) at: Option<u64>,
    /// Cookie of the network namespace, if the line contains it.
    pub(super) netns: Option<u64>,
    pub(super) event: Event,
}

/// The kind of event and its fields.
#[derive(Debug, PartialEq)]
pub(super) enum Event {
    Start {
        pid: u32,
        /// Only the agent reports the parent.
        parent: Option<u32>,
    },
    /// The start of a thread, reported by tools that report both threads and processes.
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
    /// Number of retransmitted segments.
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

/// Arguments of a program without `argv[0]`, joined by spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arguments {
    pub(super) words: String,
    /// Whether arguments were cut off.
    pub(super) truncated: bool,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Code(i64),
    Signal(i64),
}

/// A change of a socket's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    Listen,
    ListenClose,
    Connect,
    ConnectFailed,
    Accept,
    Close,
    /// An intermediate state, which the agent does not report.
    Between,
}

/// Local and remote address. A missing address is unspecified, and a missing port is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
}

impl Ends {
    /// Creates the pair. IPv4-mapped IPv6 addresses become IPv4.
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
    /// Whether the file is only named, not opened.
    pub(super) path_only: bool,
}
