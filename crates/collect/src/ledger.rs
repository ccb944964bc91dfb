//! Sums that outlive the rows of the kernel side.
//!
//! When a group is removed, its figures are settled here before its row is deleted. After some time
//! the group is retired, and its figures move to a sum without a name.

use std::hash::Hash;
use std::ops::AddAssign;
use std::time::Duration;

use noctule_model::{IdMap, shrink_sparse};

/// Sums by key that include deleted rows of the kernel side.
pub(crate) struct Ledger<K, T> {
    rows: IdMap<K, Row<T>>,
}

#[derive(Default)]
pub(crate) struct Row<T> {
    /// Sum of the kernel side's rows that were deleted.
    pub(crate) settled: T,
    /// The current row of the kernel side.
    pub(crate) row: T,
}

impl<T: Default + Clone + for<'a> AddAssign<&'a T>> Row<T> {
    /// Returns the sum since the start.
    pub(crate) fn total(&self) -> T {
        let mut total = self.settled.clone();
        total += &self.row;
        total
    }

    /// Handles the deletion of the kernel side's row. The next row begins at 0.
    pub(crate) fn settle(&mut self) {
        let row = std::mem::take(&mut self.row);
        self.settled += &row;
    }
}

impl<K: Hash + Eq, T: Default + Clone + for<'a> AddAssign<&'a T>> Ledger<K, T> {
    pub(crate) fn new() -> Self {
        Self {
            rows: IdMap::default(),
        }
    }

    /// Returns the row of this key, creating it if necessary.
    pub(crate) fn row(&mut self, key: K) -> &mut Row<T> {
        self.rows.entry(key).or_default()
    }

    /// Settles the row of this key, if there is one.
    pub(crate) fn settle(&mut self, key: &K) {
        if let Some(row) = self.rows.get_mut(key) {
            row.settle();
        }
    }

    /// Returns the row of this key, if there is one.
    pub(crate) fn get(&self, key: &K) -> Option<&Row<T>> {
        self.rows.get(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &Row<T>)> {
        self.rows.iter()
    }

    /// Removes a key and returns its total.
    pub(crate) fn remove(&mut self, key: &K) -> T {
        let row = self.rows.remove(key);
        row.map_or_else(T::default, |row| row.total())
    }

    /// Removes each key for which `gone` returns `true`, and passes its total to `keep`.
    pub(crate) fn retire(&mut self, gone: impl Fn(&K) -> bool, mut keep: impl FnMut(&K, T)) {
        self.rows.retain(|key, row| {
            let goes = gone(key);
            if goes {
                keep(key, row.total());
            }
            !goes
        });
        shrink_sparse(&mut self.rows);
    }
}

/// Groups that were released, and when. The ids of released groups are not reused, but late figures
/// may still refer to them.
pub(crate) struct Released<K> {
    grace_ns: u64,
    at: IdMap<K, u64>,
}

impl<K: Hash + Eq> Released<K> {
    /// Creates an empty list. A group is retired `grace` after its release.
    pub(crate) fn new(grace: Duration) -> Self {
        Self {
            grace_ns: grace.as_nanos() as u64,
            at: IdMap::default(),
        }
    }

    pub(crate) fn note(&mut self, key: K, now_ns: u64) {
        self.at.entry(key).or_insert(now_ns);
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.at.contains_key(key)
    }

    /// Returns whether the grace period of a group has ended.
    pub(crate) fn is_over(&self, key: &K, now_ns: u64) -> bool {
        let at = self.at.get(key);
        at.is_some_and(|at| now_ns.saturating_sub(*at) > self.grace_ns)
    }

    /// Returns whether the grace period of any group has ended.
    pub(crate) fn any_over(&self, now_ns: u64) -> bool {
        let over = |at: &u64| now_ns.saturating_sub(*at) > self.grace_ns;
        self.at.values().any(over)
    }

    /// Drops the groups whose release is longer ago than both `after_ns` and the grace period.
    pub(crate) fn forget(&mut self, now_ns: u64, after_ns: u64) {
        let after = after_ns.max(self.grace_ns);
        self.at.retain(|_, at| now_ns.saturating_sub(*at) <= after);
        shrink_sparse(&mut self.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recreated_row_continues_its_total() {
        let mut ledger: Ledger<u32, u64> = Ledger::new();
        ledger.row(1).row = 5;
        ledger.settle(&1);
        ledger.settle(&2);
        ledger.row(1).row = 3;
        assert_eq!(ledger.row(1).total(), 8);
        let mut retired = 0;
        ledger.retire(|key| *key == 1, |_, total| retired += total);
        assert_eq!(retired, 8);
        assert_eq!(ledger.iter().count(), 0);
        assert_eq!(ledger.remove(&1), 0);
    }

    #[test]
    fn release_ends_after_the_grace_period() {
        let mut released = Released::new(Duration::from_nanos(10));
        released.note(1, 100);
        released.note(1, 105);
        let over = |r: &Released<i32>, now| (r.is_over(&1, now), r.any_over(now));
        assert_eq!(over(&released, 110), (false, false));
        assert_eq!(over(&released, 111), (true, true));
        released.forget(150, 50);
        assert!(released.contains(&1));
        released.forget(151, 50);
        assert!(!released.contains(&1));
    }
}
