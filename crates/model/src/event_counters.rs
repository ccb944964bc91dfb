//! Counts of events, for each cgroup and the node, but not for single processes.
//!
//! These counters are separate from [`crate::Counters`], which are summed over all threads at each
//! tick and have the layout of the kernel side's accounts.

use crate::counts::group;
use crate::named::named_values;
use crate::{ConnectError, Countable, Counts, Measurable};

named_values! {
    /// How a process ended.
    ///
    /// The name is the value of the label `reason`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ExitKind {
        /// Exited with code 0.
        Completed: "completed",
        /// Exited with another code.
        Failed: "failed",
        /// Killed by a signal, but not by the OOM killer.
        Killed: "killed",
        /// Killed by the OOM killer.
        OomKilled: "oom",
    }
}

named_values! {
    /// Access mode of an opened file.
    ///
    /// The name is the value of the label `mode`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum FileMode {
        /// Read only.
        Read: "read",
        /// Write, or read and write.
        Write: "write",
    }
}

/// Counters whose events come from the same hooks, so that either all of them are measured or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventFamily {
    Processes,
    /// TCP connections and listeners.
    Tcp,
    /// File opens.
    Files,
}

impl EventFamily {
    /// Returns the counters of the family, for [`crate::Measured`].
    pub fn counters(self) -> impl Iterator<Item = EventCounter> {
        EventCounter::all().filter(move |counter| counter.family() == self)
    }
}

/// A monotonic counter of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventCounter {
    /// Processes forked, counted in the cgroup in which they first ran.
    ProcessStarts,
    /// Processes whose last thread ended, counted in the cgroup in which that thread ended.
    ProcessExits(ExitKind),
    /// Processes killed by the OOM killer.
    OomKills,
    /// Outgoing connections established.
    TcpConnects,
    /// Outgoing connections that could not be established.
    TcpConnectFailures(ConnectError),
    /// Nanoseconds from the call to the end of the handshake, summed over [`Self::TcpConnects`].
    TcpConnectNs,
    /// Incoming connections established.
    TcpAccepts,
    /// Retransmitted segments, including segments of handshakes.
    TcpRetransmits,
    /// Payload bytes sent; retransmitted bytes count once.
    TcpBytesSent,
    /// Payload bytes received.
    TcpBytesReceived,
    FileOpens(FileMode),
    /// Failed attempts to open a file.
    FileOpenFailures,
}

impl EventCounter {
    /// Number of counters.
    pub const COUNT: usize = Self::FILE_OPENS + FileMode::ALL.len() + 1;

    /// Ended processes, by how they ended.
    pub const EXITS: [Self; ExitKind::ALL.len()] = group!(ExitKind::ALL => Self::ProcessExits);

    /// Outgoing connections that could not be established, by reason.
    pub const CONNECT_FAILURES: [Self; ConnectError::ALL.len()] =
        group!(ConnectError::ALL => Self::TcpConnectFailures);

    /// Opened files, by access mode.
    pub const OPENS: [Self; FileMode::ALL.len()] = group!(FileMode::ALL => Self::FileOpens);

    const FAILURES: usize = 3 + ExitKind::ALL.len();
    const AFTER_FAILURES: usize = Self::FAILURES + ConnectError::ALL.len();
    const FILE_OPENS: usize = Self::AFTER_FAILURES + 5;

    /// Returns all counters, in order of their index.
    pub fn all() -> impl Iterator<Item = Self> {
        let tcp = [
            Self::TcpConnectNs,
            Self::TcpAccepts,
            Self::TcpRetransmits,
            Self::TcpBytesSent,
            Self::TcpBytesReceived,
        ];
        std::iter::once(Self::ProcessStarts)
            .chain(Self::EXITS)
            .chain([Self::OomKills, Self::TcpConnects])
            .chain(Self::CONNECT_FAILURES)
            .chain(tcp)
            .chain(Self::OPENS)
            .chain([Self::FileOpenFailures])
    }

    /// Returns the position in [`EventCounters`].
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

    fn part(self) -> &'static str {
        match self {
            Self::ProcessExits(kind) => kind.name(),
            Self::TcpConnects => "ok",
            Self::TcpConnectFailures(reason) => reason.name(),
            Self::TcpBytesSent => "sent",
            Self::TcpBytesReceived => "received",
            Self::FileOpens(mode) => mode.name(),
            _ => "",
        }
    }
}

/// A value for each counter of a cgroup or the node.
pub type EventCounters = Counts<EventCounter, { EventCounter::COUNT }>;

/// Sockets open at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sockets {
    /// Established TCP connections, incoming and outgoing.
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
    pub counters: EventCounters,
    /// Sockets open now. The value is not a difference of counters: it excludes sockets of removed
    /// cgroups, and includes sockets that are older than the counters.
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
    fn each_counter_is_measured_independently() {
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
