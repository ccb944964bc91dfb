//! The parsers of ring buffer records, for `fuzz/`.

use super::{RawEvent, SocketSample, files, record, udp};
use crate::fuzzing::Ring;

/// Parses a record; `None` if it is not valid.
pub fn event(ring: Ring, bytes: &[u8]) -> Option<RawEvent> {
    match ring {
        Ring::Facts => RawEvent::parse(bytes),
        Ring::Files => files::record::parse(bytes),
        Ring::Packets => udp::record::parse(bytes, &mut udp::unread::Unread::default()),
    }
}

/// Parses a socket listed by the iterator.
pub fn socket(bytes: &[u8]) -> Option<SocketSample> {
    record::socket(bytes)
}
