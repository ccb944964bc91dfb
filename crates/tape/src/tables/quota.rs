//! CPU quotas of cgroups.

use noctule_model::{CgroupId, QuotaRow};

use super::Keyed;
use crate::column::{Count, record};

record! {
    /// A cgroup with a CPU quota, and the kernel's throttling counters.
    pub(crate) struct QuotaRecord {
        cgroup: u64,
        path: String,
        cpus: f64,
        period_ns: u64,
        periods: Count,
        throttled_periods: Count,
        throttled_ns: Count,
        ended: bool,
    }
}

impl Keyed for QuotaRecord {
    type Key = u64;
    const COLUMNS: &[&str] = &["cgroup"];

    fn key(&self) -> u64 {
        self.cgroup
    }
}

impl QuotaRecord {
    pub(crate) fn new(row: &QuotaRow) -> Self {
        let QuotaRow {
            cgroup,
            path,
            cpus,
            period_ns,
            periods,
            throttled_periods,
            throttled_ns,
            ended,
        } = row;
        Self {
            cgroup: cgroup.0,
            path: path.clone(),
            cpus: *cpus,
            period_ns: *period_ns,
            periods: Count(*periods),
            throttled_periods: Count(*throttled_periods),
            throttled_ns: Count(*throttled_ns),
            ended: *ended,
        }
    }

    /// Returns the quotas of a batch, in the order of a live batch. Skips values that the kernel
    /// would not accept as a quota.
    pub(crate) fn quotas<'a>(records: impl Iterator<Item = &'a Self>) -> Vec<QuotaRow> {
        let is_quota = |it: &&Self| it.cpus.is_finite() && it.cpus > 0.0;
        let rows = records.filter(is_quota).map(|it| QuotaRow {
            cgroup: CgroupId(it.cgroup),
            path: it.path.clone(),
            cpus: it.cpus,
            period_ns: it.period_ns,
            periods: it.periods.0,
            throttled_periods: it.throttled_periods.0,
            throttled_ns: it.throttled_ns.0,
            ended: it.ended,
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|a, b| a.path.cmp(&b.path));
        rows
    }
}
