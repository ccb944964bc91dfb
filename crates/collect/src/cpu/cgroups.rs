//! Sums up threads by cgroup: the usage of live threads, and the usage that ended threads left in
//! their cgroup.

use std::time::Duration;

use noctule_kernel::Snapshot;
use noctule_model::{
    BlameRow, CgroupId, CgroupRow, Counters, Group as Blamed, IdMap, IdSet, PackageUse, Waiting,
};

use super::blocked::BlockedThreads;
use super::by_package::Parts;
use super::node::Used;

pub(super) struct Cgroups {
    /// Number of packages of the machine.
    packages: usize,
    grace_ns: u64,
    now_ns: u64,
    /// Boxed, because half of the slots of a table may be empty.
    groups: IdMap<CgroupId, Box<Group>>,
    /// Maximum number of groups. Above this limit, the groups without a row on the kernel side that
    /// were inactive longest are dropped.
    most: usize,
    /// Usage of groups that are no longer listed.
    retired: Parts<Counters>,
    /// Usage without a row on the kernel side, which belongs to no group.
    overflow: Counters,
}

#[derive(Default)]
struct Group {
    parts: Parts<Part>,
    waiting: Waiting,
    released_ns: Option<u64>,
    /// Whether the kernel side has a row for the group.
    has_row: bool,
    /// When one of the group's threads last used or waited for a CPU.
    active_ns: u64,
}

/// Usage of a group on one package.
#[derive(Default)]
struct Part {
    shown: Counters,
    sum: Counters,
    /// Usage of the group's threads while they were in the group, as far as it was read, plus
    /// removed rows of the kernel side.
    reported: Counters,
}

impl Cgroups {
    /// `rows` is the capacity of the kernel-side table of cgroups.
    pub(super) fn new(packages: usize, grace: Duration, rows: usize) -> Self {
        Self {
            packages,
            grace_ns: grace.as_nanos() as u64,
            now_ns: 0,
            groups: IdMap::default(),
            most: rows / 4 * 5,
            retired: Parts::default(),
            overflow: Counters::default(),
        }
    }

    pub(super) fn begin(&mut self, snapshot: &Snapshot) {
        self.now_ns = snapshot.taken_ns;
        self.overflow = snapshot.overflow;
        for group in self.groups.values_mut() {
            group.waiting = Waiting::default();
            group.has_row = false;
        }
        for part in self.parts_mut() {
            part.sum = part.reported;
        }
        for (id, package, counters) in &snapshot.settled {
            let group = self.groups.entry(CgroupId(*id)).or_default();
            group.has_row = true;
            group.parts.of(*package).sum += counters;
        }
    }

    fn parts_mut(&mut self) -> impl Iterator<Item = &mut Part> {
        let groups = self.groups.values_mut();
        groups.flat_map(|group| group.parts.iter_mut())
    }

    /// Adds what a thread has used on a package since the thread was last read. `running` is how
    /// much of its current time slice will be read later.
    pub(super) fn add(&mut self, id: CgroupId, package: u32, used: &Counters, running: &Counters) {
        let group = self.groups.entry(id).or_default();
        group.active_ns = self.now_ns;
        let part = group.parts.of(package);
        part.reported += used;
        part.sum += used;
        part.sum += running;
    }

    /// Adds a thread of the group that waits for a CPU.
    pub(super) fn wait(&mut self, id: CgroupId, waiting: &Waiting) {
        let group = self.groups.entry(id).or_default();
        group.active_ns = self.now_ns;
        group.waiting += waiting;
    }

    pub(super) fn settle(&mut self, blocked: &BlockedThreads) {
        for part in self.parts_mut() {
            part.shown = part.shown.max(&part.sum);
        }
        let (now, grace) = (self.now_ns, self.grace_ns);
        let over = |group: &Group| group.released_ns.is_some_and(|at| now - at > grace);
        let groups = self.groups.iter();
        let mut gone: Vec<CgroupId> = groups
            .filter(|(_, group)| over(group))
            .map(|(id, _)| *id)
            .collect();
        gone.extend(self.groups_to_drop(blocked));
        for group in gone.iter().filter_map(|id| self.groups.remove(id)) {
            for (package, part) in group.parts.iter().enumerate() {
                *self.retired.of(package as u32) += &part.shown;
            }
        }
        // Frees the slots of a burst of groups; each slot takes 1 KiB.
        self.groups.shrink_to(2 * self.groups.len());
    }

