//! Keeps waits after the kernel side has removed their rows together with the groups.

use std::collections::HashMap;
use std::time::Duration;

use noctule_kernel::{Snapshot, WaitCounts};
use noctule_model::{Blame, BlameRow, CgroupId, Group, Histogram, Idle, WaitRow};

use crate::ledger::{Ledger, Released, Row};

/// The wait histograms and the blame matrix.
pub(super) struct Waits {
    groups: Ledger<Group, Histogram>,
    /// Cells by victim and culprit.
    cells: Ledger<(Group, Group), Blame>,
    released: Released<Group>,
    /// Waits of groups that are no longer listed.
    retired: Histogram,
    /// Capacity of the kernel side, in cells.
    room: usize,
    /// Tracks cells that may lose their rows.
    idle: Idle<(Group, Group), Blame>,
}

/// Rows of the kernel side that may be deleted.
#[derive(Default)]
pub(super) struct Settled {
    pub(super) groups: Vec<Group>,
    /// Victim, culprit, and the value that was settled.
    pub(super) cells: Vec<(Group, Group, Blame)>,
    /// Idle cells, which are not settled; see [`Waits::forget`].
    pub(super) idle: Vec<(Group, Group)>,
}

impl Waits {
    /// `room` is the capacity of the kernel side, in cells.
    pub(super) fn new(grace: Duration, room: usize) -> Self {
        Self {
            groups: Ledger::new(),
            cells: Ledger::new(),
            released: Released::new(grace),
            retired: Histogram::default(),
            room,
            idle: Idle::default(),
        }
    }

    /// Adds a snapshot. No thread can wait in a `released` cgroup. The values of its rows are
    /// settled, and the rows may be deleted.
    pub(super) fn update(&mut self, snapshot: &Snapshot, released: &[CgroupId]) -> Settled {
        for id in released {
            self.released.note(Group::Cgroup(*id), snapshot.taken_ns);
        }
        let mut settled = Settled::default();
        for counts in &snapshot.waits {
            self.take_counts(counts, &mut settled);
        }
        for &(victim, culprit, blame) in &snapshot.blames {
            self.take_cell(victim, culprit, blame, &mut settled);
        }
        self.retire(snapshot.taken_ns);
        settled.idle = self.idle(snapshot, settled.cells.len());
        settled
    }

    fn take_counts(&mut self, counts: &WaitCounts, settled: &mut Settled) {
        let is_released = self.released.contains(&counts.group);
        let group = self.groups.row(counts.group);
        group.row.follow(&counts.buckets());
        if is_released {
            group.settle();
            settled.groups.push(counts.group);
        }
        if counts.unnamed != Blame::default() || counts.group == Group::Unnamed {
            let cell = self.cells.row((counts.group, Group::Unnamed));
            cell.row = counts.unnamed;
            if is_released {
                cell.settle();
            }
        }
    }

    fn take_cell(&mut self, victim: Group, culprit: Group, blame: Blame, settled: &mut Settled) {
        let cell = self.cells.row((victim, culprit));
        cell.row = blame;
        if self.released.contains(&victim) || self.released.contains(&culprit) {
            cell.settle();
            settled.cells.push((victim, culprit, blame));
        }
    }

    /// Adds what a cell counted between the snapshot and the removal of its row.
    pub(super) fn add(&mut self, victim: Group, culprit: Group, late: &Blame) {
        self.cells.row((victim, culprit)).settled += late;
    }

    /// Returns cells whose rows should be deleted because the table is nearly full and they did not
    /// grow for a while. Otherwise, new culprits would have no name once all rows are taken.
    /// `taken_out` is the number of rows already deleted because a group was released.
    fn idle(&mut self, snapshot: &Snapshot, taken_out: usize) -> Vec<(Group, Group)> {
        let released = &self.released;
        let cells = || {
            let cells = snapshot.blames.iter();
            let cells = cells.map(|&(victim, culprit, row)| ((victim, culprit), row));
            cells.filter(|((victim, culprit), _)| {
                !released.contains(victim) && !released.contains(culprit)
            })
        };
        let taken = snapshot.blames.len() - taken_out;
        self.idle.of(snapshot.taken_ns, taken, self.room, cells)
    }

    /// Handles the removal of a cell's row, whose final value was `last`. The wait stays with the
    /// victim, as a wait for an unnamed culprit.
    pub(super) fn forget(&mut self, victim: Group, culprit: Group, last: Blame) {
        self.cells.row((victim, culprit)).row = last;
        let total = self.cells.remove(&(victim, culprit));
        self.cells.row((victim, Group::Unnamed)).settled += &total;
    }

    /// Drops the groups whose grace period has ended. Waits that they caused become unnamed.
    fn retire(&mut self, now: u64) {
        if !self.released.any_over(now) {
            return;
        }
        let released = &self.released;
        let gone = |group: &Group| released.is_over(group, now);
        let retired = &mut self.retired;
        self.groups.retire(gone, |_, total| *retired += &total);
        let mut unnamed: HashMap<Group, Blame> = HashMap::new();
        let either = |(victim, culprit): &(Group, Group)| gone(victim) || gone(culprit);
        self.cells.retire(either, |(victim, _), total| {
            if !gone(victim) {
                *unnamed.entry(*victim).or_default() += &total;
            }
        });
        for (victim, blame) in unnamed {
            self.cells.row((victim, Group::Unnamed)).settled += &blame;
        }
        self.released.forget(now, 0);
    }

