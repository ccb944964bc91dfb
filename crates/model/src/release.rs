//! Who ended the blocks of threads: the party that they waited for.

use crate::{BlockClass, Group, ProcessId};

/// A process that woke a blocked thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Releaser {
    /// The group of its thread.
    pub group: Group,
    /// The process.
    pub process: ProcessId,
}

/// Blocked time of a group that one process ended. Only classes that wait for another party have
/// such rows ([`BlockClass::has_releaser`]). A block counts when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseRow {
    /// The group that was blocked.
    pub victim: Group,
    /// What its threads waited for.
    pub class: BlockClass,
    /// Who ended the blocks. `None`: no process did, but a timeout, another interrupt or a signal.
    pub by: Option<Releaser>,
    /// Length of the blocks since the agent started, in nanoseconds.
    pub blocked_ns: u64,
    /// Number of the blocks.
    pub blocks: u64,
}
