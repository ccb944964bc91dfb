//! Memory limits of cgroups, and pages that were read again.

use noctule_model::MemoryRow;

use super::kept::{RecordOf as _, record_of};
use super::{Keyed, Owners};
use crate::column::Count;

record_of! {
    /// Memory figures of a cgroup.
    pub(crate) struct MemoryRecord of MemoryRow {
        cgroup: u64,
        path: String,
        taken_ns: u64,
        limit_bytes: Option<u64>,
        hits: Option<Count>,
        reread_bytes: Count,
        read_bytes: Option<Count>,
        under_oom: bool,
    }
}

impl Keyed for MemoryRecord {
    type Key = u64;
    const COLUMNS: &[&str] = &["cgroup"];

    fn key(&self) -> u64 {
        self.cgroup
    }
}

impl MemoryRecord {
    /// Returns the rows of a batch, in the order of a live batch.
    pub(crate) fn rows<'a>(
        records: impl Iterator<Item = &'a Self>,
        owners: &Owners,
    ) -> Vec<MemoryRow> {
        let mut rows: Vec<_> = records.map(|it| it.row(owners)).collect();
        rows.sort_by(|a, b| (&a.path, a.cgroup).cmp(&(&b.path, b.cgroup)));
        rows
    }
}
