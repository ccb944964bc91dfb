//! A subject and what was charged to it.

use std::sync::Arc;

use crate::{Counters, Histogram, Owner, Subject, VerdictKind};

/// What one subject used. Subjects do not overlap: the sum over them is the node's total.
#[derive(Clone, Debug)]
pub struct SubjectRow {
    /// Container, unit or other group.
    pub subject: Subject,
    /// What is known of it, from the outermost of its groups.
    pub owner: Arc<Owner>,
    /// What it used since the agent started. Its groups are no neighbours of each other
    /// ([`crate::Cause`]).
    pub counters: Counters,
    /// Average frequency while it ran, over the last tick; `None` when not measured or not run.
    pub frequency_hertz: Option<f64>,
    /// How long its waits were, since the agent started; one value in nanoseconds for each.
    pub waits: Histogram,
    /// Who had the CPU while it waited for others, in the order of culprits. The sum is what it
    /// waited for neighbours and the system, without culprits that are no subject any more.
    pub blame: Vec<SubjectBlame>,
    /// What was the matter in the last window that was judged; `None` before, and where nobody
    /// judges ([`crate::Judge::mark`]).
    pub verdict: Option<VerdictKind>,
}

/// Who made a subject wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Blamed {
    /// Threads of the kernel.
    Kernel,
    /// Another subject.
    Subject(Arc<Subject>),
    /// Groups that cannot be told apart, for want of room or because they are gone for long.
    Unnamed,
}

/// What one culprit did to a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectBlame {
    /// Who had the CPU.
    pub culprit: Blamed,
    /// How long the subject waited meanwhile, since both are known, in nanoseconds. Only goes up.
    pub wait_ns: u64,
}

/// A subject in the making.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) row: SubjectRow,
    /// The last batch that has one of its groups.
    pub(super) seen_ns: u64,
    /// What was charged in this tick.
    pub(super) tick: Counters,
}

impl Standing {
    pub(super) fn new(subject: &Subject, owner: &Arc<Owner>) -> Self {
        Self {
            row: SubjectRow {
                subject: subject.clone(),
                owner: owner.clone(),
                counters: Counters::default(),
                frequency_hertz: None,
                waits: Histogram::default(),
                blame: Vec::new(),
                verdict: None,
            },
            seen_ns: 0,
            tick: Counters::default(),
        }
    }

    /// Blames a culprit; without its name when there is no room for another pair.
    pub(super) fn blame(&mut self, culprit: Blamed, wait_ns: u64, room: &mut usize) {
        if wait_ns == 0 {
            return;
        }
        let list = &mut self.row.blame;
        match list.binary_search_by(|known| known.culprit.cmp(&culprit)) {
            Ok(at) => list[at].wait_ns += wait_ns,
            Err(_) if *room == 0 && matches!(culprit, Blamed::Subject(_)) => {
                self.blame(Blamed::Unnamed, wait_ns, room);
            }
            Err(at) => {
                *room = room.saturating_sub(1);
                list.insert(at, SubjectBlame { culprit, wait_ns });
            }
        }
    }
}
