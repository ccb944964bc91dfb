//! CPU quotas of cgroups.

use noctule_model::QuotaRow;

use super::kept::{RecordOf as _, record_of};
use super::{Keyed, Owners};
use crate::column::Count;

record_of! {
    /// A cgroup with a CPU quota, and the kernel's throttling counters.
    pub(crate) struct QuotaRecord of QuotaRow {
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
    /// Returns the quotas of a batch, in the order of a live batch. Skips values that the kernel
    /// would not accept as a quota.
    pub(crate) fn rows<'a>(
        records: impl Iterator<Item = &'a Self>,
        owners: &Owners,
    ) -> Vec<QuotaRow> {
        let is_quota = |it: &&Self| it.cpus.is_finite() && it.cpus > 0.0;
        let rows = records.filter(is_quota).map(|it| it.row(owners));
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|a, b| a.path.cmp(&b.path));
        rows
    }
}
