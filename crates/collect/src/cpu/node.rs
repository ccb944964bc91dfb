//! Adds up the time of the CPUs: elapsed and idle time, interrupts and steal.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::AddAssign;

use noctule_kernel::{CpuSlot, Scheduler, Snapshot, Topology, sample_flag};
use noctule_model::{Counter, Counters, CpuRow, Group, Node, PackageRow, PackageUse};

/// Adds up the time of CPUs while they are online. The slot of an offline CPU keeps its values.
/// Growth counts only between two snapshots that both include the CPU.
pub(super) struct NodeTime {
    last_ns: u64,
    /// Idle time of each CPU at the last snapshot; `None` before the first one.
    idle: Option<HashMap<u32, Idle>>,
    /// Accumulated time of the CPUs of each package.
    times: Vec<Time>,
    /// Time by CPU, including CPUs that are now offline.
    cpus: BTreeMap<u32, CpuTime>,
    idle_switches: u64,
    /// CPU time of all threads up to the last snapshot.
    used_ns: u64,
    scheduler: Scheduler,
    started_ns: u64,
}

/// Number of online CPUs of a package, and the elapsed and idle time of its CPUs.
#[derive(Clone, Copy, Default)]
struct Time {
    cpus: u32,
    elapsed_ns: u64,
    idle_ns: u64,
    /// Hardware counters of idle CPUs.
    on_idle: Counters,
}

#[derive(Clone, Copy, Default)]
struct CpuTime {
    elapsed_ns: u64,
    idle_ns: u64,
    interrupt_ns: u64,
    steal_ns: u64,
}

/// Total usage of all threads since the start, and the usage on each package.
pub(super) type Used = (Counters, Vec<PackageUse>);

/// The idle task of a CPU, and the time that interrupts and the host took.
#[derive(Clone, Copy, Default)]
struct Idle {
    ns: u64,
    switches: u64,
    stolen: u64,
    interrupts: u64,
    /// Whether the CPU has switched since the start, so that `stolen` and `interrupts` are set.
    known: bool,
}

impl Idle {
    /// Returns how the time of a CPU was spent since an earlier reading. `elapsed_ns` is the time
    /// between the two readings.
    fn since(&self, before: &Self, elapsed_ns: u64) -> CpuTime {
        let grown = |of: fn(&Self) -> u64| match before.known {
            true => of(self).saturating_sub(of(before)),
            false => 0,
        };
        let interrupt_ns = grown(|idle| idle.interrupts);
        CpuTime {
            elapsed_ns,
            idle_ns: self.ns.saturating_sub(before.ns),
            interrupt_ns,
            steal_ns: grown(|idle| idle.stolen).saturating_sub(interrupt_ns),
        }
    }
}

impl AddAssign<&Self> for CpuTime {
    fn add_assign(&mut self, grown: &Self) {
        self.elapsed_ns += grown.elapsed_ns;
        self.idle_ns += grown.idle_ns;
        self.interrupt_ns += grown.interrupt_ns;
        self.steal_ns += grown.steal_ns;
    }
}

impl NodeTime {
    pub(super) fn new(started_ns: u64, scheduler: Scheduler) -> Self {
        Self {
            last_ns: started_ns,
            idle: None,
            times: Vec::new(),
            cpus: BTreeMap::new(),
            idle_switches: 0,
            used_ns: 0,
            scheduler,
            started_ns,
        }
    }

