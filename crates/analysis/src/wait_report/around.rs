//! What surrounds a group: the CPUs that it may use, and the groups that have them.

use std::collections::HashMap;
use std::sync::Arc;

use noctule_model::{Counter, Level, Node, Owner, ThreadRoom};

use super::Party;
use crate::report::{Key, Row, key};

/// Other groups that can be named for the time that a group's threads shared a CPU.
const NAMED: usize = 3;

/// What surrounds a row in the window.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Its threads that want the CPU, and the CPUs that they may use; `None` where that is not known.
    pub room: Option<ThreadRoom>,
    /// CPUs online at the end of the window.
    pub cpus: u32,
    /// How long these were idle, nanoseconds, summed over them.
    pub idle_ns: u64,
    /// CPU time of all other groups.
    pub others_cpu_ns: u64,
    /// The other groups with the most of it, the first the one with the most; empty where its threads may not use all
    /// CPUs.
    pub busiest: Vec<(Party, u64)>,
}

/// Why the threads of a group waited for each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnWaits {
    /// There are more of them than CPUs that they may use, or it is not known.
    #[default]
    TooMany,
    /// Each could have a CPU of its own, but others had these.
    Crowded,
    /// Each could have a CPU of its own, and CPUs were idle meanwhile: the scheduler chose to let them share.
    Spare,
}

impl Surroundings {
    /// Why threads that ran or waited for `wanted_ns` waited for each other for `own_ns` of it.
    pub(super) fn own_waits(&self, own_ns: u64, wanted_ns: u64, window_ns: u64) -> OwnWaits {
        let runnable = wanted_ns as f64 / window_ns.max(1) as f64;
        match self.room {
            Some(room) if room.is_enough() && runnable.round() <= f64::from(room.cpus) => {
                match room.cpus >= self.cpus && self.idle_ns >= own_ns {
                    true => OwnWaits::Spare,
                    false => OwnWaits::Crowded,
                }
            }
            _ => OwnWaits::TooMany,
        }
    }
}

/// The CPU time of all groups, the one with the most first.
pub(super) struct CpuOfAll {
    groups: Vec<(Key, Arc<Owner>, u64)>,
    sum_ns: u64,
    cpus: u32,
    idle_ns: u64,
}

impl CpuOfAll {
    /// Of what all cgroups used, and of the node at both ends of the window.
    pub(super) fn new(cgroups: &[Row], level: Level, first: &Node, last: &Node) -> Self {
        let mut used: HashMap<Key, (Arc<Owner>, u64)> = HashMap::new();
        for row in cgroups {
            let sum = used.entry(key(&row.owner, level));
            let sum = sum.or_insert_with(|| (row.owner.clone(), 0));
            sum.1 = sum.1.saturating_add(row.counters[Counter::CpuTime]);
        }
        let groups = used.into_iter().map(|(key, (owner, ns))| (key, owner, ns));
        let mut groups: Vec<_> = groups.collect();
        groups.sort_by(|a, b| (b.2, &a.0).cmp(&(a.2, &b.0)));
        Self {
            sum_ns: groups.iter().fold(0, |sum, it| sum.saturating_add(it.2)),
            groups,
            cpus: last.cpus,
            idle_ns: last.idle_ns.saturating_sub(first.idle_ns),
        }
    }

    /// What surrounds the group with that key.
    pub(super) fn around(&self, own: &Key, room: ThreadRoom) -> Surroundings {
        let (own, others): (Vec<_>, Vec<_>) = self.groups.iter().partition(|it| it.0 == *own);
        // Who had those of some CPUs is not known.
        let is_anywhere = room.cpus >= self.cpus;
        let others = others.into_iter().filter(|it| it.2 > 0 && is_anywhere);
        Surroundings {
            room: Some(room),
            cpus: self.cpus,
            idle_ns: self.idle_ns,
            others_cpu_ns: own
                .iter()
                .fold(self.sum_ns, |sum, it| sum.saturating_sub(it.2)),
            busiest: others
                .take(NAMED)
                .map(|it| (Party::Group(it.1.clone()), it.2))
                .collect(),
        }
    }
}
