//! The cumulative figures of a row.

use noctule_model::{Counters, DestinationCounters, EventCounters, Histogram, Joules, SubjectRow};

/// All values of a row that only increase.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) counters: Counters,
    /// All values are zero if the machine has no power sensor.
    pub(super) joules: Joules,
    /// Run-queue latencies in nanoseconds; empty if the level has no such metric.
    pub(super) waits: Histogram,
    /// All values are zero if the level has no such metrics.
    pub(super) events: EventCounters,
    /// Connect times in nanoseconds.
    pub(super) connects: Histogram,
    /// Sums over all destinations.
    pub(super) destinations: DestinationCounters,
}

impl Figures {
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

    /// Returns the growth since `earlier`.
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

    /// Returns whether all values are 0.
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
