//! What is told of a row.

use noctule_model::{Counters, Histogram};

/// Everything of a row that only goes up.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) counters: Counters,
    /// How long waits were, in nanoseconds; empty where there is no such metric.
    pub(super) waits: Histogram,
}

impl Figures {
    /// What was added since `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            counters: self.counters.since(&earlier.counters),
            waits: self.waits.since(&earlier.waits),
        }
    }

    /// Brings each figure up to `later`, where that is more.
    pub(super) fn raise(&mut self, later: &Self) {
        self.counters = self.counters.max(&later.counters);
        self.waits += &later.waits.since(&self.waits);
    }
}

impl std::ops::AddAssign<&Figures> for Figures {
    fn add_assign(&mut self, other: &Self) {
        self.counters += &other.counters;
        self.waits += &other.waits;
    }
}
