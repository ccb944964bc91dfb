//! A subject and what was charged to it.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::{Counters, DestinationCounters, Events, Histogram, Owner, Subject, VerdictKind};

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
    /// Its events since the agent started, and what its groups have open.
    pub events: Events,
    /// How long it took to connect, since the agent started; one value in nanoseconds for each
    /// connection that was established.
    pub connects: Histogram,
    /// Where its connections go, in the order of addresses; without those that found no room or
    /// are gone for long.
    pub destinations: Vec<SubjectDestination>,
    /// What it did with all destinations.
    pub all_destinations: DestinationCounters,
    /// Who had the CPU while it waited for others, in the order of culprits. The sum is what it
    /// waited for neighbours and the system, without culprits that are no subject any more.
    pub blame: Vec<SubjectBlame>,
    /// What was the matter in the last window that was judged; `None` before, and where nobody
    /// judges ([`crate::Judge::mark`]).
    pub verdict: Option<VerdictKind>,
}

impl SubjectRow {
    /// One that used nothing yet.
    pub fn new(subject: Subject, owner: Arc<Owner>) -> Self {
        Self {
            subject,
            owner,
            counters: Counters::default(),
            frequency_hertz: None,
            waits: Histogram::default(),
            events: Events::default(),
            connects: Histogram::default(),
            destinations: Vec::new(),
            all_destinations: DestinationCounters::default(),
            blame: Vec::new(),
            verdict: None,
        }
    }
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

/// What a subject did with one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectDestination {
    /// The other end.
    pub destination: SocketAddr,
    /// Since the destination has a place. Only goes up.
    pub counters: DestinationCounters,
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
            row: SubjectRow::new(subject.clone(), owner.clone()),
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

    /// Charges growth to a destination; to all of them only, when it has no name or there is no room
    /// for another one.
    pub(super) fn connect(
        &mut self,
        destination: Option<SocketAddr>,
        growth: &DestinationCounters,
        room: &mut usize,
    ) {
        self.row.all_destinations += growth;
        let Some(destination) = destination else {
            return;
        };
        let list = &mut self.row.destinations;
        match list.binary_search_by_key(&destination, |known| known.destination) {
            Ok(at) => list[at].counters += growth,
            Err(_) if *room == 0 => {}
            Err(at) => {
                *room -= 1;
                let counters = *growth;
                list.insert(
                    at,
                    SubjectDestination {
                        destination,
                        counters,
                    },
                );
            }
        }
    }
}
