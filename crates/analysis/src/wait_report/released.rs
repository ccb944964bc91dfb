//! Attributes the blocked time of a group to the parties that ended the blocks.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use noctule_model::{
    BlockClass, BlockEnd, Blocked, CgroupId, Comm, Group, IdMap, Level, Owner, ProcessId,
    ReleaseRow,
};

use super::{Growth, WaitReportRow};
use crate::ReportBuilder;
use crate::party::Party;
use crate::report::Key;

/// The blocked time of a row in one class, by the party that ended the blocks. `blocked_ns` is the
/// sum of the other times.
#[derive(Clone, Debug, PartialEq)]
pub struct Released {
    pub class: BlockClass,
    /// Total blocked time in the class, in nanoseconds.
    pub blocked_ns: u64,
    /// Parties that ended blocks, in descending order of blocked time.
    pub by: Vec<ReleasedBy>,
    /// Time of blocks that a timeout, a signal or another interrupt ended.
    pub nobody_ns: u64,
    /// Time of blocks that lasted beyond the end of the window, or whose thread left the group
    /// while blocked.
    pub open_ns: u64,
    /// Time of all other blocks: there is no evidence of the releaser, or the table was full.
    pub unknown_ns: u64,
}

/// A party that ended blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleasedBy {
    pub party: Party,
    /// Whether the party is the row itself.
    pub is_own: bool,
    /// Total length of the blocks, in nanoseconds.
    pub blocked_ns: u64,
    /// The process of the party that ended the most blocked time.
    pub process: ProcessId,
    /// The blocked time that this process ended, in nanoseconds.
    pub process_ns: u64,
    /// The command name of `process`; `None` if no batch listed that process.
    pub comm: Option<String>,
}

impl Released {
    /// Returns the total time of the blocks that parties ended.
    pub fn released_ns(&self) -> u64 {
        self.by
            .iter()
            .fold(0, |sum, by| sum.saturating_add(by.blocked_ns))
    }
}

impl WaitReportRow {
    /// Returns the other groups that ended the row's waits for locks, each with the length of these
    /// waits, in descending order; `None` if releasers are not measured. Leaves out the row itself,
    /// which may only wake a pool of its own threads.
    pub(crate) fn lock_holders(&self) -> Option<Vec<(&Party, u64)>> {
        let mut classes = self.released.as_ref()?.iter();
        let lock = classes.find(|it| it.class == BlockClass::Lock);
        let by = lock.map_or(&[][..], |it| &it.by).iter();
        let others = by.filter(|it| !it.is_own && matches!(it.party, Party::Group(_)));
        Some(others.map(|it| (&it.party, it.blocked_ns)).collect())
    }
}

/// Sums for one class.
#[derive(Default)]
struct Parts {
    by: HashMap<Key, (Party, IdMap<ProcessId, u64>)>,
    nobody_ns: u64,
    open_ns: u64,
}

/// The releases of a window, by victim and class.
pub(super) struct Releases {
    parts: HashMap<(Key, BlockClass), Parts>,
    names: IdMap<ProcessId, Comm>,
    level: Level,
}

impl Growth<'_> {
    /// Returns the growth of the releases, or `None` if they are not measured.
    fn releases(&self) -> Option<Vec<ReleaseRow>> {
        type Cell = (Group, BlockClass, BlockEnd);
        let cell = |row: &ReleaseRow| -> Cell { (row.victim, row.class, row.end) };
        let last = self.last.releases.as_ref()?;
        let before = self.first.releases.iter().flatten();
        let before: HashMap<Cell, u64> = before.map(|row| (cell(row), row.blocked_ns)).collect();
        let grown = last.iter().map(|row| {
            let earlier = before.get(&cell(row)).copied().unwrap_or(0);
            ReleaseRow {
                blocked_ns: row.blocked_ns.saturating_sub(earlier),
                ..*row
            }
        });
        Some(grown.filter(|row| row.blocked_ns > 0).collect())
    }
}

impl Releases {
    /// Adds up the window; `None` if releases are not measured.
    pub(super) fn of(builder: &ReportBuilder, growth: &Growth<'_>, level: Level) -> Option<Self> {
        let rows = growth.releases()?;
        let owners = growth.owners();
        let processes = builder.processes(growth.last, false).into_iter();
        let names = processes.filter_map(|row| row.process.map(|it| (it.id, it.comm)));
        let mut this = Self {
            parts: HashMap::new(),
            names: names.collect(),
            level,
        };
        for row in &rows {
            this.add(row, &owners);
        }
        for row in &growth.last.cgroups {
            this.add_open(Group::Cgroup(row.id), &row.blocked, growth, &owners);
        }
        for row in growth.last.processes.iter().filter(|row| row.followed) {
            this.add_open(Group::Followed, &row.blocked, growth, &owners);
        }
        Some(this)
    }

    fn parts(
        &mut self,
        victim: Group,
        class: BlockClass,
        owners: &IdMap<CgroupId, Arc<Owner>>,
    ) -> &mut Parts {
        let victim = Party::of(victim, owners).key(self.level);
        self.parts.entry((victim, class)).or_default()
    }

