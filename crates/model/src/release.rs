//! The processes for which blocked threads waited, and which ended the blocks.

use crate::{BlockClass, Group, ProcessId};

/// The end of a block. If no program saw the end, the block has no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockEnd {
    /// A process woke the thread.
    Released(Releaser),
    /// A timeout, a signal or another interrupt woke the thread.
    Nobody,
    /// The thread left the group while it was blocked.
    Left,
}

/// A process that woke a blocked thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Releaser {
    /// The group of the thread that woke the blocked thread.
    pub group: Group,
    /// The process of the thread that woke the blocked thread.
    pub process: ProcessId,
}

/// Blocked time of a group that one process ended. There are rows only for classes in which threads
/// wait for another thread ([`BlockClass::has_releaser`]). A block counts when it ends, or when its
/// thread leaves the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseRow {
    /// The group that was blocked.
    pub victim: Group,
    pub class: BlockClass,
    /// How the blocks ended.
    pub end: BlockEnd,
    /// Total length of the blocks since the start of the window, in nanoseconds. Before a window
    /// starts, since the agent started.
    pub blocked_ns: u64,
}
