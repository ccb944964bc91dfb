//! Keeps the figures of rows that disappear before the end of a window. A batch lists ended
//! processes and removed cgroups only for a while, and a window can be longer than that.

use std::borrow::Cow;
use std::hash::Hash;

use noctule_model::{
    Batch, Blame, BlameRow, Blocked, CgroupId, CgroupRow, Cumulative, DiskUse, DiskUser, Group,
    Histogram, IdMap, IdSet, MemoryRow, ProcessId, ProcessRow, QuotaRow,
};

/// The last figures of rows that disappeared. These figures are added to the figures of the last
/// batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gone {
    cgroups: IdMap<CgroupId, CgroupRow>,
    processes: IdMap<ProcessId, ProcessRow>,
    waits: IdMap<Group, Histogram>,
    blames: IdMap<(Group, Group), Blame>,
    /// How much of `blames` the source moved to the unnamed cell of a victim that still exists.
    unnamed: IdMap<Group, Blame>,
    quotas: IdMap<CgroupId, QuotaRow>,
    memory: IdMap<CgroupId, MemoryRow>,
    /// Use of disks, by the number of the device and its user.
    disks: IdMap<((u32, u32), DiskUser), DiskUse>,
}

impl Gone {
    /// Keeps the figures of rows that `before` lists and the next batch, `after`, does not.
    pub(crate) fn step(&mut self, before: &Batch, after: &Batch) {
        self.step_cgroups(before, after);
        self.step_processes(before, after);
        let stay: IdSet<Group> = after.waits.iter().map(|row| row.group).collect();
        for row in before.waits.iter().filter(|row| !stay.contains(&row.group)) {
            *self.waits.entry(row.group).or_default() += &row.histogram;
        }
        self.step_blames(before, after);
        let cgroup = |row: &QuotaRow| row.cgroup;
        keep(&mut self.quotas, &before.quotas, &after.quotas, cgroup);
        let cgroup = |row: &MemoryRow| row.cgroup;
        keep(&mut self.memory, &before.memory, &after.memory, cgroup);
        let now: IdMap<_, &DiskUse> = disk_uses(after).collect();
        for (key, used) in disk_uses(before) {
            if now.get(&key).is_none_or(|now| now.restarted_since(used)) {
                *self.disks.entry(key).or_default() += used;
            }
        }
    }

    /// The accounts of a cgroup and its events may disappear at different times.
    fn step_cgroups(&mut self, before: &Batch, after: &Batch) {
        let stay: IdMap<CgroupId, &CgroupRow> =
            after.cgroups.iter().map(|row| (row.id, row)).collect();
        for row in &before.cgroups {
            let now = stay.get(&row.id);
            let accounts = now.is_none_or(|now| now.counters.is_zero()) && !row.counters.is_zero();
            let events = now.is_none_or(|now| now.events.is_zero()) && !row.events.is_zero();
            if !accounts && !events {
                continue;
            }
            let gone = self.cgroups.entry(row.id).or_default();
            gone.id = row.id;
            gone.owner.clone_from(&row.owner);
            if accounts {
                gone.counters += &row.counters;
                gone.packages += &row.packages;
            }
            if now.is_none() {
                gone.joules += &row.joules;
            }
            if events {
                gone.events += &row.events;
            }
        }
    }

    fn step_processes(&mut self, before: &Batch, after: &Batch) {
        let rows = after.processes.iter().chain(&after.exited);
        let known: IdSet<ProcessId> = rows.map(|row| row.id).collect();
        for row in before.processes.iter().filter(|r| !known.contains(&r.id)) {
            let last = ProcessRow {
                counters: row.counters_at(before.taken_ns),
                blocked: Blocked::default(),
                ..row.clone()
            };
            self.processes.insert(row.id, last);
        }
    }

