//! CPU quotas of groups, and how often they ran out.

use crate::CgroupId;

/// A group with a CPU quota (`cpu.max`, `cpu.cfs_quota_us`), and the kernel's statistics about the
/// quota.
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
    /// Periods in which the group ran since the quota was set (`nr_periods`). Never decreases.
    pub periods: u64,
    /// Periods in which the quota ran out (`nr_throttled`). Never decreases.
    pub throttled_periods: u64,
    /// Time throttled, summed over the CPUs, in nanoseconds. Never decreases.
    pub throttled_ns: u64,
    /// Whether the group and its descendants have no processes left.
    pub ended: bool,
}
