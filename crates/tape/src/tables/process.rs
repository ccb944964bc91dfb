//! Running and exited processes.

use noctule_model::{
    BlockClass, Blocked, ByPackage, Counter, PackageUse, ProcessId, ProcessRow, Waiting, ZoneKind,
};

use super::kept::{Flat, Keeps, RecordOf as _, Writing, record_of};
use super::{Keyed, OwnerNumber, Owners};
use crate::column::{Counted, List, Words, record};

pub(super) type Figures = Counted<Counter, { Counter::COUNT }>;
pub(super) type Energies = Counted<ZoneKind, { ZoneKind::ALL.len() }>;

record_of! {
    /// Usage on one package of a machine that has several.
    pub(crate) struct UseRecord of PackageUse {
        cpu_ns: u64,
        sibling_busy_ns: u64,
        cycles: u64,
        reference_cycles: u64,
        cache_misses: u64,
    }
}

impl Keeps<PackageUse> for List<UseRecord> {
    fn keep(used: &PackageUse, to: &mut Writing<'_>) -> Self {
        Self(vec![UseRecord::new(used, to)])
    }

    fn value(&self, owners: &Owners) -> PackageUse {
        let first = self.0.first().map(|it| it.row(owners));
        first.unwrap_or_default()
    }
}

impl Keeps<ByPackage> for List<UseRecord> {
    fn keep(packages: &ByPackage, to: &mut Writing<'_>) -> Self {
        let parts = packages.parts().iter();
        Self(parts.map(|it| UseRecord::new(it, to)).collect())
    }

    fn value(&self, owners: &Owners) -> ByPackage {
        ByPackage::several(self.0.iter().map(|it| it.row(owners)))
    }
}

record! {
    /// The number of threads blocked for one reason.
    pub(crate) struct BlockRecord {
        class: String,
        threads: u32,
        /// Sum of the times at which the threads blocked, on the clock of `taken_ns`, modulo 2^64.
        since_ns: u64,
    }
}

impl Keeps<Blocked> for List<BlockRecord> {
    fn keep(blocked: &Blocked, _: &mut Writing<'_>) -> Self {
        let records = blocked
            .iter()
            .map(|(class, threads, since_ns)| BlockRecord {
                class: class.name().to_owned(),
                threads,
                since_ns,
            });
        Self(records.collect())
    }

    fn value(&self, _: &Owners) -> Blocked {
        let mut blocked = Blocked::default();
        for record in &self.0 {
            let class = BlockClass::named(&record.class).unwrap_or(BlockClass::Other);
            blocked.add(class, record.threads, record.since_ns);
        }
        blocked
    }
}

record_of! {
    /// Waits in progress.
    pub(crate) struct WaitingRecord of Waiting {
        threads as "waiting_threads": u64,
        longest_ns as "longest_waiting_ns": u64,
    }
}

record_of! {
    /// The identity of a process.
    pub(crate) struct ProcessIdRecord of ProcessId {
        pid: u32,
        /// Nanoseconds since boot.
        start_ns: u64,
    }
}

record_of! {
    pub(crate) struct ProcessRecord of ProcessRow {
        id: Flat<ProcessIdRecord>,
        parent_pid: u32,
        comm: Words,
        cgroup: u64,
        owner: OwnerNumber,
        kernel_thread: bool,
        followed: bool,
        exited: bool,
        gone: bool,
        counters: Figures,
        joules: Energies,
        waiting: Flat<WaitingRecord>,
        blocked: List<BlockRecord>,
        packages: List<UseRecord>,
    }
}

impl Keyed for ProcessRecord {
    type Key = (u32, u64);
    const COLUMNS: &[&str] = &["pid", "start_ns"];

    fn key(&self) -> Self::Key {
        let ProcessIdRecord { pid, start_ns } = self.id.0;
        (pid, start_ns)
    }
}
