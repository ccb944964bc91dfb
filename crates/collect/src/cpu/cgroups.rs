//! From threads to cgroups: what the living use now, and what the others left.

use std::collections::HashMap;
use std::time::Duration;

use noctule_kernel::Snapshot;
use noctule_model::{CgroupId, CgroupRow, Counters};

/// The cgroups that ran something.
pub(super) struct Cgroups {
    grace_ns: u64,
    now_ns: u64,
    groups: HashMap<CgroupId, Group>,
    /// What groups used that are no longer listed.
    retired: Counters,
    /// What the kernel side had no row for; belongs to no group.
    overflow: Counters,
}

#[derive(Default)]
struct Group {
    shown: Counters,
    sum: Counters,
    /// What its threads used while they were in it, as far as they were read, and what was in rows of
    /// the kernel side that were taken out.
    told: Counters,
    released_ns: Option<u64>,
}

impl Cgroups {
    pub(super) fn new(grace: Duration) -> Self {
        Self {
            grace_ns: grace.as_nanos() as u64,
            now_ns: 0,
            groups: HashMap::new(),
            retired: Counters::default(),
            overflow: Counters::default(),
        }
    }

    pub(super) fn begin(&mut self, snapshot: &Snapshot) {
        self.now_ns = snapshot.taken_ns;
        self.overflow = snapshot.overflow;
        for group in self.groups.values_mut() {
            group.sum = group.told;
        }
        for (id, counters) in &snapshot.settled {
            self.groups.entry(CgroupId(*id)).or_default().sum += counters;
        }
    }

    /// Adds what a thread used since it was read before. `running`: what will be read later of the
    /// time for which it is on its CPU.
    pub(super) fn add(&mut self, id: CgroupId, used: &Counters, running: &Counters) {
        let group = self.groups.entry(id).or_default();
        group.told += used;
        group.sum += used;
        group.sum += running;
    }

    pub(super) fn settle(&mut self) {
        for group in self.groups.values_mut() {
            group.shown = group.shown.max(&group.sum);
        }
        let (now, grace) = (self.now_ns, self.grace_ns);
        let over = |group: &Group| group.released_ns.is_some_and(|at| now - at > grace);
        let retired = &mut self.retired;
        self.groups.retain(|_, group| {
            if over(group) {
                *retired += &group.shown;
                return false;
            }
            true
        });
        // A burst of groups leaves no empty places, each of a KiB, behind.
        self.groups.shrink_to(2 * self.groups.len());
    }

    /// Notes the groups that are gone for good; returns those whose rows in the kernel side may be
    /// taken out, because they are settled here.
    pub(super) fn release(&mut self, released: &[CgroupId], snapshot: &Snapshot) -> Vec<CgroupId> {
        for id in released {
            if let Some(group) = self.groups.get_mut(id) {
                group.released_ns.get_or_insert(self.now_ns);
            }
        }
        let mut settled = Vec::new();
        for (id, counters) in &snapshot.settled {
            let id = CgroupId(*id);
            let group = self.groups.get_mut(&id).filter(|g| g.released_ns.is_some());
            if let Some(group) = group {
                group.told += counters;
                settled.push(id);
            }
        }
        settled
    }

    pub(super) fn total(&self) -> Counters {
        let groups = self.groups.values();
        groups.fold(self.retired + &self.overflow, |sum, group| {
            sum + &group.shown
        })
    }

    pub(super) fn rows(&self) -> Vec<CgroupRow> {
        let row = |(id, group): (&CgroupId, &Group)| CgroupRow {
            id: *id,
            counters: group.shown,
            ..CgroupRow::default()
        };
        self.groups.iter().map(row).collect()
    }
}
