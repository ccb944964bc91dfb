//! How many events were lost, by name.

use std::collections::BTreeMap;

use noctule_model::{Event, What};

/// Counts by name of the event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    counts: BTreeMap<&'static str, u64>,
    here: u64,
    /// The agent did not run from then on, up to the first event of this run.
    since_unix_ns: Option<u64>,
}

impl Tally {
    /// What a file lacks that ends at that time, when it is opened again.
    pub(super) fn since(unix_ns: Option<u64>) -> Self {
        Self {
            since_unix_ns: unix_ns,
            ..Self::default()
        }
    }

    /// Whether it has a time in which nobody watched.
    pub(super) fn has_time(&self) -> bool {
        self.since_unix_ns.is_some()
    }

    /// Counts an event that does not reach the file. A gap is no event: the losses that it reports are passed
    /// on, and was counted where it was lost.
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

    /// Events that were lost on the way to the file, and not before.
    pub(super) fn here(&self) -> u64 {
        self.here
    }

    /// The gap record that reports them.
    pub(super) fn gap(&self) -> What {
        What::Gap {
            lost: self.counts.iter().map(|(name, n)| (*name, *n)).collect(),
            since_unix_ns: self.since_unix_ns,
        }
    }
}
