//! Finds idle rows in tables that are nearly full.

use std::hash::Hash;

use crate::IdMap;

/// Idle time after which a row can be evicted while the table has free rows.
const PATIENT_NS: u64 = 60_000_000_000;

/// Idle time after which a row can be evicted from a full table.
const HURRIED_NS: u64 = 10_000_000_000;

/// Maximum number of rows evicted at a time, because each costs the table's owner some
/// microseconds.
const MOST: usize = 8192;

/// Watches a bounded table that is more than three quarters full, and finds rows that do not grow.
/// Idle rows can be evicted, smallest first, until half of the table is free. Rows are not tracked
/// while at least a quarter of the table is free.
#[derive(Debug)]
pub struct Idle<K, V> {
    watched: Option<Watched<K, V>>,
}

#[derive(Debug)]
struct Watched<K, V> {
    since_ns: u64,
    rows: IdMap<K, V>,
}

impl<K, V> Default for Idle<K, V> {
    fn default() -> Self {
        Self { watched: None }
    }
}

impl<K: Eq + Hash, V: Ord> Idle<K, V> {
    /// Returns the rows that can be evicted now. `taken` is the number of used rows. The method
    /// must be called for each batch; it calls `rows` only if rows must be evicted.
    pub fn of<I: Iterator<Item = (K, V)>>(
        &mut self,
        now_ns: u64,
        taken: usize,
        places: usize,
        rows: impl FnOnce() -> I,
    ) -> Vec<K> {
        if 4 * taken <= 3 * places {
            self.watched = None;
            return Vec::new();
        }
        let Some(watched) = &self.watched else {
            self.watched = Some(Watched {
                since_ns: now_ns,
                rows: rows().collect(),
            });
            return Vec::new();
        };
        let enough = if taken < places {
            PATIENT_NS
        } else {
            HURRIED_NS
        };
        if now_ns.saturating_sub(watched.since_ns) < enough {
            return Vec::new();
        }
        let same = |(key, value): &(K, V)| watched.rows.get(key) == Some(value);
        let mut idle: Vec<(K, V)> = rows().filter(same).collect();
        idle.sort_unstable_by(|(_, a), (_, b)| a.cmp(b));
        idle.truncate(MOST.min(taken - places / 2));
        self.watched = None;
        idle.into_iter().map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Returns the numbers of the rows to evict from a table with a capacity of six rows.
    fn idle(idle: &mut Idle<usize, u64>, second: u64, rows: &[u64]) -> Vec<usize> {
        let listed = || rows.iter().copied().enumerate();
        idle.of(second * SECOND, rows.len(), 6, listed)
    }

    #[test]
    fn no_row_is_evicted_while_a_quarter_is_free() {
        let mut table = Idle::default();
        for second in [0, 100, 200] {
            assert_eq!(idle(&mut table, second, &[1, 1, 1, 1]), []);
        }
        assert!(table.watched.is_none());
    }

    #[test]
    fn idle_rows_are_evicted_from_a_full_table() {
        let mut table = Idle::default();
        assert_eq!(idle(&mut table, 0, &[7, 1, 5, 1, 9, 3]), []);
        assert_eq!(idle(&mut table, 9, &[7, 2, 5, 1, 9, 3]), []);
        // The larger half of the rows is kept.
        assert_eq!(idle(&mut table, 10, &[7, 2, 5, 4, 9, 3]), [5, 2, 0]);
        // Tracking starts again, because all rows may have grown since.
        let all = [7, 2, 5, 4, 9, 3];
        assert_eq!(idle(&mut table, 11, &all), []);
        assert_eq!(idle(&mut table, 21, &all), [1, 5, 3]);
    }

    #[test]
    fn idle_row_is_evicted_after_a_minute_with_free_places() {
        let mut table = Idle::default();
        let rows = || (0..9).map(|key| (key, ()));
        let mut at = |second: u64| table.of(second * SECOND, 9, 10, rows).len();
        assert_eq!([at(0), at(30), at(59), at(60)], [0, 0, 0, 4]);
    }

    #[test]
    fn new_row_is_not_evicted_as_idle() {
        let mut table = Idle::default();
        assert_eq!(idle(&mut table, 0, &[1; 5]), []);
        let mut found = idle(&mut table, 60, &[1, 1, 1, 1, 1, 0]);
        found.sort_unstable();
        assert_eq!(found.len(), 3);
        assert!(!found.contains(&5), "{found:?}");
    }
}
