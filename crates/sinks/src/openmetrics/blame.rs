//! Who made a subject wait.

use noctule_model::{Blamed, Cause, Counter, Subject, SubjectRow};

use super::figures::Figures;
use super::pairs::Relation;

/// A pair with less blame in total has no series: most pairs met once, by chance.
const FLOOR_NS: u64 = 10_000_000;

/// Victims and culprits; the amount is what the victim waited, in nanoseconds.
#[derive(Debug)]
pub(super) struct Blame;

impl Relation for Blame {
    /// Most pairs met once, by chance: a pair has a series once it has gone on.
    const WHOLE: bool = false;
    type Partner = Blamed;
    type Amount = u64;
    type Rank = u64;

    fn of(row: &SubjectRow) -> impl Iterator<Item = (&Blamed, u64)> {
        row.blame
            .iter()
            .map(|blame| (&blame.culprit, blame.wait_ns))
    }

    fn label(culprit: &Blamed) -> Option<String> {
        let Blamed::Subject(subject) = culprit else {
            return (*culprit == Blamed::Kernel).then(|| "kernel".to_owned());
        };
        match &**subject {
            Subject::Container(id) => Some(format!("container:{id}")),
            Subject::Unit(unit) => Some(format!("unit:{unit}")),
            Subject::Cgroup(path) => Some(format!("cgroup:{path}")),
            Subject::Overflow => None,
        }
    }

    fn rank(wait_ns: &u64) -> Option<u64> {
        (*wait_ns >= FLOOR_NS).then_some(*wait_ns)
    }

    /// What it waited for others: the blame of pairs is part of that.
    fn all(figures: &Figures) -> u64 {
        let others = [Cause::Neighbour, Cause::Kernel].map(Counter::Wait);
        others.map(|cause| figures.counters[cause]).iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn labels_of_culprits_tell_what_they_are() {
        let name = || "x".to_owned();
        let subject = |subject| Blamed::Subject(Arc::new(subject));
        let cases = [
            (Blamed::Kernel, Some("kernel")),
            (subject(Subject::Container(name())), Some("container:x")),
            (subject(Subject::Unit(name())), Some("unit:x")),
            (subject(Subject::Cgroup(name())), Some("cgroup:x")),
            (subject(Subject::Overflow), None),
            (Blamed::Unnamed, None),
        ];
        for (culprit, expected) in cases {
            assert_eq!(Blame::label(&culprit).as_deref(), expected);
        }
    }
}