    /// Returns the node and its packages. `used` is the total usage of all threads. `hidden_ns` is
    /// the CPU time of hidden processes since the last snapshot.
    ///
    /// Programs do not see switches to hidden processes, so a CPU that is idle before and after
    /// counts as idle throughout. If idle and used time exceed the elapsed time, the excess belongs
    /// to hidden processes.
    pub(super) fn finish(
        &mut self,
        snapshot: &Snapshot,
        (used, packages): Used,
        hidden_ns: u64,
        topology: &Topology,
        nominal_hertz: Option<u64>,
    ) -> (Node, Vec<PackageRow>) {
        let now = snapshot.taken_ns;
        let busy: HashSet<u32> = snapshot
            .tasks
            .iter()
            .filter(|task| task.is(sample_flag::RUNNING))
            .map(|task| task.cpu)
            .collect();
        let mut idle = HashMap::with_capacity(snapshot.cpus.len());
        let mut grown = vec![Time::default(); packages.len()];
        let last = packages.len().saturating_sub(1);
        for (cpu, slot) in &snapshot.cpus {
            let total = Idle {
                ns: self.idle_of(slot, now, busy.contains(cpu)),
                switches: slot.idle_switches,
                stolen: slot.stolen,
                interrupts: slot.interrupts,
                known: slot.since > 0,
            };
            idle.insert(*cpu, total);
            let time = &mut grown[topology.package_of(*cpu).min(last)];
            time.cpus += 1;
            time.on_idle += &slot.idle_values();
            let before = match &self.idle {
                // In the first snapshot, interrupt and steal time is 0, because both count from
                // boot.
                None => Some(Idle {
                    ns: 0,
                    switches: 0,
                    ..total
                }),
                Some(known) => known.get(cpu).copied(),
            };
            if let Some(before) = before {
                let grown = total.since(&before, now.saturating_sub(self.last_ns));
                time.elapsed_ns += grown.elapsed_ns;
                time.idle_ns += grown.idle_ns;
                self.idle_switches += total.switches.saturating_sub(before.switches);
                *self.cpus.entry(*cpu).or_default() += &grown;
            }
        }
        let used_ns = used[Counter::CpuTime].saturating_sub(self.used_ns);
        self.used_ns = used[Counter::CpuTime];
        self.last_ns = now;
        self.idle = Some(idle);
        not_idle(&mut grown, used_ns, hidden_ns);
        self.grow(&grown);
        let sum = |of: fn(&Time) -> u64| self.times.iter().map(of).sum();
        let taken = |of: fn(&CpuTime) -> u64| self.cpus.values().map(of).sum();
        let on_idle = self.times.iter();
        let on_idle = on_idle.fold(Counters::default(), |sum, time| sum + &time.on_idle);
        let node = Node {
            cpus: snapshot.cpus.len() as u32,
            elapsed_ns: sum(|time| time.elapsed_ns),
            idle_ns: sum(Time::idle),
            interrupt_ns: self
                .scheduler
                .interrupts
                .then(|| taken(|cpu| cpu.interrupt_ns)),
            steal_ns: self.scheduler.steal.then(|| taken(|cpu| cpu.steal_ns)),
            steal_included_ns: (self.scheduler.host && !self.scheduler.steal)
                .then(|| taken(|cpu| cpu.steal_ns)),
            idle_switches: self.idle_switches,
            total: used + &on_idle,
            nominal_hertz,
            ..Node::default()
        };
        (node, self.packages(&packages, topology))
    }

    fn grow(&mut self, grown: &[Time]) {
        self.times.resize(grown.len(), Time::default());
        for (time, grown) in self.times.iter_mut().zip(grown) {
            time.cpus = grown.cpus;
            time.on_idle = grown.on_idle;
            time.elapsed_ns += grown.elapsed_ns;
            time.idle_ns += grown.idle_ns;
        }
    }

    fn packages(&self, used: &[PackageUse], topology: &Topology) -> Vec<PackageRow> {
        let parts = topology.packages().iter().zip(&self.times).zip(used);
        let row = |((id, time), used): ((&i32, &Time), &PackageUse)| {
            let mut used = *used;
            used += &PackageUse::from(&time.on_idle);
            PackageRow {
                id: *id,
                cpus: time.cpus,
                elapsed_ns: time.elapsed_ns,
                idle_ns: time.idle(),
                used,
            }
        };
        parts.map(row).collect()
    }

    /// Returns the CPUs that were online in this snapshot, which must be the last one.
    pub(super) fn cpus(&self, snapshot: &mut Snapshot) -> Vec<CpuRow> {
        let mut holders: HashMap<u32, Vec<(Group, u64)>> = snapshot.holders.drain(..).collect();
        let online = snapshot.cpus.iter().map(|(cpu, _)| *cpu);
        let row = |cpu: u32| {
            let time = self.cpus.get(&cpu).copied().unwrap_or_default();
            let mut holders = holders.remove(&cpu).unwrap_or_default();
            holders.truncate(CpuRow::HOLDERS);
            CpuRow {
                cpu,
                elapsed_ns: time.elapsed_ns,
                idle_ns: time.idle_ns.min(time.elapsed_ns),
                interrupt_ns: self.scheduler.interrupts.then_some(time.interrupt_ns),
                steal_ns: self.scheduler.host.then_some(time.steal_ns),
                holders,
            }
        };
        online.map(row).collect()
    }

    /// Returns the idle time of a CPU up to `now`, including the current time slice. A CPU without
    /// a switch since the start is idle unless a thread was seen on the CPU. For a CPU that has
    /// switched since `now`, the slot holds the value before that switch.
    fn idle_of(&self, slot: &CpuSlot, now: u64, busy: bool) -> u64 {
        let (since, idle) = match slot.since {
            0 => (self.started_ns, !busy),
            // The program missed the switch to the idle task.
            since if slot.pid != 0 && slot.idle_began > since => (slot.idle_began, true),
            since => (since, slot.pid == 0),
        };
        if slot.sampled_at == now {
            return slot.idle_then;
        }
        slot.idle_ns + if idle { now.saturating_sub(since) } else { 0 }
    }
}

