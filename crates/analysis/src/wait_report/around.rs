//! The surroundings of a group: the CPUs that it may use, and the groups that run there.

use std::collections::HashMap;
use std::sync::Arc;

use noctule_model::{Counter, Level, Node, Owner, ThreadRoom};

use crate::party::Party;
use crate::report::{Key, Row, key};

/// Maximum number of other groups to name when a group's threads shared a CPU.
const NAMED: usize = 3;

/// Surroundings of a row in the window.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The group's runnable threads, and the CPUs that these threads may use; `None` if unknown.
    pub room: Option<ThreadRoom>,
    /// CPUs online at the end of the window.
    pub cpus: u32,
    /// Sum of the idle time of the online CPUs, in nanoseconds.
    pub idle_ns: u64,
    /// CPU time of all other groups.
    pub others_cpu_ns: u64,
    /// The other groups with the most CPU time, in descending order. Empty if the row's threads may
    /// not use all CPUs.
    pub busiest: Vec<(Party, u64)>,
}

/// Why the threads of a group waited for each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnWaits {
    /// There are more threads than CPUs that they may use, or the number of these CPUs is unknown.
    #[default]
    TooMany,
    /// Each thread could have had its own CPU, but other groups had those CPUs.
    Crowded,
    /// Each thread could have had its own CPU, and CPUs were idle: the scheduler let the threads
    /// share one.
    Spare,
}

impl Surroundings {
    /// Returns why threads that ran or waited for `wanted_ns` waited for each other for `own_ns`.
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

/// CPU time of all groups, in descending order.
pub(super) struct CpuOfAll {
    groups: Vec<(Key, Arc<Owner>, u64)>,
    sum_ns: u64,
    cpus: u32,
    idle_ns: u64,
}

impl CpuOfAll {
    /// Adds up the CPU time of all cgroups by key. `first` and `last` describe the node at the
    /// start and end of the window.
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

    /// Returns the surroundings of the group with that key.
    pub(super) fn around(&self, own: &Key, room: ThreadRoom) -> Surroundings {
        let (own, others): (Vec<_>, Vec<_>) = self.groups.iter().partition(|it| it.0 == *own);
        // CPU time is not known for each CPU, so groups are only named if the row may use all CPUs.
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
