//! Identities as the kernel gives them.

/// A cgroup of the hierarchy that the kernel side reads: the inode of its directory.
///
/// Ids are unique within one hierarchy and in practice not used twice while the machine is up.
/// Which hierarchy is read (v2, or the cpu controller of v1) is decided once at load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CgroupId(pub u64);

impl CgroupId {
    /// The root group of any hierarchy.
    pub const ROOT: Self = Self(1);
    /// The groups for which the kernel side had no row, together. No directory has this inode.
    pub const UNPLACED: Self = Self(0);
}

/// A process: its thread-group id in the agent's pid namespace, and when it started.
///
/// The kernel uses pids again; the pair is unique while the machine is up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId {
    /// Thread-group id.
    pub pid: u32,
    /// Start of the process in nanoseconds since boot (`task_struct.start_boottime` of the leader).
    pub start_ns: u64,
}
