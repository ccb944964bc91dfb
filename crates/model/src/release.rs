//! Processes that ended the blocks of threads, which waited for them.

use crate::{BlockClass, Group, ProcessId};

/// How a block ended. A block whose end no program saw has no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockEnd {
    /// A process woke the thread.
    Released(Releaser),
    /// No process did, but a timeout, a signal or another interrupt.
    Nobody,
    /// The thread left the group while it was blocked.
    Left,
}

/// A process that woke a blocked thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Releaser {
    /// The group of the thread that woke the blocked thread.
    pub group: Group,
    /// The process.
    pub process: ProcessId,
}

/// Blocked time of a group that one process ended. Only classes that wait for another party have
/// such rows ([`BlockClass::has_releaser`]). A block counts when it ends, or when its thread leaves
/// the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseRow {
    /// The group that was blocked.
    pub victim: Group,
    /// The class of the blocks.
    pub class: BlockClass,
    /// How the blocks ended.
    pub end: BlockEnd,
    /// Length of the blocks since the start of the window, in nanoseconds. Until the window is
    /// chosen, since the agent started.
    pub blocked_ns: u64,
}
