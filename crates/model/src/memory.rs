//! Memory limits of groups, and pages that were evicted and read again.

use crate::CgroupId;

/// A group whose threads waited for a disk or for memory, or that has a memory limit, and the kernel's
/// account of its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRow {
    /// The group, in the hierarchy of the memory controller.
    pub cgroup: CgroupId,
    /// Path in the hierarchy.
    pub path: String,
    /// The limit (`memory.max`, `memory.high`, `memory.limit_in_bytes`), if there is one.
    pub limit_bytes: Option<u64>,
    /// How often the group itself was at its limit (`memory.events.local`, `memory.failcnt`). Only goes up.
    pub hits: u64,
    /// Pages of the group and its descendants that were evicted and then read again, in bytes. Only goes up.
    pub reread_bytes: u64,
    /// What the group and its descendants read from disks, or what the whole machine read if that is not
    /// known. Only goes up.
    pub read_bytes: u64,
    /// Whether threads wait at the limit, because the OOM killer of the group is off (cgroup v1).
    pub under_oom: bool,
}

/// How memory held a group in a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryUse {
    /// The limit that was reached.
    pub limit: Option<MemoryLimit>,
    /// Pages that were evicted and then read again, in bytes.
    pub reread_bytes: u64,
    /// Those pages as a part of all that was read from disks. At most 1.
    pub reread_part: f64,
}

/// A memory limit that was reached in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The limit.
    pub bytes: u64,
    /// Path of the group with the limit, if it is another one, above or inside.
    pub group: Option<String>,
    /// Whether threads wait at the limit, because the OOM killer is off.
    pub under_oom: bool,
}
