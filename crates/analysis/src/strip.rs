//! The CPU use and waits of one group over a window, from batch to batch.

use noctule_model::{Batch, Cause, CgroupId, Counter, Counters, IdMap, Level};

use crate::Party;
use crate::report::{Key, key, owner_of};

/// Collects the time line of one group. The collector must observe every batch, in order.
#[derive(Clone, Debug)]
pub struct Strip {
    level: Level,
    wanted: Key,
    /// Time of the last batch, and the sums of each of its cgroups. All cgroups are kept because
    /// noctule may learn the owner of a cgroup later.
    last: Option<(u64, IdMap<CgroupId, Sums>)>,
    steps: Vec<StripStep>,
}

/// The time between two batches. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StripStep {
    /// End of the step, since 1970.
    pub time_unix_ns: u64,
    pub length_ns: u64,
    /// Time for which threads of the group ran.
    pub cpu_ns: u64,
    /// Time for which the group's threads waited, throttled or not.
    pub wait_ns: u64,
    /// How long the threads were throttled during `wait_ns`.
    pub throttled_ns: u64,
}

/// Totals of a cgroup since the agent started.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    cpu_ns: u64,
    wait_ns: u64,
    throttled_ns: u64,
}

impl Sums {
    fn of(counters: &Counters) -> Self {
        let waits = Cause::ALL.map(|cause| counters[Counter::Wait(cause)]);
        Self {
            cpu_ns: counters[Counter::CpuTime],
            wait_ns: waits.iter().sum(),
            throttled_ns: counters[Counter::Wait(Cause::Throttle)],
        }
    }
}

impl StripStep {
    /// Returns the wait as a fraction of the group's CPU demand. Returns `None` without CPU demand.
    pub fn wait_share(&self) -> Option<f64> {
        let wanted = self.cpu_ns + self.wait_ns;
        (wanted > 0).then(|| self.wait_ns as f64 / wanted as f64)
    }
}

impl Strip {
    /// Creates an empty strip for this group.
    pub fn new(party: &Party, level: Level) -> Self {
        Self {
            level,
            wanted: party.key(level),
            last: None,
            steps: Vec::new(),
        }
    }

    /// Adds the next batch.
    pub fn observe(&mut self, batch: &Batch) {
        let rows = batch.cgroups.iter();
        let now = rows.map(|row| (row.id, Sums::of(&row.counters))).collect();
        let Some((before_ns, before)) = self.last.replace((batch.taken_ns, now)) else {
            return;
        };
        let mut step = StripStep {
            time_unix_ns: batch.time_unix_ns,
            length_ns: batch.taken_ns.saturating_sub(before_ns),
            ..StripStep::default()
        };
        for row in &batch.cgroups {
            if key(&owner_of(row.owner.as_ref(), row.id), self.level) != self.wanted {
                continue;
            }
            // A cgroup that is missing from the previous batch started from zero.
            let before = before.get(&row.id).copied().unwrap_or_default();
            let now = Sums::of(&row.counters);
            step.cpu_ns += now.cpu_ns.saturating_sub(before.cpu_ns);
            step.wait_ns += now.wait_ns.saturating_sub(before.wait_ns);
            step.throttled_ns += now.throttled_ns.saturating_sub(before.throttled_ns);
        }
        self.steps.push(step);
    }

    /// Returns the steps so far, oldest first.
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
    fn steps_contain_only_the_groups_own_use() {
        let party = Party::Group(Arc::new(Owner::unknown(CgroupId(7))));
        let mut strip = Strip::new(&party, Level::Cgroup);
        strip.observe(&batch(10, &[(7, [1, 2, 3]), (8, [100, 100, 100])]));
        strip.observe(&batch(20, &[(7, [4, 2, 9]), (8, [200, 200, 200])]));
        strip.observe(&batch(30, &[(7, [4, 2, 9])]));
        // The cgroup was removed.
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

    fn in_unit(id: u64) -> Arc<Owner> {
        Arc::new(Owner {
            unit: Some("web.service".into()),
            ..Owner::unknown(CgroupId(id))
        })
    }

    #[test]
    fn step_sums_groups_that_appear_and_disappear() {
        let named = |mut batch: Batch, ids: &[u64]| {
            let rows = batch.cgroups.iter_mut();
            for row in rows.filter(|row| ids.contains(&row.id.0)) {
                row.owner = Some(in_unit(row.id.0));
            }
            batch
        };
        let mut strip = Strip::new(&Party::Group(in_unit(1)), Level::Unit);
        let groups = |a, b, c| [(1, [a, 0, 0]), (2, [b, 0, 0]), (3, [c, 0, 0])];
        // The third cgroup has no name yet.
        strip.observe(&named(batch(10, &groups(100, 900, 5000)), &[1, 2]));
        strip.observe(&named(batch(20, &groups(107, 903, 5001)), &[1, 2]));
        // The third cgroup gets its name.
        strip.observe(&named(batch(30, &groups(109, 904, 5005)), &[1, 2, 3]));
        // The second cgroup is removed, and a fourth is created.
        let rest = [(1, [112, 0, 0]), (3, [5006, 0, 0]), (4, [20, 0, 0])];
        strip.observe(&named(batch(40, &rest), &[1, 3, 4]));
        let used: Vec<u64> = strip.steps().iter().map(|step| step.cpu_ns).collect();
        assert_eq!(used, [10, 7, 24]);
    }
}
