//! The way in of `fuzz/`: no part of what is shipped.

use crate::CgroupEvent;

pub use crate::events::fuzzing::{event, socket};

/// What the kernel side writes, one record at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ring {
    /// Processes, signals, OOM kills and TCP.
    Facts,
    /// Files that are opened or changed.
    Files,
    /// Questions to DNS servers.
    Packets,
}

/// What a record of the ring of cgroups says.
pub fn cgroup(record: &[u8]) -> Option<CgroupEvent> {
    CgroupEvent::parse(record)
}
