//! Running and exited processes.

use noctule_model::{
    BlockClass, Blocked, ByPackage, CgroupId, Comm, Counter, Joules, Measured, PackageUse,
    ProcessId, ProcessRow, Waiting, ZoneKind,
};

use super::{Keyed, OwnerNumber, Owners};
use crate::column::{Counted, Keeps, List, Words, record};

pub(super) type Figures = Counted<Counter, { Counter::COUNT }>;
pub(super) type Energies = Counted<ZoneKind, { ZoneKind::ALL.len() }>;

/// Returns the energy counters, all of which are measured if there is a meter.
pub(super) fn energies(joules: Joules, metered: bool) -> Energies {
    let measured = match metered {
        true => Measured::NONE.with(Counter::CpuTime),
        false => Measured::NONE,
    };
    Counted::new(joules, measured)
}

record! {
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
    fn keep(used: &PackageUse) -> Self {
        Self(vec![UseRecord::new(used)])
    }

    fn value(&self) -> PackageUse {
        self.0.first().map(UseRecord::row).unwrap_or_default()
    }
}

impl Keeps<ByPackage> for List<UseRecord> {
    fn keep(packages: &ByPackage) -> Self {
        Self(packages.parts().iter().map(UseRecord::new).collect())
    }

    fn value(&self) -> ByPackage {
        ByPackage::several(self.0.iter().map(UseRecord::row))
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
    fn keep(blocked: &Blocked) -> Self {
        let records = blocked
            .iter()
            .map(|(class, threads, since_ns)| BlockRecord {
                class: class.name().to_owned(),
                threads,
                since_ns,
            });
        Self(records.collect())
    }

    fn value(&self) -> Blocked {
        let mut blocked = Blocked::default();
        for record in &self.0 {
            let class = BlockClass::named(&record.class).unwrap_or(BlockClass::Other);
            blocked.add(class, record.threads, record.since_ns);
        }
        blocked
    }
}

record! {
    /// A process.
    pub(crate) struct ProcessRecord {
        pid: u32,
        /// Nanoseconds since boot.
        start_ns: u64,
        parent_pid: u32,
        comm: Words,
        cgroup: u64,
        owner: OwnerNumber,
        kernel_thread: bool,
        followed: bool,
        exited: bool,
        gone: bool,
        counters: Figures,
        energy: Energies,
        waiting_threads: u64,
        longest_waiting_ns: u64,
        blocked: List<BlockRecord>,
        packages: List<UseRecord>,
    }
}

impl Keyed for ProcessRecord {
    type Key = (u32, u64);
    const COLUMNS: &[&str] = &["pid", "start_ns"];

    fn key(&self) -> Self::Key {
        (self.pid, self.start_ns)
    }
}

impl ProcessRecord {
    pub(crate) fn new(
        row: &ProcessRow,
        owners: &mut Owners,
        measured: Measured,
        metered: bool,
    ) -> Self {
        let ProcessRow {
            id,
            parent_pid,
            comm,
            cgroup,
            owner,
            kernel_thread,
            followed,
            exited,
            gone,
            counters,
            joules,
            packages,
            waiting,
            blocked,
        } = row;
        Self {
            pid: id.pid,
            start_ns: id.start_ns,
            parent_pid: *parent_pid,
            comm: Words::of(comm),
            cgroup: cgroup.0,
            owner: owners.number(owner.as_ref()),
            kernel_thread: *kernel_thread,
            followed: *followed,
            exited: *exited,
            gone: *gone,
            counters: Counted::new(*counters, measured),
            energy: energies(*joules, metered),
            waiting_threads: waiting.threads,
            longest_waiting_ns: waiting.longest_ns,
            blocked: Keeps::keep(blocked),
            packages: Keeps::keep(packages),
        }
    }

    pub(crate) fn row(&self, owners: &Owners) -> ProcessRow {
        ProcessRow {
            id: ProcessId {
                pid: self.pid,
                start_ns: self.start_ns,
            },
            parent_pid: self.parent_pid,
            comm: Comm::new(&self.comm.0),
            cgroup: CgroupId(self.cgroup),
            owner: owners.owner(self.owner),
            kernel_thread: self.kernel_thread,
            followed: self.followed,
            exited: self.exited,
            gone: self.gone,
            counters: self.counters.counts,
            joules: self.energy.counts,
            packages: self.packages.value(),
            waiting: Waiting {
                threads: self.waiting_threads,
                longest_ns: self.longest_waiting_ns,
            },
            blocked: self.blocked.value(),
        }
    }
}
