//! Where connections go.

use std::net::SocketAddr;

use crate::{CgroupId, ConnectError, Countable, Counts, EventCounter};

/// One monotonic counter of a destination: an address and port that a group connects to.
/// Connections that come from the other side have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DestinationCounter {
    /// Connections that were established.
    Connects,
    /// Connections that could not be established.
    Failures,
    /// Nanoseconds from the call to the handshake's end, of [`Self::Connects`].
    ConnectNs,
    /// Segments that were sent again, those of handshakes included.
    Retransmits,
    /// Payload that was sent, each byte once.
    BytesSent,
    /// Payload that was received.
    BytesReceived,
}

impl DestinationCounter {
    /// Every counter, in order of its index.
    pub const ALL: [Self; 6] = [
        Self::Connects,
        Self::Failures,
        Self::ConnectNs,
        Self::Retransmits,
        Self::BytesSent,
        Self::BytesReceived,
    ];

    /// The group's counter that this is a part of: measured when that is.
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

/// What a cgroup did with one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestinationRow {
    /// Whose connections: the group that the process was in when it connected.
    pub cgroup: CgroupId,
    /// The other end. `None` for all that found no room, or are gone for long, together.
    pub destination: Option<SocketAddr>,
    /// Since the agent started.
    pub counters: DestinationCounters,
}
