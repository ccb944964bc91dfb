//! Processes that ended the blocks of threads, which waited for them.

use crate::{BlockClass, Group, ProcessId};

/// A process that woke a blocked thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Releaser {
    /// The group of the thread that woke the blocked thread.
    pub group: Group,
    /// The process.
    pub process: ProcessId,
}

/// Blocked time of a group that one process ended. Only classes that wait for another party have
/// such rows ([`BlockClass::has_releaser`]). A block is counted when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseRow {
    /// The group that was blocked.
    pub victim: Group,
    /// The class of the blocks.
    pub class: BlockClass,
    /// The process that ended the blocks. `None` if they were ended by a timeout, another interrupt
    /// or a signal.
    pub by: Option<Releaser>,
    /// Total length of the blocks since the agent started, in nanoseconds.
    pub blocked_ns: u64,
    /// Number of the blocks.
    pub blocks: u64,
}
