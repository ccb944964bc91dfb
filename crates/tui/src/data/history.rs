//! The last minute of each row.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use noctule_model::IdMap;

use crate::data::level::Key;

/// Number of windows to keep: one minute at the default interval of one second.
pub(crate) const LENGTH: usize = 60;

/// Returns the largest column count up to `room` that gives each column the same number of the
/// [`LENGTH`] windows.
pub(crate) fn columns(room: usize) -> usize {
    match room {
        0 => 0,
        _ => LENGTH.div_ceil(LENGTH.div_ceil(room)),
    }
}

/// Returns the column in which to draw the window at `place`. `newest` is the sequence number of
/// the batch that ends the newest window. The limits of a column depend only on window numbers, so
/// the graph scrolls without flicker. A replayed recording therefore looks the same, no matter
/// where the replay started.
pub(crate) fn column(newest: u64, place: usize, columns: usize) -> Option<usize> {
    if columns == 0 {
        return None;
    }
    let per_column = LENGTH.div_ceil(columns) as u64;
    // One extra minute keeps the subtraction below positive.
    let newest = newest + LENGTH as u64;
    let back = newest / per_column - (newest - (LENGTH - 1 - place) as u64) / per_column;
    columns.checked_sub(1 + back as usize)
}

/// CPU use of each row over the last [`LENGTH`] windows, in CPUs.
///
/// The size is bounded by the listed rows and the rows that were active within that time. Processes
/// that began and ended within one window are ignored, so that many short processes do not use
/// memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// Every listed row. A listed row counts as idle until it uses something.
    there: Arc<IdMap<Key, There>>,
    /// Number of windows recorded.
    tick: u64,
    /// Sequence number of the newest window.
    newest: u64,
    series: HashMap<Key, Series>,
}

/// The ticks at which a row was first and last listed. Tick 0 means before the first window.
#[derive(Clone, Copy, Debug)]
struct There {
    since: u64,
    seen: u64,
}

/// CPU use of one row in one window.
#[derive(Debug)]
pub(crate) struct Used {
    /// The row.
    pub(crate) key: Key,
    /// CPU time divided by elapsed time.
    pub(crate) cpus: f32,
    /// Whether the row ended and cannot return.
    pub(crate) ended: bool,
}

#[derive(Clone, Debug, Default)]
struct Series {
    /// One value per tick. The last value belongs to the tick `last`.
    values: VecDeque<f32>,
    last: u64,
}

impl Series {
    /// Creates a series of zeros for the ticks after `since` up to `until`.
    fn idle(since: u64, until: u64) -> Self {
        let windows = until.saturating_sub(since).min(LENGTH as u64);
        Self {
            values: (0..windows).map(|_| 0.0).collect(),
            last: until,
        }
    }

    fn push(&mut self, tick: u64, value: f32) {
        let missed = tick.saturating_sub(self.last + 1).min(LENGTH as u64);
        if !self.values.is_empty() {
            self.values.extend((0..missed).map(|_| 0.0));
        }
        self.values.push_back(value);
        let surplus = self.values.len().saturating_sub(LENGTH);
        self.values.drain(..surplus);
        self.last = tick;
    }

    /// Returns the value of each of the last [`LENGTH`] ticks up to `tick`, oldest first.
    fn until(&self, tick: u64) -> impl Iterator<Item = Option<f32>> {
        let idle = tick.saturating_sub(self.last) as usize;
        let known = self.values.len() + idle;
        (0..LENGTH).map(move |i| {
            let from_start = (known + i).checked_sub(LENGTH)?;
            Some(self.values.get(from_start).copied().unwrap_or(0.0))
        })
    }
}

impl History {
    /// Records the rows that exist after the newest window, or before the first. A row may appear
    /// several times.
    pub(crate) fn keep(&mut self, there: impl IntoIterator<Item = Key>) {
        let tick = self.tick;
        let known = Arc::make_mut(&mut self.there);
        for key in there {
            let new = There {
                since: tick,
                seen: tick,
            };
            known.entry(key).or_insert(new).seen = tick;
        }
        known.retain(|_, row| row.seen == tick);
        known.shrink_to(2 * known.len());
    }

