//! Counts of events by name.

use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    pub(crate) fn add(&mut self, name: &'static str, count: u64) {
        *self.0.entry(name).or_default() += count;
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        other
            .0
            .iter()
            .for_each(|(name, count)| self.add(name, *count));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn sum(&self) -> u64 {
        self.0.values().sum()
    }

    /// Returns the counts in the format of a gap record.
    pub(crate) fn list(&self) -> Vec<(&'static str, u64)> {
        self.0.iter().map(|(name, count)| (*name, *count)).collect()
    }
}
