//! Counters of one kind as an object, with one key per counter.

use noctule_model::{Counts, Measurable, Measured};
use serde::{Serialize, Serializer};

/// The measured counters in declaration order, including those that are 0.
#[derive(Default)]
pub(super) struct ByName(Vec<(&'static str, u64)>);

impl ByName {
    pub(super) fn new<K: Measurable, const N: usize>(
        parts: impl IntoIterator<Item = (&'static str, K)>,
        counts: &Counts<K, N>,
        measured: Measured,
    ) -> Self {
        let part = |(name, counter)| Some((name, measured.value(counts, counter)?));
        Self(parts.into_iter().filter_map(part).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for ByName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}