    /// Adds the window that the batch with the number `sequence` ends, with the rows that were
    /// active in it. A missing row was idle.
    pub(crate) fn record(&mut self, sequence: u64, rows: impl IntoIterator<Item = Used>) {
        self.tick += 1;
        self.newest = sequence;
        let tick = self.tick;
        for Used { key, cpus, ended } in rows {
            if let Some(there) = self.there.get(&key) {
                let idle = || Series::idle(there.since, tick - 1);
                self.series.entry(key).or_insert_with(idle).push(tick, cpus);
            } else if !ended {
                self.series.entry(key).or_default().push(tick, cpus);
            } else if let Some(series) = self.series.get_mut(&key) {
                series.push(tick, cpus);
            }
        }
        self.series
            .retain(|_, series| tick - series.last < LENGTH as u64);
    }

    /// Returns whether the row used CPU time within the last minute.
    pub(crate) fn was_active(&self, key: &Key) -> bool {
        self.series.contains_key(key)
    }

    /// Returns the sum of the rows over the last minute, oldest first. A window before the first
    /// row was seen is `None`.
    pub(crate) fn minute<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Key>,
    ) -> [Option<f32>; LENGTH] {
        let mut sum = [None; LENGTH];
        for series in keys.into_iter().filter_map(|key| self.series.get(key)) {
            for (sum, value) in sum.iter_mut().zip(series.until(self.tick)) {
                if let Some(value) = value {
                    *sum = Some(sum.unwrap_or(0.0) + value);
                }
            }
        }
        sum
    }

    /// Returns the average of the row over the last minute, or since the first window. Time before
    /// the row appeared counts as idle, so that a burst that just began does not rank highest.
    pub(crate) fn mean(&self, key: &Key) -> f32 {
        let windows = self.tick.clamp(1, LENGTH as u64);
        let sum: f32 = self
            .series
            .get(key)
            .map_or(0.0, |s| s.until(self.tick).flatten().sum());
        sum / windows as f32
    }

    /// Averages a minute into `columns` columns.
    pub(crate) fn squeeze(
        &self,
        minute: &[Option<f32>; LENGTH],
        columns: usize,
    ) -> Vec<Option<f32>> {
        if columns == 0 {
            return Vec::new();
        }
        let mut cells = vec![(0.0, 0_u32); columns];
        for (i, value) in minute.iter().enumerate() {
            if let (Some(cell), Some(value)) = (column(self.newest, i, columns), value) {
                cells[cell].0 += value;
                cells[cell].1 += 1;
            }
        }
        let average = |(sum, count): (f32, u32)| (count > 0).then(|| sum / count as f32);
        cells.into_iter().map(average).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::Path(name.into())
    }

    fn record<const N: usize>(history: &mut History, rows: [(Key, f32); N]) {
        let rows = rows.map(|(key, cpus)| Used {
            key,
            cpus,
            ended: false,
        });
        history.record(history.newest + 1, rows);
    }

    fn known(history: &History, name: &str) -> Vec<f32> {
        let minute = history.minute([&key(name)]);
        minute.into_iter().flatten().collect()
    }

    #[test]
    fn a_missing_row_counts_as_idle() {
        let mut history = History::default();
        record(&mut history, [(key("a"), 1.0)]);
        record(&mut history, []);
        record(&mut history, [(key("a"), 3.0)]);
        record(&mut history, []);
        assert_eq!(known(&history, "a"), [1.0, 0.0, 3.0, 0.0]);
        assert_eq!(history.mean(&key("a")), 1.0);
        assert_eq!(history.minute([&key("a")])[..56], [None; 56]);
    }

    #[test]
    fn minute_looks_the_same_wherever_reading_began() {
        for begin in 1..=6 {
            let (mut whole, mut part) = (History::default(), History::default());
            part.newest = begin;
            for window in 1..=100_u64 {
                let value = (window * 37 % 101) as f32;
                record(&mut whole, [(key("a"), value)]);
                if window > begin {
                    record(&mut part, [(key("a"), value)]);
                }
                let drawn = |history: &History| history.squeeze(&history.minute([&key("a")]), 20);
                if window >= begin + LENGTH as u64 {
                    assert_eq!(drawn(&part), drawn(&whole), "{begin} {window}");
                }
            }
        }
    }

    #[test]
    fn listed_rows_count_as_idle_until_first_use() {
        let mut history = History::default();
        history.keep([key("a"), key("ends")]);
        record(&mut history, []);
        record(&mut history, []);
        record(&mut history, [(key("a"), 3.0), (key("new"), 1.0)]);
        assert_eq!(known(&history, "a"), [0.0, 0.0, 3.0]);
        assert_eq!(known(&history, "new"), [1.0]);
        let used = Used {
            key: key("ends"),
            cpus: 2.0,
            ended: true,
        };
        history.record(4, [used]);
        assert_eq!(known(&history, "ends"), [0.0, 0.0, 0.0, 2.0]);
        for _ in 0..200 {
            record(&mut history, []);
        }
        assert!(!history.was_active(&key("a")));
        record(&mut history, [(key("a"), 1.0)]);
        let mut minute = [0.0; LENGTH];
        minute[LENGTH - 1] = 1.0;
        assert_eq!(known(&history, "a"), minute);
    }

    #[test]
    fn row_idle_for_a_minute_keeps_its_history() {
        let mut history = History::default();
        history.keep([]);
        for window in 1..=100 {
            let used = (window == 10).then(|| Used {
                key: key("a"),
                cpus: 1.0,
                ended: false,
            });
            history.record(window, used);
            // Row a appears at window 10 and row b at window 90. Both are idle.
            let there = [("a", 10), ("b", 90)].into_iter();
            let there = there.filter(|(_, since)| *since <= window);
            history.keep(there.map(|(name, _)| key(name)));
        }
        assert!(!history.was_active(&key("a")));
        record(&mut history, [(key("a"), 1.0), (key("b"), 1.0)]);
        assert_eq!(known(&history, "a").len(), LENGTH);
        assert_eq!(known(&history, "a")[LENGTH - 2..], [0.0, 1.0]);
        assert_eq!(known(&history, "b").len(), 11);
        // Row a disappears, and another row gets its name.
        history.keep([]);
        for _ in 0..2 * LENGTH {
            record(&mut history, []);
        }
        record(&mut history, [(key("a"), 1.0)]);
        assert_eq!(known(&history, "a"), [1.0]);
    }

    #[test]
    fn keys_are_dropped_after_a_minute_and_lengths_are_bounded() {
        let mut history = History::default();
        record(&mut history, [(key("a"), 1.0), (key("b"), 1.0)]);
        for _ in 0..200 {
            record(&mut history, [(key("b"), 2.0)]);
        }
        assert!(!history.was_active(&key("a")));
        assert_eq!(known(&history, "b"), [2.0; LENGTH]);
        assert_eq!(history.series.len(), 1);
        assert_eq!(history.series[&key("b")].values.len(), LENGTH);
    }

    #[test]
    fn ended_row_is_recorded_only_if_listed_before() {
        let mut history = History::default();
        record(&mut history, [(key("a"), 1.0)]);
        history.record(
            history.newest + 1,
            ["a", "b"].map(|name| Used {
                key: key(name),
                cpus: 2.0,
                ended: true,
            }),
        );
        assert_eq!(known(&history, "a"), [1.0, 2.0]);
        assert!(!history.was_active(&key("b")));
    }

    #[test]
    fn sums_add_up_rows_of_different_age() {
        let mut history = History::default();
        record(&mut history, [(key("a"), 1.0)]);
        record(&mut history, [(key("a"), 1.0), (key("b"), 2.0)]);
        let minute = history.minute([&key("a"), &key("b")]);
        assert_eq!(minute[58..], [Some(1.0), Some(3.0)]);
    }

    #[test]
    fn squeezing_keeps_the_newest_at_the_right_and_never_panics() {
        let mut history = History::default();
        for tick in 0..130 {
            record(&mut history, [(key("a"), tick as f32)]);
            let minute = history.minute([&key("a")]);
            for columns in 0..70 {
                let cells = history.squeeze(&minute, columns);
                assert_eq!(cells.len(), columns);
                if let Some(last) = cells.last() {
                    assert!(last.is_some());
                }
            }
            assert_eq!(history.squeeze(&minute, LENGTH), minute);
        }
    }
}
