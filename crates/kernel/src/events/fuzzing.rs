//! The parsers of the rings, for `fuzz/`.

use super::{RawEvent, SocketSample, files, record, udp};
use crate::fuzzing::Ring;

/// What a record of a ring says; `None` when it is none of ours.
pub fn event(ring: Ring, bytes: &[u8]) -> Option<RawEvent> {
    match ring {
        Ring::Facts => RawEvent::parse(bytes),
        Ring::Files => files::record::parse(bytes),
        Ring::Packets => udp::record::parse(bytes, &mut udp::unread::Unread::default()),
    }
}

/// A socket that the iterator lists.
pub fn socket(bytes: &[u8]) -> Option<SocketSample> {
    record::socket(bytes)
}