    fn step_blames(&mut self, before: &Batch, after: &Batch) {
        let cell = |row: &BlameRow| (row.victim, row.culprit);
        let continues = |before: &BlameRow, now: &Blame| !now.restarted_since(&before.blame);
        // Fast path: usually no cell disappears, is reset or changes its position.
        let mut same = before.blames.iter().zip(&after.blames);
        if before.blames.len() <= after.blames.len()
            && same.all(|(a, b)| cell(a) == cell(b) && continues(a, &b.blame))
        {
            return;
        }
        let now: IdMap<(Group, Group), &Blame> = after
            .blames
            .iter()
            .map(|row| (cell(row), &row.blame))
            .collect();
        let victims: IdSet<Group> = after.blames.iter().map(|row| row.victim).collect();
        let gone = |row: &&BlameRow| !now.get(&cell(row)).is_some_and(|now| continues(row, now));
        for row in before.blames.iter().filter(gone) {
            *self.blames.entry(cell(row)).or_default() += &row.blame;
            if victims.contains(&row.victim) {
                *self.unnamed.entry(row.victim).or_default() += &row.blame;
            }
        }
    }

    /// Yields the cgroups of the last batch and those that disappeared. A row takes 1 KiB, so it is
    /// copied only if some of its entries disappeared before.
    pub(crate) fn cgroups<'a>(
        &'a self,
        last: &'a Batch,
    ) -> impl Iterator<Item = Cow<'a, CgroupRow>> {
        let listed = last
            .cgroups
            .iter()
            .map(|row| match self.cgroups.get(&row.id) {
                None => Cow::Borrowed(row),
                Some(gone) => {
                    let mut row = row.clone();
                    row.counters += &gone.counters;
                    row.packages += &gone.packages;
                    row.joules += &gone.joules;
                    row.events += &gone.events;
                    Cow::Owned(row)
                }
            });
        let ids = last.cgroups.iter().map(|row| row.id);
        let gone = without(&self.cgroups, ids).map(|(_, row)| Cow::Borrowed(row));
        listed.chain(gone)
    }

    /// Yields the processes of the last batch and those that disappeared without a reported exit.
    pub(crate) fn processes<'a>(&'a self, last: &'a Batch) -> impl Iterator<Item = &'a ProcessRow> {
        let listed: IdSet<ProcessId> = last.processes.iter().map(|row| row.id).collect();
        let gone = self.processes.values();
        let gone = gone.filter(move |row| !listed.contains(&row.id));
        last.processes.iter().chain(gone)
    }

    /// Yields the quotas of the last batch and those that disappeared.
    pub(crate) fn quotas<'a>(&'a self, last: &'a Batch) -> impl Iterator<Item = &'a QuotaRow> {
        let ids = last.quotas.iter().map(|row| row.cgroup);
        let gone = without(&self.quotas, ids).map(|(_, row)| row);
        last.quotas.iter().chain(gone)
    }

    /// Yields the memory rows of the last batch, and of groups that disappeared before it.
    pub(crate) fn memory<'a>(&'a self, last: &'a Batch) -> impl Iterator<Item = &'a MemoryRow> {
        let ids = last.memory.iter().map(|row| row.cgroup);
        let gone = without(&self.memory, ids).map(|(_, row)| row);
        last.memory.iter().chain(gone)
    }

    /// Returns the use of disks by device and user, including users that disappeared.
    pub(crate) fn disks(&self, last: &Batch) -> IdMap<((u32, u32), DiskUser), DiskUse> {
        let mut uses = self.disks.clone();
        for (key, used) in disk_uses(last) {
            *uses.entry(key).or_default() += used;
        }
        uses
    }

    /// Yields the wait histograms of the last batch and those that disappeared.
    pub(crate) fn waits<'a>(
        &'a self,
        last: &'a Batch,
    ) -> impl Iterator<Item = (Group, Cow<'a, Histogram>)> {
        let listed = last
            .waits
            .iter()
            .map(|row| match self.waits.get(&row.group) {
                None => (row.group, Cow::Borrowed(&row.histogram)),
                Some(gone) => {
                    let mut sum = row.histogram.clone();
                    sum += gone;
                    (row.group, Cow::Owned(sum))
                }
            });
        let groups = last.waits.iter().map(|row| row.group);
        let gone = without(&self.waits, groups);
        listed.chain(gone.map(|(group, histogram)| (*group, Cow::Borrowed(histogram))))
    }

    /// Returns the waits by victim and culprit. Culprits that disappeared keep their name.
    pub(crate) fn blames(&self, last: &Batch) -> IdMap<(Group, Group), Blame> {
        let mut cells = self.blames.clone();
        for row in &last.blames {
            *cells.entry((row.victim, row.culprit)).or_default() += &row.blame;
        }
        for (victim, named) in &self.unnamed {
            if let Some(cell) = cells.get_mut(&(*victim, Group::Unnamed)) {
                *cell = cell.since(named);
            }
        }
        cells
    }
}

