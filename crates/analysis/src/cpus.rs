//! How the time of each CPU was spent in a window, and which parties used the CPU.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use noctule_model::{Batch, CgroupId, CpuRow, Group, IdMap, Level, Owner};

use crate::Party;
use crate::report::{Key, owner_of};

/// Collects the time of each CPU and the parties that held it. The collector must observe every
/// batch, in order, because a batch only reports the holders since the previous batch.
#[derive(Clone, Debug, Default)]
pub struct CpuWindow {
    cpus: BTreeMap<u32, Ends>,
    holders: HashMap<(u32, Group), u64>,
    /// Owners of the cgroups in `holders`.
    owners: IdMap<CgroupId, Arc<Owner>>,
}

/// The first and last rows of a CPU.
#[derive(Clone, Debug)]
struct Ends {
    first: CpuRow,
    last: CpuRow,
}

/// Usage of one CPU in a window. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuUse {
    pub cpu: u32,
    /// Time for which the CPU was online.
    pub elapsed_ns: u64,
    /// Idle time within `elapsed_ns`.
    pub idle_ns: u64,
    /// Time that interrupts took, if known.
    pub interrupt_ns: Option<u64>,
    /// Time that the host took (steal time), if known.
    pub steal_ns: Option<u64>,
    /// Parties that had the CPU, in descending order of time. The rest of the time went to parties
    /// that the batches did not name.
    pub holders: Vec<(Party, u64)>,
}

impl CpuUse {
    /// Returns the fraction of time in which the CPU was not idle, from 0 to 1.
    pub fn busy(&self) -> f64 {
        self.part(self.elapsed_ns.saturating_sub(self.idle_ns))
    }

    /// Returns a time as a fraction of the CPU's elapsed time.
    pub fn part(&self, ns: u64) -> f64 {
        ns as f64 / self.elapsed_ns.max(1) as f64
    }

    /// Returns the sum of interrupt time and steal time, using only the known ones; `None` if
    /// neither is known.
    pub fn taken_ns(&self) -> Option<u64> {
        let (interrupt, steal) = (self.interrupt_ns, self.steal_ns);
        let known = interrupt.is_some() || steal.is_some();
        known.then(|| interrupt.unwrap_or(0) + steal.unwrap_or(0))
    }
}

impl CpuWindow {
    /// Adds the next batch. The window begins with the first batch.
    pub fn observe(&mut self, batch: &Batch) {
        for row in &batch.cpus {
            let is_new = !self.cpus.contains_key(&row.cpu);
            let known = self.cpus.entry(row.cpu).or_insert_with(|| Ends {
                first: row.clone(),
                last: row.clone(),
            });
            known.last = row.clone();
            // The first row of a CPU is the base of its counters. The holders in that row ran
            // before the window.
            for &(group, ns) in row.holders.iter().filter(|_| !is_new) {
                *self.holders.entry((row.cpu, group)).or_default() += ns;
                if let Group::Cgroup(id) = group {
                    self.owners.entry(id).or_insert_with(|| owner_of(None, id));
                }
            }
        }
        // An owner's name may arrive late, and disappears with its cgroup.
        for row in batch.cgroups.iter().filter(|row| row.owner.is_some()) {
            if let Some(owner) = self.owners.get_mut(&row.id) {
                *owner = owner_of(row.owner.as_ref(), row.id);
            }
        }
    }

