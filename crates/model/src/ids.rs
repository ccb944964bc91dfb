//! Identifiers assigned by the kernel.

/// A cgroup of the hierarchy that the kernel side reads, identified by the inode of its directory.
///
/// Ids are unique within one hierarchy, and in practice not reused while the machine is up. The
/// hierarchy (v2, or the cpu controller of v1) is chosen when the programs are loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CgroupId(pub u64);

impl CgroupId {
    /// The root cgroup of any hierarchy.
    pub const ROOT: Self = Self(1);
    /// All cgroups without a row on the kernel side. No directory has this inode.
    pub const UNPLACED: Self = Self(0);
}

/// A process: its thread-group id in the agent's pid namespace, and its start time.
///
/// The kernel reuses pids, but the pair is unique while the machine is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId {
    /// Thread-group id.
    pub pid: u32,
    /// Start time in nanoseconds since boot (`task_struct.start_boottime` of the leader).
    pub start_ns: u64,
}
