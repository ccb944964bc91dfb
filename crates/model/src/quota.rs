//! CPU quotas of groups, and how often they ran out.

use crate::CgroupId;

/// A group with a CPU quota (`cpu.max`, `cpu.cfs_quota_us`), and the kernel's account of it.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaRow {
    /// The group.
    pub cgroup: CgroupId,
    /// Path in the hierarchy.
    pub path: String,
    /// CPUs that the quota allows.
    pub cpus: f64,
    /// Length of a period, in nanoseconds; 0 in recordings without it.
    pub period_ns: u64,
    /// Periods in which the group ran since the quota was set (`nr_periods`). Only goes up.
    pub periods: u64,
    /// Periods in which the quota ran out (`nr_throttled`). Only goes up.
    pub throttled_periods: u64,
    /// Time throttled, summed over the CPUs, in nanoseconds. Only goes up.
    pub throttled_ns: u64,
    /// Whether the group and its descendants have no processes left.
    pub ended: bool,
}