    pub(super) fn rows(&self) -> Vec<WaitRow> {
        let row = |(group, counts): (&Group, &Row<Histogram>)| WaitRow {
            group: *group,
            histogram: counts.total(),
        };
        self.groups.iter().map(row).collect()
    }

    /// Returns the sum of all groups, including those that are no longer listed.
    pub(super) fn all(&self) -> Histogram {
        let mut all = self.retired.clone();
        for (_, counts) in self.groups.iter() {
            all += &counts.settled;
            all += &counts.row;
        }
        all
    }

    pub(super) fn blames(&self) -> Vec<BlameRow> {
        let row = |(&(victim, culprit), cell): (&(Group, Group), &Row<Blame>)| BlameRow {
            victim,
            culprit,
            blame: cell.total(),
        };
        self.cells.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Group = Group::Cgroup(CgroupId(7));
    const B: Group = Group::Cgroup(CgroupId(8));

    fn snapshot(taken_ns: u64, waits: &[(Group, u32)], blames: &[(Group, Group, u64)]) -> Snapshot {
        let counts = |&(group, waits): &(Group, u32)| {
            let mut buckets = [0; Histogram::BUCKETS];
            buckets[5] = waits;
            WaitCounts::new(group, &buckets, Blame::default())
        };
        let blame = |&(victim, culprit, wait_ns): &(Group, Group, u64)| {
            let preemptions = 0;
            (
                victim,
                culprit,
                Blame {
                    wait_ns,
                    preemptions,
                },
            )
        };
        Snapshot {
            taken_ns,
            waits: waits.iter().map(counts).collect(),
            blames: blames.iter().map(blame).collect(),
            ..Snapshot::default()
        }
    }

    fn blamed(waits: &Waits) -> Vec<(Group, Group, u64)> {
        let cell = |row: BlameRow| (row.victim, row.culprit, row.blame.wait_ns);
        let mut cells: Vec<_> = waits.blames().into_iter().map(cell).collect();
        cells.sort();
        cells
    }

    #[test]
    fn released_group_keeps_figures_despite_late_ones() {
        let mut waits = Waits::new(Duration::from_nanos(100), 4);
        waits.update(&snapshot(1, &[(A, 3)], &[(A, B, 10)]), &[]);
        let settled = waits.update(&snapshot(2, &[(A, 4)], &[(A, B, 12)]), &[CgroupId(7)]);
        assert_eq!(settled.groups, [A]);
        let last = Blame {
            wait_ns: 12,
            preemptions: 0,
        };
        assert_eq!(settled.cells, [(A, B, last)]);
        // The row was deleted and then created again.
        waits.update(&snapshot(3, &[(A, 1)], &[(A, B, 5)]), &[]);
        assert_eq!(waits.all().count(), 5);
        assert_eq!(blamed(&waits), [(A, B, 17)]);
        waits.update(&snapshot(200, &[], &[]), &[]);
        assert!(waits.rows().is_empty() && blamed(&waits).is_empty());
        assert_eq!(waits.all().count(), 5);
    }

    #[test]
    fn forgotten_culprit_is_blamed_as_unnamed() {
        let mut waits = Waits::new(Duration::from_nanos(100), 4);
        waits.update(&snapshot(1, &[], &[(A, B, 10)]), &[CgroupId(8)]);
        assert_eq!(blamed(&waits), [(A, B, 10)]);
        waits.update(&snapshot(200, &[], &[]), &[]);
        assert_eq!(blamed(&waits), [(A, Group::Unnamed, 10)]);
    }

    #[test]
    fn idle_cells_make_room_and_victims_keep_their_waits() {
        const SECOND: u64 = 1_000_000_000;
        let mut waits = Waits::new(Duration::from_secs(60), 4);
        let culprits = [20, 21, 22, 23].map(|id| Group::Cgroup(CgroupId(id)));
        let mut at = |second: u64, grown: u64| {
            let waited = [10, 10 + grown, 12, 14];
            let cells = culprits.into_iter().zip(waited);
            let cells: Vec<_> = cells.map(|(by, ns)| (A, by, ns)).collect();
            let snapshot = snapshot(second * SECOND, &[], &cells);
            let idle = waits.update(&snapshot, &[]).idle;
            for &(victim, culprit) in &idle {
                // One of the cells grew after the snapshot.
                let wait_ns = if culprit == culprits[0] { 10 } else { 13 };
                let preemptions = 0;
                waits.forget(
                    victim,
                    culprit,
                    Blame {
                        wait_ns,
                        preemptions,
                    },
                );
            }
            (idle, blamed(&waits))
        };
        assert_eq!(at(1, 0).0, []);
        assert_eq!(at(10, 5).0, []);
        let (gone, cells) = at(11, 6);
        assert_eq!(gone, [(A, culprits[0]), (A, culprits[2])]);
        let stay = [(A, culprits[1], 16), (A, culprits[3], 14)];
        assert_eq!(cells, [stay[0], stay[1], (A, Group::Unnamed, 23)]);
    }
}
