//! How many events were lost, by name.

use std::collections::BTreeMap;

use noctule_model::{Event, What};

/// Counts by name of the event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    counts: BTreeMap<&'static str, u64>,
    here: u64,
}

impl Tally {
    /// Counts an event that does not reach the file. A gap is no event: what it told of is passed
    /// on, and was counted where it was lost.
    pub(super) fn add(&mut self, event: &Event) {
        match &event.what {
            What::Gap { lost } => {
                for (name, count) in lost {
                    *self.counts.entry(name).or_default() += count;
                }
            }
            what => {
                *self.counts.entry(what.name()).or_default() += 1;
                self.here += 1;
            }
        }
    }

    pub(super) fn append(&mut self, other: &Self) {
        for (name, count) in &other.counts {
            *self.counts.entry(name).or_default() += count;
        }
        self.here += other.here;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Events that were lost on the way to the file, and not before.
    pub(super) fn here(&self) -> u64 {
        self.here
    }

    /// The event that tells of them.
    pub(super) fn gap(&self) -> What {
        What::Gap {
            lost: self.counts.iter().map(|(name, n)| (*name, *n)).collect(),
        }
    }
}
