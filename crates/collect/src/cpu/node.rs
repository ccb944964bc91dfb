//! Time of the CPUs: elapsed, idle.

use std::collections::{HashMap, HashSet};

use noctule_kernel::{CpuSlot, Scheduler, Snapshot, sample_flag};
use noctule_model::{Counter, Counters, Node};

/// Adds up the time of CPUs while they are online. A CPU's slot goes on ageing while it is offline,
/// so only growth between two snapshots that both saw it counts.
pub(super) struct NodeTime {
    last_ns: u64,
    /// What each CPU had at the last snapshot; `None` before the first.
    idle: Option<HashMap<u32, Idle>>,
    elapsed_ns: u64,
    idle_ns: u64,
    idle_switches: u64,
    /// CPU time of all threads, up to the last snapshot.
    used_ns: u64,
    interrupt_ns: u64,
    steal_ns: u64,
    scheduler: Scheduler,
    started_ns: u64,
}

/// The idle task of one CPU, and what interrupts and the host took of the CPU.
#[derive(Clone, Copy, Default)]
struct Idle {
    ns: u64,
    switches: u64,
    stolen: u64,
    interrupts: u64,
    /// It has switched, and knows these.
    known: bool,
}

impl NodeTime {
    pub(super) fn new(started_ns: u64, scheduler: Scheduler) -> Self {
        Self {
            last_ns: started_ns,
            idle: None,
            elapsed_ns: 0,
            idle_ns: 0,
            idle_switches: 0,
            used_ns: 0,
            interrupt_ns: 0,
            steal_ns: 0,
            scheduler,
            started_ns,
        }
    }

    /// `used`: by all threads, ever; `hidden_ns`: of that, since the last snapshot, by processes of
    /// which programs see no switch. A CPU that is idle before and after such a process counts as idle
    /// throughout: what is more than all there is was theirs.
    pub(super) fn finish(
        &mut self,
        snapshot: &Snapshot,
        used: Counters,
        hidden_ns: u64,
        nominal_hertz: Option<u64>,
    ) -> Node {
        let now = snapshot.taken_ns;
        let busy: HashSet<u32> = snapshot
            .tasks
            .iter()
            .filter(|task| task.is(sample_flag::RUNNING))
            .map(|task| task.cpu)
            .collect();
        let mut idle = HashMap::with_capacity(snapshot.cpus.len());
        let (mut elapsed_ns, mut idle_ns) = (0, 0);
        let mut on_idle = Counters::default();
        for (cpu, slot) in &snapshot.cpus {
            let total = Idle {
                ns: self.idle_of(slot, now, busy.contains(cpu)),
                switches: slot.idle_switches,
                stolen: slot.stolen,
                interrupts: slot.interrupts,
                known: slot.since > 0,
            };
            idle.insert(*cpu, total);
            on_idle += &slot.idle_values();
            let before = match &self.idle {
                // What was taken before the start does not count.
                None => Some(Idle {
                    ns: 0,
                    switches: 0,
                    ..total
                }),
                Some(known) => known.get(cpu).copied(),
            };
            if let Some(before) = before {
                elapsed_ns += now.saturating_sub(self.last_ns);
                idle_ns += total.ns.saturating_sub(before.ns);
                self.idle_switches += total.switches.saturating_sub(before.switches);
                if before.known {
                    let interrupts = total.interrupts.saturating_sub(before.interrupts);
                    let stolen = total.stolen.saturating_sub(before.stolen);
                    self.interrupt_ns += interrupts;
                    self.steal_ns += stolen.saturating_sub(interrupts);
                }
            }
        }
        let used_ns = used[Counter::CpuTime].saturating_sub(self.used_ns);
        let over = (idle_ns + used_ns).saturating_sub(elapsed_ns);
        self.elapsed_ns += elapsed_ns;
        self.idle_ns += idle_ns.saturating_sub(over.min(hidden_ns));
        self.used_ns = used[Counter::CpuTime];
        self.last_ns = now;
        self.idle = Some(idle);
        Node {
            cpus: snapshot.cpus.len() as u32,
            elapsed_ns: self.elapsed_ns,
            idle_ns: self.idle_ns.min(self.elapsed_ns),
            interrupt_ns: self.scheduler.interrupts.then_some(self.interrupt_ns),
            steal_ns: self.scheduler.steal.then_some(self.steal_ns),
            idle_switches: self.idle_switches,
            total: used + &on_idle,
            nominal_hertz,
            ..Node::default()
        }
    }