    /// Returns groups to drop for lack of room. A batch has already reported their usage. If they
    /// reappear, they count from 0. A group with blocked threads is kept, because the time since
    /// its threads blocked would be counted again.
    fn groups_to_drop(&self, blocked: &BlockedThreads) -> Vec<CgroupId> {
        let over = self.groups.len().saturating_sub(self.most);
        if over == 0 {
            return Vec::new();
        }
        let can_leave = |group: &Group| !group.has_row && group.active_ns < self.now_ns;
        let able = self.groups.iter().filter(|(_, group)| can_leave(group));
        let able = able.filter(|(id, _)| blocked.of_cgroup(**id).is_empty());
        let mut able: Vec<_> = able.map(|(id, group)| (group.active_ns, *id)).collect();
        able.sort_unstable();
        // Drops more groups than necessary, because searching for a single one is not worth it.
        able.truncate(over + self.most / 8);
        able.into_iter().map(|(_, id)| id).collect()
    }

    /// Records that these groups were removed. Returns the groups whose rows on the kernel side may
    /// be deleted because their values are settled here.
    pub(super) fn release(&mut self, released: &[CgroupId], snapshot: &Snapshot) -> Vec<CgroupId> {
        for id in released {
            if let Some(group) = self.groups.get_mut(id) {
                group.released_ns.get_or_insert(self.now_ns);
            }
        }
        let mut settled = Vec::new();
        for (id, package, counters) in &snapshot.settled {
            let id = CgroupId(*id);
            let group = self.groups.get_mut(&id).filter(|g| g.released_ns.is_some());
            if let Some(group) = group {
                group.parts.of(*package).reported += counters;
                settled.push(id);
            }
        }
        settled
    }

    /// Returns the usage of all groups, in total and by package. Overflow counts as used on the
    /// first package.
    pub(super) fn total(&self) -> Used {
        let mut sums = vec![Counters::default(); self.packages];
        let groups = self.groups.values();
        let shown = groups.flat_map(|group| group.parts.iter().map(|part| &part.shown).enumerate());
        for (package, part) in shown.chain(self.retired.iter().enumerate()) {
            sums[package] += part;
        }
        sums[0] += &self.overflow;
        let all = sums.iter().fold(Counters::default(), |all, sum| all + sum);
        (all, sums.iter().map(PackageUse::from).collect())
    }

    /// Returns all groups, including those that only occur as culprits. Pairs are read after
    /// threads, so a culprit that first ran between the two reads has no usage yet. Without a row
    /// the culprit would have no name.
    pub(super) fn rows(&self, blames: &[BlameRow], blocked: &BlockedThreads) -> Vec<CgroupRow> {
        let row = |id: &CgroupId, group: &Group| {
            let (counters, packages) = group.parts.shown(self.packages, |part| &part.shown);
            CgroupRow {
                id: *id,
                counters,
                packages,
                waiting: group.waiting,
                blocked: blocked.of_cgroup(*id),
                ..CgroupRow::default()
            }
        };
        let culprits: IdSet<CgroupId> = blames.iter().filter_map(culprit).collect();
        let only_blamed = culprits.iter().filter(|id| !self.groups.contains_key(id));
        let only_blamed = only_blamed.map(|id| CgroupRow {
            id: *id,
            ..CgroupRow::default()
        });
        let unplaced = (!self.overflow.is_zero()).then(|| CgroupRow {
            id: CgroupId::UNPLACED,
            counters: self.overflow,
            ..CgroupRow::default()
        });
        // Batches are kept for a while, so their capacity must not exceed their size.
        let mut rows = Vec::with_capacity(self.groups.len() + culprits.len() + 1);
        rows.extend(self.groups.iter().map(|(id, group)| row(id, group)));
        rows.extend(only_blamed);
        rows.extend(unplaced);
        rows
    }
}

