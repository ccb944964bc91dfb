//! What is counted of events, for each cgroup and the node; never for a single process.
//!
//! They are no part of [`crate::Counters`]: those are added up for every thread at each tick, and
//! have their places from the accounts of the kernel side.

use crate::{ConnectError, Countable, Counts, Measurable};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExitKind {
    /// By itself, with code 0.
    Completed,
    /// By itself, with another code.
    Failed,
    /// By a signal, other than that of the OOM killer.
    Killed,
    /// By the OOM killer.
    OomKilled,
}

impl ExitKind {
    /// Every kind, in order of its index.
    pub const ALL: [Self; 4] = [Self::Completed, Self::Failed, Self::Killed, Self::OomKilled];

    /// The value of the label `reason`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Killed => "killed",
            Self::OomKilled => "oom",
        }
    }
}

/// What a file was opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileMode {
    /// To read only.
    Read,
    /// To write, or to read and write.
    Write,
}

impl FileMode {
    /// Every mode, in order of its index.
    pub const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// The value of the label `mode`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// Counters that come from the same hooks, and are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventFamily {
    /// The life of processes.
    Processes,
    /// TCP connections and listeners.
    Tcp,
    /// Opened files.
    Files,
}

impl EventFamily {
    /// Its counters, for [`crate::Measured`].
    pub fn counters(self) -> impl Iterator<Item = EventCounter> {
        EventCounter::all().filter(move |counter| counter.family() == self)
    }
}

/// One monotonic counter of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventCounter {
    /// Processes that were forked, in the group in which they first ran.
    ProcessStarts,
    /// Processes of which the last thread has ended, in the group in which it ended.
    ProcessExits(ExitKind),
    /// Processes that died of the OOM killer.
    OomKills,
    /// Connections that were established from this side.
    TcpConnects,
    /// Connections that could not be established from this side.
    TcpConnectFailures(ConnectError),
    /// Nanoseconds from the call to the handshake's end, of [`Self::TcpConnects`].
    TcpConnectNs,
    /// Connections that were established from the other side.
    TcpAccepts,
    /// Segments that were sent again, those of handshakes included.
    TcpRetransmits,
    /// Payload that was sent, each byte once.
    TcpBytesSent,
    /// Payload that was received.
    TcpBytesReceived,
    /// Files that were opened.
    FileOpens(FileMode),
    /// Files that could not be opened.
    FileOpenFailures,
}

impl EventCounter {
    /// How many counters there are.
    pub const COUNT: usize = Self::FILE_OPENS + FileMode::ALL.len() + 1;

    const FAILURES: usize = 3 + ExitKind::ALL.len();
    const AFTER_FAILURES: usize = Self::FAILURES + ConnectError::ALL.len();
    const FILE_OPENS: usize = Self::AFTER_FAILURES + 5;

    /// Every counter, in order of its index.
    pub fn all() -> impl Iterator<Item = Self> {
        let tcp = [
            Self::TcpConnectNs,
            Self::TcpAccepts,
            Self::TcpRetransmits,
            Self::TcpBytesSent,
            Self::TcpBytesReceived,
        ];
        std::iter::once(Self::ProcessStarts)
            .chain(ExitKind::ALL.map(Self::ProcessExits))
            .chain([Self::OomKills, Self::TcpConnects])
            .chain(ConnectError::ALL.map(Self::TcpConnectFailures))
            .chain(tcp)
            .chain(FileMode::ALL.map(Self::FileOpens))
            .chain([Self::FileOpenFailures])
    }

    /// Position in [`EventCounters`].
    pub const fn index(self) -> usize {
        match self {
            Self::ProcessStarts => 0,
            Self::ProcessExits(kind) => 1 + kind as usize,
            Self::OomKills => Self::FAILURES - 2,
            Self::TcpConnects => Self::FAILURES - 1,
            Self::TcpConnectFailures(reason) => Self::FAILURES + reason as usize,
            Self::TcpConnectNs => Self::AFTER_FAILURES,
            Self::TcpAccepts => Self::AFTER_FAILURES + 1,
            Self::TcpRetransmits => Self::AFTER_FAILURES + 2,
            Self::TcpBytesSent => Self::AFTER_FAILURES + 3,
            Self::TcpBytesReceived => Self::AFTER_FAILURES + 4,
            Self::FileOpens(mode) => Self::FILE_OPENS + mode as usize,
            Self::FileOpenFailures => Self::FILE_OPENS + FileMode::ALL.len(),
        }
    }

    /// The counters that come from the same hooks.
    pub const fn family(self) -> EventFamily {
        match self {
            Self::ProcessStarts | Self::ProcessExits(_) | Self::OomKills => EventFamily::Processes,
            Self::FileOpens(_) | Self::FileOpenFailures => EventFamily::Files,
            _ => EventFamily::Tcp,
        }
    }
}

impl Countable for EventCounter {
    fn position(self) -> usize {
        self.index()
    }
}

impl Measurable for EventCounter {
    const FIRST_BIT: u32 = crate::Counter::COUNT as u32;
}

/// A value for each counter of a cgroup or the node.
pub type EventCounters = Counts<EventCounter, { EventCounter::COUNT }>;

/// What is open at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sockets {
    /// Established TCP connections, from either side.
    pub connections: u64,
    /// Listening TCP sockets.
    pub listeners: u64,
}

impl std::ops::AddAssign<&Sockets> for Sockets {
    fn add_assign(&mut self, other: &Self) {
        self.connections += other.connections;
        self.listeners += other.listeners;
    }
}

/// The events of a group or the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// What was counted.
    pub counters: EventCounters,
    /// What is open now. It is no difference of counters: what a group had open that is gone counts
    /// no more, and what was open before the counters began does.
    pub sockets: Sockets,
}

impl std::ops::AddAssign<&Events> for Events {
    fn add_assign(&mut self, other: &Self) {
        self.counters += &other.counters;
        self.sockets += &other.sockets;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counter, Measured};

    #[test]
    fn index_is_the_position_in_all() {
        let indices: Vec<usize> = EventCounter::all().map(EventCounter::index).collect();
        assert_eq!(indices, (0..EventCounter::COUNT).collect::<Vec<_>>());
    }

    #[test]
    fn each_counter_is_measured_by_itself() {
        let all = || EventCounter::all();
        let families = [EventFamily::Processes, EventFamily::Tcp, EventFamily::Files];
        for family in families {
            let measured: Measured = family.counters().collect();
            assert!(Counter::all().all(|counter| !measured.has(counter)));
            assert!(all().all(|counter| measured.has(counter) == (counter.family() == family)));
        }
        let mut measured: Measured = Counter::all().collect();
        assert!(all().all(|counter| !measured.has(counter)));
        measured.extend(all());
        assert!(Counter::all().all(|counter| measured.has(counter)));
    }
}
