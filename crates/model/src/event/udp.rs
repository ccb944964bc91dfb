//! Events of UDP sockets.

use super::Socket;

/// A query to a DNS server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsQuery {
    /// The socket. Its peer is the server that responded, or else the server that was asked first.
    pub socket: Socket,
    pub question: DnsQuestion,
    /// Number of attempts.
    pub attempts: u32,
    /// The response; `None` if there was none.
    pub answer: Option<DnsAnswer>,
    /// Whether a response may have been missed: the process read packets of the server that could
    /// not be matched to another question.
    pub unread: bool,
}

/// The question of a DNS query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsQuestion {
    /// The name as sent, without a trailing dot. A dot within a label is preceded by a backslash.
    /// `.` is the root.
    pub name: Vec<u8>,
    /// Whether the name is truncated or invalid. The type of such a query is unknown.
    pub truncated: bool,
    /// The record type, such as 1 for A.
    pub kind: u16,
}

/// The response to a DNS query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DnsAnswer {
    /// Response code, such as 3 for NXDOMAIN.
    pub code: u8,
    /// Number of records in the answer section.
    pub records: u16,
    /// Time from the first attempt until the process read the response, in nanoseconds.
    pub duration_ns: u64,
}

/// Traffic of a socket with one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpFlow {
    /// The socket, with the peer.
    pub socket: Socket,
    /// Payload bytes sent. It is unknown whether the bytes were delivered.
    pub bytes_sent: u64,
    /// Payload bytes that the process read.
    pub bytes_received: u64,
    pub packets_sent: u64,
    /// Packets that the process read.
    pub packets_received: u64,
    /// Time from the first packet to the last, in nanoseconds.
    pub duration_ns: u64,
    /// Whether the socket was closed. Otherwise the flow ended because it was idle.
    pub closed: bool,
}