    fn add(&mut self, row: &ReleaseRow, owners: &IdMap<CgroupId, Arc<Owner>>) {
        let level = self.level;
        let parts = self.parts(row.victim, row.class, owners);
        let by = match row.end {
            BlockEnd::Released(by) => by,
            BlockEnd::Nobody => {
                parts.nobody_ns += row.blocked_ns;
                return;
            }
            BlockEnd::Left => {
                parts.open_ns += row.blocked_ns;
                return;
            }
        };
        let party = Party::of(by.group, owners);
        let known = parts.by.entry(party.key(level));
        let (_, processes) = known.or_insert_with(|| (party, IdMap::default()));
        *processes.entry(by.process).or_default() += row.blocked_ns;
    }

    fn add_open(
        &mut self,
        victim: Group,
        blocked: &Blocked,
        growth: &Growth<'_>,
        owners: &IdMap<CgroupId, Arc<Owner>>,
    ) {
        let now_ns = growth.last.taken_ns;
        let window_ns = now_ns.saturating_sub(growth.first.taken_ns);
        for (class, threads, since_ns) in blocked.iter().filter(|it| it.0.has_releaser()) {
            let ns = u64::from(threads)
                .wrapping_mul(now_ns)
                .wrapping_sub(since_ns);
            // The sum is negative if the threads blocked after the time of the batch.
            let ns = u64::try_from(ns.cast_signed()).unwrap_or(0);
            // A block that began before the window counts from the start of the window.
            let ns = ns.min(window_ns.saturating_mul(threads.into()));
            self.parts(victim, class, owners).open_ns += ns;
        }
    }

    /// Returns the classes in which the row was blocked, in descending order of time.
    pub(super) fn of_row(&self, row: &WaitReportRow) -> Vec<Released> {
        let key = row.party.key(self.level);
        let none = Parts::default();
        let classes = BlockClass::ALL.into_iter().filter(|it| it.has_releaser());
        let classes = classes.map(|class| (class, row.blocked_ns[class as usize]));
        let mut all: Vec<Released> = classes
            .filter(|(_, blocked_ns)| *blocked_ns > 0)
            .map(|(class, blocked_ns)| {
                let parts = self.parts.get(&(key.clone(), class)).unwrap_or(&none);
                self.close(&key, class, blocked_ns, parts)
            })
            .collect();
        all.sort_by_key(|it| Reverse(it.blocked_ns));
        all
    }

