//! Counts lost events for each kind of event.

use std::collections::BTreeMap;

use noctule_model::{Event, What};

/// The number of lost events for each value of `event.name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    counts: BTreeMap<&'static str, u64>,
    here: u64,
    /// Start of the time in which the agent did not run, until the first event of this run.
    since_unix_ns: Option<u64>,
}

impl Tally {
    /// Creates the gap that follows the last event of a reopened file.
    pub(super) fn since(unix_ns: Option<u64>) -> Self {
        Self {
            since_unix_ns: unix_ns,
            ..Self::default()
        }
    }

    /// Returns whether the gap includes time in which the agent did not run.
    pub(super) fn has_time(&self) -> bool {
        self.since_unix_ns.is_some()
    }

    /// Counts an event that did not reach the file. A gap record is not itself counted. The losses
    /// in it are added, but are not counted as lost here.
    pub(super) fn add(&mut self, event: &Event) {
        match &event.what {
            What::Gap {
                lost,
                since_unix_ns,
            } => {
                self.since_unix_ns = self.since_unix_ns.or(*since_unix_ns);
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
        self.since_unix_ns = self.since_unix_ns.or(other.since_unix_ns);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty() && self.since_unix_ns.is_none()
    }

    /// Returns the number of events lost on the way to the file.
    pub(super) fn here(&self) -> u64 {
        self.here
    }

    /// Returns the gap record that reports the losses.
    pub(super) fn gap(&self) -> What {
        What::Gap {
            lost: self.counts.iter().map(|(name, n)| (*name, *n)).collect(),
            since_unix_ns: self.since_unix_ns,
        }
    }
}
