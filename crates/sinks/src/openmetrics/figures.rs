//! The figures of a row.

use noctule_model::{Counters, DestinationCounters, EventCounters, Histogram, Joules, SubjectRow};

/// Everything of a row that only goes up.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) counters: Counters,
    /// 0 where there is no meter.
    pub(super) joules: Joules,
    /// How long waits were, in nanoseconds; empty where there is no such metric.
    pub(super) waits: Histogram,
    /// 0 where there are no such metrics.
    pub(super) events: EventCounters,
    /// How long it took to connect, in nanoseconds.
    pub(super) connects: Histogram,
    /// All destinations together.
    pub(super) destinations: DestinationCounters,
}

impl Figures {
    /// Those of a subject.
    pub(super) fn of_subject(row: &SubjectRow) -> Self {
        Self {
            counters: row.counters,
            joules: row.joules,
            waits: row.waits.clone(),
            events: row.events.counters,
            connects: row.connects.clone(),
            destinations: row.all_destinations,
        }
    }

    /// What was added since `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            counters: self.counters.since(&earlier.counters),
            joules: self.joules.since(&earlier.joules),
            waits: self.waits.since(&earlier.waits),
            events: self.events.since(&earlier.events),
            connects: self.connects.since(&earlier.connects),
            destinations: self.destinations.since(&earlier.destinations),
        }
    }

    /// Whether nothing of it was ever counted.
    pub(super) fn is_zero(&self) -> bool {
        let Self {
            counters,
            joules,
            waits,
            events,
            connects,
            destinations,
        } = self;
        let counts = counters.is_zero() && joules.is_zero() && events.is_zero();
        counts && destinations.is_zero() && waits.is_empty() && connects.is_empty()
    }
}

impl std::ops::AddAssign<&Figures> for Figures {
    fn add_assign(&mut self, other: &Self) {
        self.counters += &other.counters;
        self.joules += &other.joules;
        self.waits += &other.waits;
        self.events += &other.events;
        self.connects += &other.connects;
        self.destinations += &other.destinations;
    }
}
