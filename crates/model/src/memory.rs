//! Memory limits of groups, and pages that were evicted and read again.

use crate::CgroupId;

/// Memory figures of a group, as the kernel counts them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRow {
    /// The group, in the hierarchy of the memory controller.
    pub cgroup: CgroupId,
    /// Path of the group in the hierarchy.
    pub path: String,
    /// Time of the batch for which the files were read, in nanoseconds of `CLOCK_MONOTONIC`.
    pub taken_ns: u64,
    /// The limit (`memory.max`, `memory.high`, `memory.limit_in_bytes`), if there is one.
    pub limit_bytes: Option<u64>,
    /// How often the group itself reached its limit (`memory.events.local`, `memory.failcnt`).
    /// Never decreases.
    pub hits: Option<u64>,
    /// Pages of the group and its descendants that were evicted and then read again, in bytes.
    /// Never decreases.
    pub reread_bytes: u64,
    /// Bytes that the group and its descendants read from disks. If this number is unknown, bytes
    /// that the whole machine read; `None` if both numbers are unknown. Never decreases.
    pub read_bytes: Option<u64>,
    /// Whether threads wait at the limit, because the OOM killer of the group is off (cgroup v1).
    pub under_oom: bool,
}

/// How memory held a group back in a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryUse {
    /// The limit that was reached.
    pub limit: Option<MemoryLimit>,
    /// Pages that were evicted and then read again in the window, in bytes; `None` if unknown.
    pub reread_bytes: Option<u64>,
    /// Evicted pages that were read again, as a fraction of all bytes read from disks; at most 1.
    /// `None` if the number of read bytes is unknown.
    pub reread_part: Option<f64>,
}

/// A memory limit that was reached in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryLimit {
    pub bytes: u64,
    /// Path of the group with the limit, if that is an ancestor or descendant instead of the group
    /// itself.
    pub group: Option<String>,
    /// Whether threads wait at the limit, because the OOM killer is off.
    pub under_oom: bool,
}
