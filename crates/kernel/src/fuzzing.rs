//! Entry points for `fuzz/`, not part of release builds.

use crate::CgroupEvent;

pub use crate::events::fuzzing::{event, socket};

/// The ring buffers of the BPF programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ring {
    /// Processes, signals, OOM kills and TCP.
    Facts,
    /// Opened or changed files.
    Files,
    /// DNS queries and UDP flows.
    Packets,
}

/// Parses a record of the ring buffer of cgroup events.
pub fn cgroup(record: &[u8]) -> Option<CgroupEvent> {
    CgroupEvent::parse(record)
}
