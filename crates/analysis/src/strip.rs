//! What a group used and waited from batch to batch: the course of a window.

use noctule_model::{Batch, Cause, Counter, Level};

use crate::Party;
use crate::report::{Key, key, owner_of};

/// The course of one group. Fed with every batch, in order.
#[derive(Clone, Debug)]
pub struct Strip {
    level: Level,
    wanted: Key,
    last: Option<Sums>,
    steps: Vec<StripStep>,
}

/// Between two batches. Nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StripStep {
    /// When it ended, since 1970.
    pub time_unix_ns: u64,
    /// Its length.
    pub length_ns: u64,
    /// How long threads of the group ran.
    pub cpu_ns: u64,
    /// How long they waited, throttled or not.
    pub wait_ns: u64,
    /// The part of it for which they were throttled.
    pub throttled_ns: u64,
}

/// What the group had since the agent started.
#[derive(Clone, Copy, Debug)]
struct Sums {
    taken_ns: u64,
    cpu_ns: u64,
    wait_ns: u64,
    throttled_ns: u64,
}

impl StripStep {
    /// Part of the time for which the group wanted the CPU that it waited; `None` where it did not want it.
    pub fn wait_share(&self) -> Option<f64> {
        let wanted = self.cpu_ns + self.wait_ns;
        (wanted > 0).then(|| self.wait_ns as f64 / wanted as f64)
    }
}

impl Strip {
    /// Of this group; nothing was seen yet.
    pub fn new(party: &Party, level: Level) -> Self {
        Self {
            level,
            wanted: party.key(level),
            last: None,
            steps: Vec::new(),
        }
    }

    /// Takes the next batch.
    pub fn observe(&mut self, batch: &Batch) {
        let mut now = Sums {
            taken_ns: batch.taken_ns,
            cpu_ns: 0,
            wait_ns: 0,
            throttled_ns: 0,
        };
        for row in &batch.cgroups {
            if key(&owner_of(row.owner.as_ref(), row.id), self.level) != self.wanted {
                continue;
            }
            let waits = Cause::ALL.map(|cause| row.counters[Counter::Wait(cause)]);
            now.cpu_ns += row.counters[Counter::CpuTime];
            now.wait_ns += waits.iter().sum::<u64>();
            now.throttled_ns += row.counters[Counter::Wait(Cause::Throttle)];
        }
        if let Some(before) = self.last.replace(now) {
            self.steps.push(StripStep {
                time_unix_ns: batch.time_unix_ns,
                length_ns: now.taken_ns.saturating_sub(before.taken_ns),
                cpu_ns: now.cpu_ns.saturating_sub(before.cpu_ns),
                wait_ns: now.wait_ns.saturating_sub(before.wait_ns),
                throttled_ns: now.throttled_ns.saturating_sub(before.throttled_ns),
            });
        }
    }

    /// The steps so far, the oldest first.
    pub fn steps(&self) -> &[StripStep] {
        &self.steps
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noctule_model::{CgroupId, CgroupRow, Owner};

    use super::*;

    fn batch(at: u64, groups: &[(u64, [u64; 3])]) -> Batch {
        let row = |(id, [cpu, throttled, neighbour]): &(u64, [u64; 3])| {
            let mut row = CgroupRow {
                id: CgroupId(*id),
                ..CgroupRow::default()
            };
            row.counters[Counter::CpuTime] = *cpu;
            row.counters[Counter::Wait(Cause::Throttle)] = *throttled;
            row.counters[Counter::Wait(Cause::Neighbour)] = *neighbour;
            row
        };
        Batch {
            taken_ns: at,
            cgroups: groups.iter().map(row).collect(),
            ..Batch::default()
        }
    }

    #[test]
    fn steps_have_what_the_group_alone_used_and_waited() {
        let party = Party::Group(Arc::new(Owner::unknown(CgroupId(7))));
        let mut strip = Strip::new(&party, Level::Cgroup);
        strip.observe(&batch(10, &[(7, [1, 2, 3]), (8, [100, 100, 100])]));
        strip.observe(&batch(20, &[(7, [4, 2, 9]), (8, [200, 200, 200])]));
        strip.observe(&batch(30, &[(7, [4, 2, 9])]));
        // It is gone.
        strip.observe(&batch(40, &[]));
        let steps: Vec<_> = strip
            .steps()
            .iter()
            .map(|s| {
                (
                    s.length_ns,
                    s.cpu_ns,
                    s.wait_ns,
                    s.throttled_ns,
                    s.wait_share(),
                )
            })
            .collect();
        let nothing = (10, 0, 0, 0, None);
        assert_eq!(steps, [(10, 3, 6, 0, Some(6.0 / 9.0)), nothing, nothing]);
    }
}