    /// Idle time of a CPU up to `now`, the slice that has not ended included. A CPU that has not
    /// switched since the start is idle unless a thread was seen on it, and one that has switched
    /// since `now` has kept what it was.
    fn idle_of(&self, slot: &CpuSlot, now: u64, busy: bool) -> u64 {
        let (since, idle) = match slot.since {
            0 => (self.started_ns, !busy),
            // The switch to the idle task was not seen.
            since if slot.pid != 0 && slot.idle_began > since => (slot.idle_began, true),
            since => (since, slot.pid == 0),
        };
        if slot.sampled_at == now {
            return slot.idle_then;
        }
        slot.idle_ns + if idle { now.saturating_sub(since) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use noctule_kernel::Snapshot;

    use super::*;

    /// A snapshot of CPUs: number, end of the last slice, idle time until then, running thread.
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

    fn times(node: &mut NodeTime, snapshot: &Snapshot) -> (u32, u64, u64) {
        let node = node.finish(snapshot, Counters::default(), 0, None);
        (node.cpus, node.elapsed_ns, node.idle_ns)
    }

    #[test]
    fn a_slice_that_has_not_ended_counts_up_to_now() {
        let mut node = NodeTime::new(100, Scheduler::default());
        // CPU 0 is idle since 150, CPU 1 runs thread 7 since 120 after 20 of idling.
        let snapshot = at(200, &[(0, 150, 30, 0), (1, 120, 20, 7)]);
        assert_eq!(times(&mut node, &snapshot), (2, 200, 80 + 20));
    }

    #[test]
    fn a_cpu_that_has_not_switched_yet_is_idle_unless_a_thread_was_seen_on_it() {
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
    fn what_interrupts_and_the_host_take_is_told_apart() {
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
            let node = node.finish(&snapshot, Counters::default(), 0, None);
            (node.interrupt_ns, node.steal_ns)
        };
        let mut node = NodeTime::new(0, known);
        // Of the time before the start.
        assert_eq!(taken(&mut node, 900, 600), (Some(0), Some(0)));
        assert_eq!(taken(&mut node, 1000, 630), (Some(30), Some(70)));
        let mut node = NodeTime::new(0, Scheduler::default());
        taken(&mut node, 900, 600);
        assert_eq!(taken(&mut node, 1000, 630), (None, None));
    }

    #[test]
    fn a_switch_to_the_idle_task_that_was_not_seen() {
        let mut node = NodeTime::new(0, Scheduler::default());
        // The walk saw that thread 7 has gone.
        let mut gone = at(100, &[(0, 20, 0, 7)]);
        gone.cpus[0].1.idle_began = 30;
        assert_eq!(times(&mut node, &gone), (1, 100, 70));
        // What was noted before the last switch says nothing.
        let mut runs = at(200, &[(0, 150, 120, 7)]);
        runs.cpus[0].1.idle_began = 30;
        assert_eq!(times(&mut node, &runs), (1, 200, 120));
    }

    #[test]
    fn what_hidden_processes_used_is_not_idle_as_well() {
        let used = |cpu| {
            let mut used = Counters::default();
            used[Counter::CpuTime] = cpu;
            used
        };
        let mut node = NodeTime::new(0, Scheduler::default());
        let idle = at(100, &[(0, 10, 10, 0)]);
        assert_eq!(node.finish(&idle, used(30), 20, None).idle_ns, 80);
        // More than they used is no fault of theirs.
        let idle = at(200, &[(0, 10, 10, 0)]);
        assert_eq!(node.finish(&idle, used(60), 20, None).idle_ns, 160);
        let idle = at(300, &[(0, 10, 10, 0)]);
        assert_eq!(node.finish(&idle, used(60), 0, None).idle_ns, 260);
    }

    #[test]
    fn a_cpu_counts_only_while_it_is_online() {
        let mut node = NodeTime::new(0, Scheduler::default());
        let both = at(100, &[(0, 50, 0, 7), (1, 50, 50, 0)]);
        assert_eq!(times(&mut node, &both), (2, 200, 100));
        // CPU 1 goes offline: its slot is not read, and the idle task stays in it.
        let one = at(200, &[(0, 50, 0, 7)]);
        assert_eq!(times(&mut node, &one), (1, 300, 100));
        // It is back: nothing of the time away counts, neither as elapsed nor as idle.
        let back = at(300, &[(0, 50, 0, 7), (1, 290, 290, 0)]);
        assert_eq!(times(&mut node, &back), (2, 400, 100));
        let later = at(400, &[(0, 50, 0, 7), (1, 290, 290, 0)]);
        assert_eq!(times(&mut node, &later), (2, 600, 200));
    }
}
