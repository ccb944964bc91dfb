//! Destinations of connections.

use std::net::SocketAddr;

use crate::{CgroupId, ConnectError, Countable, Counts, EventCounter};

/// A monotonic counter of a destination: an address and port that a group connects to. Accepted
/// connections have no destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DestinationCounter {
    /// Connections established.
    Connects,
    /// Connections that could not be established.
    Failures,
    /// Nanoseconds from the call to the end of the handshake, summed over [`Self::Connects`].
    ConnectNs,
    /// Retransmitted segments, including segments of handshakes.
    Retransmits,
    /// Payload bytes sent, each byte once.
    BytesSent,
    /// Payload bytes received.
    BytesReceived,
}

impl DestinationCounter {
    /// All counters, in order of their index.
    pub const ALL: [Self; 6] = [
        Self::Connects,
        Self::Failures,
        Self::ConnectNs,
        Self::Retransmits,
        Self::BytesSent,
        Self::BytesReceived,
    ];

    /// Returns the name of the counter within its group; empty if the counter belongs to no group.
    pub const fn part(self) -> &'static str {
        match self {
            Self::Connects => "ok",
            Self::Failures => "failed",
            Self::BytesSent => "sent",
            Self::BytesReceived => "received",
            Self::ConnectNs | Self::Retransmits => "",
        }
    }

    /// Returns the group's counter that includes this one. Either both counters are measured or
    /// neither is.
    pub const fn whole(self) -> EventCounter {
        match self {
            Self::Connects => EventCounter::TcpConnects,
            Self::Failures => EventCounter::TcpConnectFailures(ConnectError::Other),
            Self::ConnectNs => EventCounter::TcpConnectNs,
            Self::Retransmits => EventCounter::TcpRetransmits,
            Self::BytesSent => EventCounter::TcpBytesSent,
            Self::BytesReceived => EventCounter::TcpBytesReceived,
        }
    }
}

impl Countable for DestinationCounter {
    fn position(self) -> usize {
        self as usize
    }
}

/// A value for each counter of a destination.
pub type DestinationCounters = Counts<DestinationCounter, { DestinationCounter::ALL.len() }>;

/// A cgroup's connections to one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestinationRow {
    /// The cgroup of the process when it connected.
    pub cgroup: CgroupId,
    /// The remote address. `None` is the sum of destinations that had no room or whose row was
    /// dropped long ago.
    pub destination: Option<SocketAddr>,
    /// Counts since the agent started.
    pub counters: DestinationCounters,
}
