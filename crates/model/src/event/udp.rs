//! Events of UDP.

use super::Socket;

/// A question to a DNS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsQuery {
    /// The socket; its peer is the server that has answered, or that was asked first.
    pub socket: Socket,
    /// What was asked.
    pub question: DnsQuestion,
    /// How often it was sent.
    pub attempts: u32,
    /// The answer; `None` when there was none.
    pub answer: Option<DnsAnswer>,
    /// There may have been one, which could not be read: the process took packets of the server of which
    /// none is known to be the answer to another question.
    pub unread: bool,
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsQuestion {
    /// The name in bytes as it was asked, without a dot at its end; a dot in a label has a backslash
    /// before it. `.` is the root.
    pub name: Vec<u8>,
    /// The name goes on, or is none; its type is not known then.
    pub truncated: bool,
    /// The type, such as 1 for A.
    pub kind: u16,
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DnsAnswer {
    /// Response code, such as 3 for NXDOMAIN.
    pub code: u8,
    /// Records in the section of answers.
    pub records: u16,
    /// From the first attempt until the process took the answer, nanoseconds.
    pub duration_ns: u64,
}

/// What a socket has exchanged with one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpFlow {
    /// The socket, with the peer.
    pub socket: Socket,
    /// Payload that the process sent, bytes. Whether it arrived is not known.
    pub bytes_sent: u64,
    /// Payload that the process took.
    pub bytes_received: u64,
    /// Packets that it sent.
    pub packets_sent: u64,
    /// Packets that it took.
    pub packets_received: u64,
    /// From the first packet to the last, nanoseconds.
    pub duration_ns: u64,
    /// The socket was closed; otherwise the flow was idle for long.
    pub closed: bool,
}
