//! A subject and what was charged to it.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::{
    Counters, DestinationCounters, Events, Histogram, Joules, Owner, Subject, VerdictKind, Waiting,
};

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
    /// Active energy that it was charged with since the agent started; 0 without a meter.
    pub joules: Joules,
    /// Average frequency while it ran, over the last tick; `None` when not measured or not run.
    pub frequency_hertz: Option<f64>,
    /// How long its waits were, since the agent started; one value in nanoseconds for each.
    pub waits: Histogram,
    /// Its threads that wait for a CPU now.
    pub waiting: Waiting,
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
    /// waited for neighbours and threads of the kernel, without culprits that are no subject any more.
    pub blame: Vec<SubjectBlame>,
    /// What was the matter in the last window that was judged; `None` before, and where nobody
    /// judges (`Judge::mark` of noctule-analysis).
    pub verdict: Option<VerdictKind>,
}

impl SubjectRow {
    /// One that used nothing yet.
    pub fn new(subject: Subject, owner: Arc<Owner>) -> Self {
        Self {
            subject,
            owner,
            counters: Counters::default(),
            joules: Joules::default(),
            frequency_hertz: None,
            waits: Histogram::default(),
            waiting: Waiting::default(),
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
    /// Groups without a row of their own, for want of room or because they are gone for long.
    Unnamed,
}

/// What one culprit did to a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectBlame {
    /// Who had the CPU.
    pub culprit: Blamed,
    /// How long the subject waited meanwhile, since both are known, in nanoseconds. Only goes up; one that did not
    /// for a while is forgotten where there is hardly room for others, and begins again.
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