impl Time {
    fn idle(&self) -> u64 {
        self.idle_ns.min(self.elapsed_ns)
    }
}

/// Subtracts the CPU time of hidden processes from idle time, but at most the excess of idle and
/// used time over the elapsed time.
fn not_idle(grown: &mut [Time], used_ns: u64, hidden_ns: u64) {
    let elapsed_ns: u64 = grown.iter().map(|time| time.elapsed_ns).sum();
    let idle_ns: u64 = grown.iter().map(|time| time.idle_ns).sum();
    let mut over = (idle_ns + used_ns)
        .saturating_sub(elapsed_ns)
        .min(hidden_ns);
    for time in grown {
        let taken = over.min(time.idle_ns);
        time.idle_ns -= taken;
        over -= taken;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use noctule_kernel::Snapshot;

    use super::*;

    /// Returns a snapshot of CPUs: number, end of the last slice, idle time until then, running
    /// thread.
    fn at(taken_ns: u64, cpus: &[(u32, u64, u64, u32)]) -> Snapshot {
        let slot = |&(cpu, since, idle_ns, pid): &(u32, u64, u64, u32)| {
            (
                cpu,
                CpuSlot {
                    since,
                    idle_ns,
                    pid,
                    ..CpuSlot::default()
                },
            )
        };
        Snapshot {
            taken_ns,
            cpus: cpus.iter().map(slot).collect(),
            ..Snapshot::default()
        }
    }

    /// Returns the node of a machine with one package.
    fn finish(node: &mut NodeTime, snapshot: &Snapshot, used: Counters, hidden_ns: u64) -> Node {
        let used = (used, vec![PackageUse::from(&used)]);
        let (node, packages) = node.finish(snapshot, used, hidden_ns, &one_package(), None);
        assert_eq!(packages.len(), 1);
        assert_eq!(packages[0].idle_ns, node.idle_ns);
        assert_eq!(packages[0].elapsed_ns, node.elapsed_ns);
        node
    }

    fn one_package() -> Topology {
        Topology::probe(Path::new("/nowhere"), &[0, 1])
    }

    fn times(node: &mut NodeTime, snapshot: &Snapshot) -> (u32, u64, u64) {
        let node = finish(node, snapshot, Counters::default(), 0);
        (node.cpus, node.elapsed_ns, node.idle_ns)
    }

    #[test]
    fn unfinished_slice_counts_up_to_now() {
        let mut node = NodeTime::new(100, Scheduler::default());
        // CPU 0 has been idle since 150. CPU 1 was idle for 20, and has run thread 7 since 120.
        let snapshot = at(200, &[(0, 150, 30, 0), (1, 120, 20, 7)]);
        assert_eq!(times(&mut node, &snapshot), (2, 200, 80 + 20));
    }

    #[test]
    fn cpu_without_switches_is_idle_unless_a_thread_runs() {
        let mut node = NodeTime::new(100, Scheduler::default());
        let mut snapshot = at(200, &[(0, 0, 0, 0), (1, 0, 0, 0)]);
        let running = sample_flag::RUNNING;
        let task = noctule_kernel::TaskSample {
            cpu: 1,
            flags: running,
            ..Default::default()
        };
        snapshot.tasks.push(task);
        assert_eq!(times(&mut node, &snapshot), (2, 200, 100));
    }

    #[test]
    fn interrupt_time_and_steal_time_are_separate() {
        let known = Scheduler {
            interrupts: true,
            steal: true,
            ..Scheduler::default()
        };
        let taken = |node: &mut NodeTime, stolen, interrupts| {
            let slot = CpuSlot {
                stolen,
                interrupts,
                since: 1,
                ..CpuSlot::default()
            };
            let snapshot = Snapshot {
                cpus: vec![(0, slot)],
                ..Snapshot::default()
            };
            let node = finish(node, &snapshot, Counters::default(), 0);
            (node.interrupt_ns, node.steal_ns.or(node.steal_included_ns))
        };
        let mut node = NodeTime::new(0, known);
        // The first reading contains the time before the start.
        assert_eq!(taken(&mut node, 900, 600), (Some(0), Some(0)));
        assert_eq!(taken(&mut node, 1000, 630), (Some(30), Some(70)));
        let mut node = NodeTime::new(0, Scheduler::default());
        taken(&mut node, 900, 600);
        assert_eq!(taken(&mut node, 1000, 630), (None, None));
        // A kernel either includes steal time in used and idle time, or accounts for it separately;
        // it never does both.
        for steal in [false, true] {
            let host = true;
            let known = Scheduler {
                host,
                steal,
                ..known
            };
            let mut node = NodeTime::new(0, known);
            taken(&mut node, 900, 600);
            assert_eq!(taken(&mut node, 1000, 630), (Some(30), Some(70)));
            let slot = CpuSlot::default();
            let snapshot = Snapshot {
                cpus: vec![(0, slot)],
                ..Snapshot::default()
            };
            let node = finish(&mut node, &snapshot, Counters::default(), 0);
            assert_eq!(node.steal_ns.is_some(), steal);
            assert_eq!(node.steal_included_ns.is_some(), !steal);
        }
    }

    #[test]
    fn missed_switch_to_the_idle_task_is_recovered() {
        let mut node = NodeTime::new(0, Scheduler::default());
        // The task iterator found that thread 7 has ended.
        let mut gone = at(100, &[(0, 20, 0, 7)]);
        gone.cpus[0].1.idle_began = 30;
        assert_eq!(times(&mut node, &gone), (1, 100, 70));
        // A value read before the last switch is out of date.
        let mut runs = at(200, &[(0, 150, 120, 7)]);
        runs.cpus[0].1.idle_began = 30;
        assert_eq!(times(&mut node, &runs), (1, 200, 120));
    }

    #[test]
    fn cpu_time_of_hidden_processes_is_not_idle() {
        let used = |cpu| {
            let mut used = Counters::default();
            used[Counter::CpuTime] = cpu;
            used
        };
        let mut node = NodeTime::new(0, Scheduler::default());
        let idle = at(100, &[(0, 10, 10, 0)]);
        assert_eq!(finish(&mut node, &idle, used(30), 20).idle_ns, 80);
        // An excess above the CPU time of hidden processes remains.
        let idle = at(200, &[(0, 10, 10, 0)]);
        assert_eq!(finish(&mut node, &idle, used(60), 20).idle_ns, 160);
        let idle = at(300, &[(0, 10, 10, 0)]);
        assert_eq!(finish(&mut node, &idle, used(60), 0).idle_ns, 260);
    }

    #[test]
    fn a_cpu_counts_only_while_it_is_online() {
        let mut node = NodeTime::new(0, Scheduler::default());
        let both = at(100, &[(0, 50, 0, 7), (1, 50, 50, 0)]);
        assert_eq!(times(&mut node, &both), (2, 200, 100));
        // CPU 1 goes offline. The slot of an offline CPU is not read and still has the idle task.
        let one = at(200, &[(0, 50, 0, 7)]);
        assert_eq!(times(&mut node, &one), (1, 300, 100));
        // CPU 1 comes back online. The time while it was offline counts neither as elapsed nor as
        // idle.
        let back = at(300, &[(0, 50, 0, 7), (1, 290, 290, 0)]);
        assert_eq!(times(&mut node, &back), (2, 400, 100));
        let mut later = at(400, &[(0, 50, 0, 7), (1, 290, 290, 0)]);
        assert_eq!(times(&mut node, &later), (2, 600, 200));
        let cpus = node.cpus(&mut later);
        let time = |row: &CpuRow| (row.cpu, row.elapsed_ns, row.idle_ns);
        assert_eq!(
            cpus.iter().map(time).collect::<Vec<_>>(),
            [(0, 400, 0), (1, 200, 200)]
        );
        // An offline CPU is not listed.
        assert_eq!(node.cpus(&mut at(500, &[(0, 50, 0, 7)])).len(), 1);
    }

    #[test]
    fn each_cpu_lists_its_main_holders() {
        let mut node = NodeTime::new(0, Scheduler::default());
        let mut snapshot = at(100, &[(0, 0, 0, 7), (2, 0, 0, 8)]);
        let group = |id| Group::Cgroup(noctule_model::CgroupId(id));
        let many = (1..=6).map(|id| (group(id), 100 - id));
        snapshot.holders = vec![(0, Vec::new()), (2, many.collect())];
        finish(&mut node, &snapshot, Counters::default(), 0);
        let cpus = node.cpus(&mut snapshot);
        assert!(cpus[0].holders.is_empty());
        assert_eq!(cpus[1].cpu, 2);
        assert_eq!(cpus[1].holders.len(), CpuRow::HOLDERS);
        assert_eq!(cpus[1].holders[0], (group(1), 99));
    }
}
