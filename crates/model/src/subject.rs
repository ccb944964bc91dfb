//! A subject and its figures.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::{
    Counters, DestinationCounters, Events, Histogram, Joules, Owner, Stalls, Subject, VerdictKind,
    Waiting,
};

/// Figures of one subject. Subjects do not overlap: their sum is the node's total.
#[derive(Clone, Debug)]
pub struct SubjectRow {
    /// The container, unit or other group.
    pub subject: Subject,
    /// The owner of the subject's outermost cgroup.
    pub owner: Arc<Owner>,
    /// Whether all cgroups of the subject were removed. Its row stays for a while.
    pub ended: bool,
    /// The subject's use since the agent started. Cgroups of the subject are not neighbours of each
    /// other ([`crate::Cause`]).
    pub counters: Counters,
    /// Active energy charged to the subject since the agent started; 0 without a meter.
    pub joules: Joules,
    /// Average frequency while the subject ran, over the last tick; `None` if not measured or if
    /// the subject did not run.
    pub frequency_hertz: Option<f64>,
    /// Histogram of the subject's waits since the agent started, in nanoseconds.
    pub waits: Histogram,
    /// Threads of the subject that are waiting for a CPU.
    pub waiting: Waiting,
    /// The subject's events since the agent started, and its open sockets.
    pub events: Events,
    /// Histogram of the subject's connect times since the agent started, in nanoseconds, for
    /// established connections.
    pub connects: Histogram,
    /// Destinations of the subject's connections, in order of addresses. Destinations that have no
    /// row are left out.
    pub destinations: Vec<SubjectDestination>,
    /// Counts over all destinations.
    pub all_destinations: DestinationCounters,
    /// The culprits of the subject's waits, in order. The sum is the subject's wait for neighbours
    /// and kernel threads, except for culprits that are no longer subjects.
    pub blame: Vec<SubjectBlame>,
    /// Verdict on the last judged window. `None` before the first window ends, and if no verdicts
    /// are computed (`Judge::mark` of noctule-analysis).
    pub verdict: Option<VerdictKind>,
    /// Pressure of the subject's outermost cgroup since the agent started, if it is read.
    pub stalls: Stalls,
}

impl SubjectRow {
    /// Creates a row without any use.
    pub fn new(subject: Subject, owner: Arc<Owner>) -> Self {
        Self {
            subject,
            owner,
            ended: false,
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
            stalls: Stalls::default(),
        }
    }

    /// Returns the row with its growth since `earlier`. Values that can decrease stay.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut growth = self.clone();
        growth.counters = self.counters.since(&earlier.counters);
        growth.joules = self.joules.since(&earlier.joules);
        growth.waits = self.waits.since(&earlier.waits);
        growth.events.counters = self.events.counters.since(&earlier.events.counters);
        growth.connects = self.connects.since(&earlier.connects);
        growth.all_destinations = self.all_destinations.since(&earlier.all_destinations);
        for known in &mut growth.destinations {
            let list = &earlier.destinations;
            if let Some(was) = list.iter().find(|it| it.destination == known.destination) {
                known.counters = known.counters.since(&was.counters);
            }
        }
        for known in &mut growth.blame {
            let was = earlier.blame.iter().find(|it| it.culprit == known.culprit);
            known.wait_ns = known
                .wait_ns
                .saturating_sub(was.map_or(0, |was| was.wait_ns));
        }
        growth
    }

    /// Adds growth without its division by destination and culprit.
    pub fn add_growth(&mut self, growth: &Self) {
        self.counters += &growth.counters;
        self.joules += &growth.joules;
        self.waits += &growth.waits;
        self.events.counters += &growth.events.counters;
        self.connects += &growth.connects;
        self.all_destinations += &growth.all_destinations;
    }
}

/// The culprit of a subject's wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Blamed {
    /// Kernel threads.
    Kernel,
    /// Another subject.
    Subject(Arc<Subject>),
    /// Groups without their own row, because there was no room or the row was dropped long ago.
    Unnamed,
}

/// How long a culprit made a subject wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectBlame {
    pub culprit: Blamed,
    /// Time that the subject waited for the culprit since both are known, in nanoseconds. The time
    /// never decreases. If room is scarce, a pair without recent growth is dropped and restarts
    /// from 0.
    pub wait_ns: u64,
}

/// Connections of a subject to one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectDestination {
    /// The remote address.
    pub destination: SocketAddr,
    /// Counts since the destination got its row. The counts never decrease.
    pub counters: DestinationCounters,
}
