//! Places of tables that are full of rows that do not grow.

use std::hash::Hash;

use crate::IdMap;

/// Who did not grow for that long can go, while there is a place left.
const PATIENT_NS: u64 = 60_000_000_000;

/// The same when there is none.
const HURRIED_NS: u64 = 10_000_000_000;

/// Watches a bounded table of which most places are taken, and finds the rows that do not grow: they can
/// give their places to others. Nothing is kept while a quarter of the places is free.
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

impl<K: Eq + Hash, V: PartialEq> Idle<K, V> {
    /// The rows that can go now. `taken` of the places are, and the table has `rows`; it is asked at each
    /// batch, and `rows` only if somebody must go.
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
        let idle = rows().filter(same).map(|(key, _)| key).collect();
        self.watched = None;
        idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Which of rows by number can go, of a table with four places.
    fn idle(idle: &mut Idle<usize, u64>, second: u64, rows: &[u64]) -> Vec<usize> {
        let listed = || rows.iter().copied().enumerate();
        let mut found = idle.of(second * SECOND, rows.len(), 4, listed);
        found.sort_unstable();
        found
    }

    #[test]
    fn nobody_goes_while_a_quarter_is_free() {
        let mut table = Idle::default();
        for second in [0, 100, 200] {
            assert_eq!(idle(&mut table, second, &[1, 1, 1]), []);
        }
        assert!(table.watched.is_none());
    }

    #[test]
    fn who_grows_stays_and_the_others_go_when_there_is_no_place() {
        let mut table = Idle::default();
        assert_eq!(idle(&mut table, 0, &[1, 1, 1, 1]), []);
        assert_eq!(idle(&mut table, 9, &[1, 2, 1, 1]), []);
        assert_eq!(idle(&mut table, 10, &[1, 2, 1, 4]), [0, 2]);
        // From the begin again: all of them may have grown since.
        assert_eq!(idle(&mut table, 11, &[1, 2, 1, 4]), []);
        assert_eq!(idle(&mut table, 21, &[1, 2, 1, 4]), [0, 1, 2, 3]);
    }

    #[test]
    fn where_a_place_is_left_a_row_goes_after_a_minute() {
        let mut table = Idle::default();
        let rows = || (0..9).map(|key| (key, ()));
        let mut at = |second: u64| table.of(second * SECOND, 9, 10, rows).len();
        assert_eq!([at(0), at(30), at(59), at(60)], [0, 0, 0, 9]);
    }

    #[test]
    fn who_came_later_was_not_watched_and_stays() {
        let mut table = Idle::default();
        assert_eq!(idle(&mut table, 0, &[1, 1, 1, 1]), []);
        assert_eq!(idle(&mut table, 10, &[1, 1, 1, 1, 1]), [0, 1, 2, 3]);
    }
}