    /// Computes the times of a class, which add up to `blocked_ns`. The parts are read after
    /// `blocked_ns`, so their sum can slightly exceed it. If the sum exceeds it, each part is
    /// reduced in proportion.
    fn close(&self, own: &Key, class: BlockClass, blocked_ns: u64, parts: &Parts) -> Released {
        let ended = parts
            .by
            .values()
            .flat_map(|(_, processes)| processes.values());
        let ended_ns = ended.sum::<u64>().saturating_add(parts.nobody_ns);
        let within = |ns: u64| match ended_ns > blocked_ns {
            true => (u128::from(ns) * u128::from(blocked_ns) / u128::from(ended_ns)) as u64,
            false => ns,
        };
        let mut by: Vec<ReleasedBy> = parts
            .by
            .iter()
            .map(|(key, (party, processes))| {
                let most = processes
                    .iter()
                    .max_by_key(|(id, ns)| (**ns, Reverse(**id)));
                let (process, process_ns) =
                    most.map_or_else(Default::default, |(id, ns)| (*id, *ns));
                ReleasedBy {
                    party: party.clone(),
                    is_own: key == own,
                    blocked_ns: within(processes.values().sum()),
                    process,
                    process_ns: within(process_ns),
                    comm: self.names.get(&process).map(Comm::text),
                }
            })
            .collect();
        by.sort_by_key(|it| (Reverse(it.blocked_ns), it.process));
        let nobody_ns = within(parts.nobody_ns);
        let named_ns: u64 = by.iter().map(|it| it.blocked_ns).sum();
        let rest_ns = blocked_ns.saturating_sub(named_ns + nobody_ns);
        let open_ns = rest_ns.min(parts.open_ns);
        Released {
            class,
            blocked_ns,
            by,
            nobody_ns,
            open_ns,
            unknown_ns: rest_ns - open_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use noctule_model::{Batch, CgroupRow, Counter, ProcessRow, Releaser, VerdictKind};

    use super::*;
    use crate::{Detail, Thresholds};

    const VICTIM: CgroupId = CgroupId(7);
    const HOLDER: CgroupId = CgroupId(8);

    fn process(pid: u32) -> ProcessId {
        ProcessId { pid, start_ns: 5 }
    }

    fn row(end: BlockEnd, blocked_ns: u64) -> ReleaseRow {
        ReleaseRow {
            victim: Group::Cgroup(VICTIM),
            class: BlockClass::Lock,
            end,
            blocked_ns,
        }
    }

    fn by(group: CgroupId, pid: u32, blocked_ns: u64) -> ReleaseRow {
        let releaser = Releaser {
            group: Group::Cgroup(group),
            process: process(pid),
        };
        row(BlockEnd::Released(releaser), blocked_ns)
    }

    /// Returns the row of a victim that was blocked on locks for `lock_ns`. The last block is still
    /// in progress after 100 ns.
    fn victim(lock_ns: u64, rows: Vec<ReleaseRow>) -> WaitReportRow {
        let group = |id| CgroupRow {
            id,
            ..CgroupRow::default()
        };
        let mut victim = group(VICTIM);
        victim.counters[Counter::CpuTime] = 1;
        victim.counters[Counter::Blocked(BlockClass::Lock)] = lock_ns - 100;
        victim.blocked.add(BlockClass::Lock, 1, 900);
        let holder = ProcessRow {
            id: process(2),
            comm: Comm::new(b"holder"),
            cgroup: HOLDER,
            ..ProcessRow::default()
        };
        let mut builder = ReportBuilder::new(Batch::default()).with(Detail::Processes);
        builder.add(Batch {
            taken_ns: 1000,
            cgroups: vec![victim, group(HOLDER)],
            processes: vec![holder],
            releases: Some(rows),
            ..Batch::default()
        });
        let mut report = builder.waits(Level::Cgroup, false, &Thresholds::default());
        report.rows.swap_remove(0)
    }

    fn released(lock_ns: u64, rows: Vec<ReleaseRow>) -> Released {
        let mut released = victim(lock_ns, rows).released.expect("it is measured");
        assert_eq!(released.len(), 1);
        released.remove(0)
    }

    fn parts(it: &Released) -> (Vec<(u32, bool, u64)>, [u64; 3]) {
        let by = it.by.iter();
        let by = by.map(|by| (by.process.pid, by.is_own, by.blocked_ns));
        (by.collect(), [it.nobody_ns, it.open_ns, it.unknown_ns])
    }

    #[test]
    fn blocked_time_is_divided_by_its_releasers() {
        let rows = vec![
            by(VICTIM, 1, 50),
            by(HOLDER, 2, 400),
            by(HOLDER, 3, 200),
            row(BlockEnd::Nobody, 30),
            row(BlockEnd::Left, 20),
        ];
        let it = released(1000, rows);
        assert_eq!(
            parts(&it),
            (vec![(2, false, 600), (1, true, 50)], [30, 120, 200])
        );
        assert_eq!(
            (it.by[0].process_ns, it.by[0].comm.as_deref()),
            (400, Some("holder"))
        );
        assert_eq!(it.by[1].comm, None);
        assert_eq!(it.released_ns(), 650);
    }

    #[test]
    fn only_locks_held_by_other_groups_lead_to_a_verdict() {
        let held = victim(1000, vec![by(HOLDER, 2, 800)]);
        assert_eq!(held.verdict.kind, VerdictKind::HeldByLock);
        let culprit = held.verdict.culprit.expect("it is known");
        assert_eq!(
            culprit.key(Level::Cgroup),
            Party::of(Group::Cgroup(HOLDER), &IdMap::default()).key(Level::Cgroup)
        );
        let pool = victim(1000, vec![by(VICTIM, 1, 800)]);
        assert_eq!(pool.verdict.kind, VerdictKind::Quiet);
    }

    #[test]
    fn only_a_group_that_held_most_of_the_lock_is_its_culprit() {
        let held = |parts: &[u64]| {
            let ids = (8..).map(CgroupId).zip(parts);
            victim(1000, ids.map(|(id, ns)| by(id, 2, *ns)).collect())
        };
        let culprits = |row: &WaitReportRow| {
            let names = row.reason_culprits(Level::Cgroup).into_iter();
            (row.verdict.culprit.is_some(), names.count())
        };
        assert_eq!(culprits(&held(&[500, 200, 100])), (true, 1));
        assert_eq!(culprits(&held(&[300, 200, 5])), (true, 1));
        // No group ended half of the blocked time, and the last group ended less than 1%.
        assert_eq!(culprits(&held(&[300, 290, 90, 5])), (false, 3));
        assert_eq!(culprits(&held(&[200, 190, 180, 170])), (false, 3));
    }

    #[test]
    fn parts_that_exceed_the_whole_are_reduced() {
        let it = released(500, vec![by(HOLDER, 2, 900), row(BlockEnd::Nobody, 100)]);
        assert_eq!(parts(&it), (vec![(2, false, 450)], [50, 0, 0]));
    }

    #[test]
    fn blocks_with_unknown_end_are_counted_as_unknown() {
        let it = released(1000, vec![row(BlockEnd::Nobody, 30)]);
        assert_eq!(parts(&it), (vec![], [30, 100, 870]));
    }

    #[test]
    fn ongoing_block_has_no_releaser_yet() {
        let it = released(100, vec![]);
        assert_eq!(parts(&it), (vec![], [0, 100, 0]));
    }
}