/// Adds the rows of `before` that are missing from `after` to `kept`.
fn keep<R: Clone>(
    kept: &mut IdMap<CgroupId, R>,
    before: &[R],
    after: &[R],
    cgroup: impl Fn(&R) -> CgroupId,
) {
    let stay: IdSet<CgroupId> = after.iter().map(&cgroup).collect();
    let gone = before.iter().filter(|row| !stay.contains(&cgroup(row)));
    kept.extend(gone.map(|row| (cgroup(row), row.clone())));
}

/// Yields the use of disks in a batch, by device and user.
pub(crate) fn disk_uses(batch: &Batch) -> impl Iterator<Item = (((u32, u32), DiskUser), &DiskUse)> {
    let disks = batch.disks.iter().flatten();
    disks.flat_map(|disk| {
        let users = disk.users.iter();
        users.map(|(user, used)| ((disk.number, *user), used))
    })
}

/// Yields the entries of `all` whose key is not listed. If `all` is empty, as it usually is,
/// nothing is collected.
fn without<K: Copy + Eq + Hash, V>(
    all: &IdMap<K, V>,
    listed: impl Iterator<Item = K>,
) -> impl Iterator<Item = (&K, &V)> {
    let listed: IdSet<K> = match all.is_empty() {
        true => IdSet::default(),
        false => listed.collect(),
    };
    all.iter().filter(move |(key, _)| !listed.contains(key))
}

#[cfg(test)]
mod tests {
    use noctule_model::{ByPackage, Counter, PackageUse};

    use super::*;

    /// Returns a cgroup with this usage on each of two packages.
    fn group(used: [u64; 2]) -> CgroupRow {
        let mut row = CgroupRow {
            id: CgroupId(7),
            ..CgroupRow::default()
        };
        row.counters[Counter::CpuTime] = used.iter().sum();
        let parts = used.map(|cpu_ns| PackageUse {
            cpu_ns,
            ..PackageUse::default()
        });
        row.packages = ByPackage::several(parts);
        row
    }

    fn batch(cgroups: Vec<CgroupRow>) -> Batch {
        Batch {
            cgroups,
            ..Batch::default()
        }
    }

    fn by_package(gone: &Gone, last: &Batch) -> Vec<u64> {
        let row = gone.cgroups(last).next().expect("a row");
        row.packages
            .parts()
            .iter()
            .map(|part| part.cpu_ns)
            .collect()
    }

    #[test]
    fn reappearing_cell_keeps_its_culprit() {
        let [victim, culprit] = [7, 8].map(|id| Group::Cgroup(CgroupId(id)));
        let batch = |named: u64, unnamed: u64| {
            let cell = |culprit, wait_ns| BlameRow {
                victim,
                culprit,
                blame: Blame {
                    wait_ns,
                    preemptions: 0,
                },
            };
            Batch {
                blames: vec![cell(culprit, named), cell(Group::Unnamed, unnamed)],
                ..Batch::default()
            }
        };
        let mut gone = Gone::default();
        gone.step(&batch(300, 5), &batch(4, 305));
        gone.step(&batch(4, 305), &batch(6, 306));
        let cells = gone.blames(&batch(6, 306));
        assert_eq!(cells[&(victim, culprit)].wait_ns, 306);
        assert_eq!(cells[&(victim, Group::Unnamed)].wait_ns, 6);
    }

    #[test]
    fn removed_group_keeps_its_use_of_each_package() {
        let mut gone = Gone::default();
        gone.step(&batch(vec![group([30, 4])]), &batch(vec![]));
        assert_eq!(by_package(&gone, &batch(vec![])), [30, 4]);
        // The cgroup reappears, with counters that restart from zero.
        let again = batch(vec![group([1, 2])]);
        assert_eq!(by_package(&gone, &again), [31, 6]);
    }
}