fn culprit(row: &BlameRow) -> Option<CgroupId> {
    match row.culprit {
        Blamed::Cgroup(id) => Some(id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use noctule_kernel::TaskSample;
    use noctule_model::{Blame, Counter};

    use super::*;

    #[test]
    fn groups_without_a_kernel_row_share_one() {
        let mut cgroups = Cgroups::new(1, Duration::ZERO, 9);
        assert!(cgroups.rows(&[], &BlockedThreads::default()).is_empty());
        let mut snapshot = Snapshot::default();
        snapshot.overflow[Counter::CpuTime] = 5;
        cgroups.begin(&snapshot);
        cgroups.settle(&BlockedThreads::default());
        let rows = cgroups.rows(&[], &BlockedThreads::default());
        let rows = rows
            .iter()
            .map(|row| (row.id, row.counters[Counter::CpuTime]));
        assert_eq!(rows.collect::<Vec<_>>(), [(CgroupId::UNPLACED, 5)]);
    }

    #[test]
    fn idle_groups_are_dropped_when_there_are_too_many() {
        let mut cgroups = Cgroups::new(1, Duration::from_secs(300), 8);
        let mut used = Counters::default();
        used[Counter::CpuTime] = 5;
        let mut blocked = BlockedThreads::default();
        blocked.begin(&Snapshot {
            taken_ns: 9,
            ..Snapshot::default()
        });
        blocked.read(&TaskSample {
            cgroup: 102,
            block: 1 << 4 | 1,
            ..TaskSample::default()
        });
        for at in 1..=100 {
            let snapshot = Snapshot {
                taken_ns: at,
                settled: vec![(1000, 0, used)],
                ..Snapshot::default()
            };
            cgroups.begin(&snapshot);
            // One group exists in every batch, and each batch adds a new one. The last batch adds
            // 30.
            let new = if at < 100 {
                100 + at..101 + at
            } else {
                200..230
            };
            for id in new.chain([7]) {
                cgroups.add(CgroupId(id), 0, &used, &Counters::default());
            }
            cgroups.settle(&blocked);
            assert!(cgroups.groups.len() <= 11 || at == 100);
            let all = 5 + at * 10 + if at < 100 { 0 } else { 29 * 5 };
            assert_eq!(cgroups.total().0[Counter::CpuTime], all);
        }
        let rows = cgroups.rows(&[], &blocked);
        let cpu = |id| {
            let row = rows.iter().find(|row| row.id == CgroupId(id));
            row.map(|row| row.counters[Counter::CpuTime])
        };
        assert_eq!(
            [7, 200, 229, 1000, 101, 102].map(cpu),
            [Some(500), Some(5), Some(5), Some(5), None, Some(5)]
        );
    }

    #[test]
    fn late_culprit_has_a_row_without_use() {
        let mut cgroups = Cgroups::new(1, Duration::ZERO, 9);
        let mut used = Counters::default();
        used[Counter::CpuTime] = 5;
        cgroups.add(CgroupId(7), 0, &used, &Counters::default());
        cgroups.settle(&BlockedThreads::default());
        let blame = |culprit| BlameRow {
            victim: Blamed::Cgroup(CgroupId(7)),
            culprit,
            blame: Blame::default(),
        };
        let culprits = [7, 8, 8].map(|id| blame(Blamed::Cgroup(CgroupId(id))));
        let mut rows = cgroups.rows(
            &[&culprits[..], &[blame(Blamed::Kernel)]].concat(),
            &BlockedThreads::default(),
        );
        rows.sort_by_key(|row| row.id);
        let rows = rows
            .iter()
            .map(|row| (row.id.0, row.counters[Counter::CpuTime]));
        assert_eq!(rows.collect::<Vec<_>>(), [(7, 5), (8, 0)]);
    }
}
