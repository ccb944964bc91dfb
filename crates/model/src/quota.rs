//! CPU quotas of groups, and how often they ran out.

use crate::CgroupId;

/// A group with a CPU quota (`cpu.max`, `cpu.cfs_quota_us`), and the kernel's own account of it.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaRow {
    /// Which group.
    pub cgroup: CgroupId,
    /// Its path in the hierarchy.
    pub path: String,
    /// CPUs that the quota allows.
    pub cpus: f64,
    /// Length of a period, nanoseconds; 0 where a recording does not have it.
    pub period_ns: u64,
    /// Periods since the quota was set in which the group ran (`nr_periods`). Only goes up.
    pub periods: u64,
    /// Those of them in which the quota ran out (`nr_throttled`). Only goes up.
    pub throttled_periods: u64,
    /// For how long the group was throttled, summed over the CPUs, in nanoseconds. Only goes up.
    pub throttled_ns: u64,
    /// No process is left in the group or below it.
    pub ended: bool,
}
