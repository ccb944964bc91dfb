//! Memory limits of cgroups, and pages that were read again.

use noctule_model::{CgroupId, MemoryRow};

use super::kept::Writing;
use super::{Keyed, Owners};
use crate::column::{Count, record};

record! {
    /// Memory figures of a cgroup.
    pub(crate) struct MemoryRecord {
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
    pub(crate) fn new(row: &MemoryRow, _: &mut Writing<'_>) -> Self {
        let MemoryRow {
            cgroup,
            path,
            taken_ns,
            limit_bytes,
            hits,
            reread_bytes,
            read_bytes,
            under_oom,
        } = row;
        Self {
            cgroup: cgroup.0,
            path: path.clone(),
            taken_ns: *taken_ns,
            limit_bytes: *limit_bytes,
            hits: hits.map(Count),
            reread_bytes: Count(*reread_bytes),
            read_bytes: read_bytes.map(Count),
            under_oom: *under_oom,
        }
    }

    /// Returns the rows of a batch, in the order of a live batch.
    pub(crate) fn rows<'a>(records: impl Iterator<Item = &'a Self>, _: &Owners) -> Vec<MemoryRow> {
        let rows = records.map(|it| MemoryRow {
            cgroup: CgroupId(it.cgroup),
            path: it.path.clone(),
            taken_ns: it.taken_ns,
            limit_bytes: it.limit_bytes,
            hits: it.hits.map(|hits| hits.0),
            reread_bytes: it.reread_bytes.0,
            read_bytes: it.read_bytes.map(|bytes| bytes.0),
            under_oom: it.under_oom,
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|a, b| (&a.path, a.cgroup).cmp(&(&b.path, b.cgroup)));
        rows
    }
}
