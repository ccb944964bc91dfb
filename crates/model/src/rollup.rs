//! From cgroups to the containers, units and groups that own them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{Batch, CgroupId, Counters, Owner, Subject};

/// What one subject used. Subjects do not overlap: the sum over them is the node's total.
#[derive(Clone, Debug)]
pub struct SubjectRow {
    /// Container, unit or other group.
    pub subject: Subject,
    /// What is known of it, from the outermost of its groups.
    pub owner: Arc<Owner>,
    /// What it used since the agent started.
    pub counters: Counters,
    /// Average frequency while it ran, over the last tick; `None` when not measured or not run.
    pub frequency_hertz: Option<f64>,
}

/// Charges the growth of each cgroup to its subject.
///
/// Working with growth keeps a subject's counters monotonic whatever happens to its groups: one
/// that is removed, or whose owner becomes known late, takes nothing back.
#[derive(Debug)]
pub struct Rollup {
    grace_ns: u64,
    cgroups: HashMap<CgroupId, Counters>,
    subjects: HashMap<Subject, Standing>,
}

#[derive(Debug)]
struct Standing {
    row: SubjectRow,
    seen_ns: u64,
}

impl Rollup {
    /// `grace_ns`: how long a subject stays after its last group has gone.
    pub fn new(grace_ns: u64) -> Self {
        Self {
            grace_ns,
            cgroups: HashMap::new(),
            subjects: HashMap::new(),
        }
    }

    /// Fills [`Batch::subjects`]. The owners of the batch's cgroups must be set already; a group
    /// without one is skipped until it has one, and charged in full then.
    pub fn apply(&mut self, batch: &mut Batch) {
        let now = batch.taken_ns;
        let mut grown: HashMap<Subject, Counters> = HashMap::new();
        for row in &batch.cgroups {
            let Some(owner) = &row.owner else { continue };
            let before = self
                .cgroups
                .insert(row.id, row.counters)
                .unwrap_or_default();
            let growth = row.counters.since(&before);
            let subject = owner.subject();
            let standing = self
                .subjects
                .entry(subject.clone())
                .or_insert_with(|| Standing {
                    row: SubjectRow {
                        subject: subject.clone(),
                        owner: owner.clone(),
                        counters: Counters::default(),
                        frequency_hertz: None,
                    },
                    seen_ns: now,
                });
            standing.seen_ns = now;
            let known = &standing.row.owner;
            if known.cgroup == owner.cgroup || owner.path.len() < known.path.len() {
                standing.row.owner = owner.clone();
            }
            standing.row.counters += &growth;
            *grown.entry(subject).or_default() += &growth;
        }
        let present: std::collections::HashSet<CgroupId> =
            batch.cgroups.iter().map(|row| row.id).collect();
        self.cgroups.retain(|id, _| present.contains(id));
        self.subjects
            .retain(|_, s| now.saturating_sub(s.seen_ns) <= self.grace_ns);
        for (subject, standing) in &mut self.subjects {
            let growth = grown.get(subject).copied().unwrap_or_default();
            standing.row.frequency_hertz =
                growth.frequency_hertz(batch.measured, batch.node.nominal_hertz);
        }
        batch.subjects = self.subjects.values().map(|s| s.row.clone()).collect();
        batch.subjects.sort_by(|a, b| a.subject.cmp(&b.subject));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CgroupRow, Counter};

    fn row(id: u64, path: &str, ns: u64) -> CgroupRow {
        let mut counters = Counters::default();
        counters[Counter::CpuTime] = ns;
        let owner = Owner {
            path: path.into(),
            ..Owner::unknown(CgroupId(id))
        };
        CgroupRow {
            id: CgroupId(id),
            owner: Some(Arc::new(owner)),
            counters,
        }
    }

    fn step(rollup: &mut Rollup, at: u64, cgroups: Vec<CgroupRow>) -> Vec<(Subject, u64)> {
        let mut batch = Batch {
            taken_ns: at,
            cgroups,
            ..Batch::default()
        };
        rollup.apply(&mut batch);
        let cpu = |r: &SubjectRow| (r.subject.clone(), r.counters[Counter::CpuTime]);
        batch.subjects.iter().map(cpu).collect()
    }

    #[test]
    fn a_late_name_takes_nothing_back() {
        let mut rollup = Rollup::new(100);
        step(&mut rollup, 0, vec![row(7, "#7", 10)]);
        let rows = step(&mut rollup, 1, vec![row(7, "/a", 15)]);
        let cgroup = |path: &str| Subject::Cgroup(path.into());
        assert_eq!(rows, [(cgroup("#7"), 10), (cgroup("/a"), 5)]);
    }

    #[test]
    fn a_removed_group_stays_in_its_subject_and_leaves_after_the_grace() {
        let mut rollup = Rollup::new(100);
        step(&mut rollup, 0, vec![row(7, "/a", 10)]);
        assert_eq!(step(&mut rollup, 100, vec![])[0].1, 10);
        assert_eq!(step(&mut rollup, 101, vec![]), []);
    }
}
