//! Time of the CPUs: elapsed, idle.

use std::collections::{HashMap, HashSet};

use noctule_kernel::{CpuSlot, Snapshot, sample_flag};
use noctule_model::{Counters, Node};

/// Adds up the time of CPUs while they are online. A CPU's slot goes on ageing while it is offline,
/// so only growth between two snapshots that both saw it counts.
pub(super) struct NodeTime {
    last_ns: u64,
    /// Idle time of each CPU at the last snapshot; `None` before the first.
    idle: Option<HashMap<u32, u64>>,
    elapsed_ns: u64,
    idle_ns: u64,
    started_ns: u64,
}

impl NodeTime {
    pub(super) fn new(started_ns: u64) -> Self {
        Self {
            last_ns: started_ns,
            idle: None,
            elapsed_ns: 0,
            idle_ns: 0,
            started_ns,
        }
    }

    pub(super) fn finish(
        &mut self,
        snapshot: &Snapshot,
        used: Counters,
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
        let mut on_idle = Counters::default();
        for (cpu, slot) in &snapshot.cpus {
            let total = self.idle_of(slot, now, busy.contains(cpu));
            idle.insert(*cpu, total);
            on_idle += &slot.idle_values();
            let before = match &self.idle {
                None => Some(0),
                Some(known) => known.get(cpu).copied(),
            };
            if let Some(before) = before {
                self.elapsed_ns += now.saturating_sub(self.last_ns);
                self.idle_ns += total.saturating_sub(before);
            }
        }
        self.last_ns = now;
        self.idle = Some(idle);
        Node {
            cpus: snapshot.cpus.len() as u32,
            elapsed_ns: self.elapsed_ns,
            idle_ns: self.idle_ns.min(self.elapsed_ns),
            total: used + &on_idle,
            nominal_hertz,
        }
    }

    /// Idle time of a CPU up to `now`, the slice that has not ended included. A CPU that has not
    /// switched since the start is idle unless a thread was seen on it.
    fn idle_of(&self, slot: &CpuSlot, now: u64, busy: bool) -> u64 {
        let (since, idle) = match slot.since {
            0 => (self.started_ns, !busy),
            since => (since, slot.pid == 0),
        };
        slot.idle_ns + if idle { now.saturating_sub(since) } else { 0 }
    }
}