    /// Returns each CPU that was online, in ascending order. Holders with the same key at `level`
    /// are merged into one party.
    pub fn cpus(&self, level: Level) -> Vec<CpuUse> {
        let mut parties: BTreeMap<u32, HashMap<Key, (Party, u64)>> = BTreeMap::new();
        for (&(cpu, group), ns) in &self.holders {
            let party = Party::of(group, &self.owners);
            let of_cpu = parties.entry(cpu).or_default();
            of_cpu.entry(party.key(level)).or_insert((party, 0)).1 += ns;
        }
        let row = |(cpu, Ends { first, last }): (&u32, &Ends)| {
            let grown = |last: u64, first: u64| last.saturating_sub(first);
            let known = |last: Option<u64>, first: Option<u64>| Some(grown(last?, first?));
            let holders = parties.remove(cpu).unwrap_or_default();
            let mut holders: Vec<(Party, u64)> = holders.into_values().collect();
            holders.sort_by_key(|(party, ns)| (Reverse(*ns), party.key(level)));
            CpuUse {
                cpu: *cpu,
                elapsed_ns: grown(last.elapsed_ns, first.elapsed_ns),
                idle_ns: grown(last.idle_ns, first.idle_ns),
                interrupt_ns: known(last.interrupt_ns, first.interrupt_ns),
                steal_ns: known(last.steal_ns, first.steal_ns),
                holders,
            }
        };
        self.cpus.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use noctule_model::CgroupRow;

    use super::*;

    const A: Group = Group::Cgroup(CgroupId(7));
    const B: Group = Group::Cgroup(CgroupId(8));

    fn row(cpu: u32, elapsed_ns: u64, idle_ns: u64, holders: &[(Group, u64)]) -> CpuRow {
        CpuRow {
            cpu,
            elapsed_ns,
            idle_ns,
            steal_ns: Some(elapsed_ns / 10),
            holders: holders.to_vec(),
            ..CpuRow::default()
        }
    }

    fn batch(cpus: Vec<CpuRow>, names: &[(u64, &str)]) -> Batch {
        let cgroup = |(id, path): &(u64, &str)| {
            let id = CgroupId(*id);
            let mut owner = Owner::unknown(id);
            owner.path = (*path).into();
            CgroupRow {
                id,
                owner: Some(Arc::new(owner)),
                ..CgroupRow::default()
            }
        };
        Batch {
            cpus,
            cgroups: names.iter().map(cgroup).collect(),
            ..Batch::default()
        }
    }

    fn names(cpu: &CpuUse) -> Vec<(String, u64)> {
        let holders = cpu.holders.iter();
        holders
            .map(|(party, ns)| (party.name(Level::Cgroup), *ns))
            .collect()
    }

    #[test]
    fn holders_and_times_cover_only_the_window() {
        let mut window = CpuWindow::default();
        let busy = |at, holders: &[(Group, u64)]| row(0, at, at / 2, holders);
        // This batch starts the window, so its rows do not count.
        window.observe(&batch(vec![busy(100, &[(A, 50)])], &[]));
        window.observe(&batch(
            vec![busy(200, &[(A, 30), (Group::Kernel, 20)])],
            &[],
        ));
        window.observe(&batch(
            vec![busy(300, &[(B, 40), (A, 5)])],
            &[(7, "/a"), (8, "/b")],
        ));
        let cpus = window.cpus(Level::Cgroup);
        assert_eq!(cpus.len(), 1);
        let cpu = &cpus[0];
        assert_eq!((cpu.elapsed_ns, cpu.idle_ns, cpu.busy()), (200, 100, 0.5));
        assert_eq!(
            (cpu.steal_ns, cpu.interrupt_ns, cpu.taken_ns()),
            (Some(20), None, Some(20))
        );
        let unmeasured = CpuUse {
            steal_ns: None,
            ..cpu.clone()
        };
        assert_eq!(unmeasured.taken_ns(), None);
        let expected = [("/b", 40), ("/a", 35), ("kernel threads", 20)];
        assert_eq!(names(cpu), expected.map(|(name, ns)| (name.to_owned(), ns)));
    }

    #[test]
    fn offline_cpu_keeps_its_holders() {
        let mut window = CpuWindow::default();
        window.observe(&batch(vec![row(0, 10, 0, &[]), row(1, 10, 0, &[])], &[]));
        window.observe(&batch(
            vec![row(0, 20, 0, &[]), row(1, 20, 0, &[(A, 9)])],
            &[],
        ));
        window.observe(&batch(vec![row(0, 30, 0, &[])], &[]));
        let cpus = window.cpus(Level::Cgroup);
        let times: Vec<_> = cpus.iter().map(|cpu| (cpu.cpu, cpu.elapsed_ns)).collect();
        assert_eq!(times, [(0, 20), (1, 10)]);
        assert_eq!(names(&cpus[1]).len(), 1);
    }

    #[test]
    fn holders_before_the_first_row_do_not_count() {
        let mut window = CpuWindow::default();
        window.observe(&batch(vec![row(0, 10, 0, &[])], &[]));
        // A second CPU comes online. The interval before its first row is not measured.
        let comes = vec![row(0, 20, 0, &[(B, 10)]), row(1, 3, 0, &[(A, 3)])];
        window.observe(&batch(comes, &[]));
        let cpus = window.cpus(Level::Cgroup);
        assert_eq!((cpus[1].elapsed_ns, names(&cpus[1]).len()), (0, 0));
        assert_eq!(names(&cpus[0]), [("#8".to_owned(), 10)]);
        let stays = vec![row(0, 30, 0, &[]), row(1, 13, 0, &[(A, 5)])];
        window.observe(&batch(stays, &[]));
        let cpus = window.cpus(Level::Cgroup);
        let part = cpus[1].part(cpus[1].holders[0].1);
        assert_eq!((cpus[1].elapsed_ns, part), (10, 0.5));
    }
}
