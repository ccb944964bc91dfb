//! The age of segments. The wall clock can be set, and can be wrong after boot. A limit that
//! trusted a single reading could remove a whole recording, or never remove anything again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::segment::Segment;

/// The wall clock is trusted after this long without a step.
const STEADY_NS: u64 = 60_000_000_000;

/// A larger difference between the wall clock and the monotonic clock is a step.
const STEP_NS: u64 = 1_000_000_000;

/// The clocks of this run, and the times at which this run wrote its segments.
#[derive(Debug, Default)]
pub(crate) struct Ages {
    /// `CLOCK_MONOTONIC` of the first and the last batch.
    run: Option<(u64, u64)>,
    /// The first batch after the last step of the wall clock, and the last batch.
    steady: Option<(Reading, Reading)>,
    /// `CLOCK_MONOTONIC` of the last write to each segment of this run.
    written: HashMap<PathBuf, u64>,
    /// The end times of segments from earlier runs. These times do not change, so each is read only
    /// once, when it is needed.
    earlier: HashMap<PathBuf, End>,
}

/// The time at which a segment of an earlier run ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// Nanoseconds since 1970.
    At(u64),
    /// The segment has no batches and no events.
    Empty,
    /// The segment cannot be read.
    Unknown,
}

impl End {
    fn of(path: &Path) -> Self {
        let Ok(segment) = Segment::open(path) else {
            return Self::Unknown;
        };
        match segment.span().or_else(|| segment.events_span()) {
            Some((_, ended)) => Self::At(ended),
            None if segment.damages().is_empty() => Self::Empty,
            None => Self::Unknown,
        }
    }
}

/// The monotonic clock and the wall clock at one moment.
#[derive(Clone, Copy, Debug)]
struct Reading {
    taken_ns: u64,
    unix_ns: u64,
}

impl Reading {
    /// Returns whether both clocks advanced by the same amount until `later`.
    fn agrees(&self, later: &Self) -> bool {
        let taken = i128::from(later.taken_ns) - i128::from(self.taken_ns);
        let unix = i128::from(later.unix_ns) - i128::from(self.unix_ns);
        taken.abs_diff(unix) <= u128::from(STEP_NS)
    }
}

impl Ages {
    /// Records the clocks of a batch.
    pub(crate) fn observe(&mut self, taken_ns: u64, unix_ns: u64) {
        let begun = self.run.map_or(taken_ns, |(begun, _)| begun);
        self.run = Some((begun, taken_ns));
        let now = Reading { taken_ns, unix_ns };
        let since = self.steady.map(|(since, _)| since);
        let since = since.filter(|since| since.agrees(&now));
        self.steady = Some((since.unwrap_or(now), now));
    }

    /// Records that a segment was written at the last batch. Before the first batch the time is
    /// unknown, so the segment is treated like one of an earlier run.
    pub(crate) fn wrote(&mut self, segment: &Path) {
        let Some((_, now_ns)) = self.run else {
            return;
        };
        match self.written.get_mut(segment) {
            Some(at) => *at = now_ns,
            None => {
                self.written.insert(segment.to_owned(), now_ns);
            }
        }
    }

    /// Drops a segment that was removed.
    pub(crate) fn forget(&mut self, segment: &Path) {
        self.written.remove(segment);
        self.earlier.remove(segment);
    }

    /// Returns whether the first of these segments, which are in order, was last written more than
    /// `age_ns` ago.
    ///
    /// A segment of this run is dated by the monotonic clock. A segment of an earlier run is at
    /// least as old as this run, and is dated by the wall clock while the wall clock is steady. If
    /// the segment's end time is in the future or cannot be read, the segment is treated as being
    /// as old as the next one.
    pub(crate) fn is_older(&mut self, paths: &[PathBuf], age_ns: u64) -> bool {
        let (begun_ns, now_ns) = self.run.unwrap_or_default();
        let passed = |since_ns: u64| now_ns.saturating_sub(since_ns) > age_ns;
        let wall = self.steady_unix_ns();
        for (place, path) in paths.iter().enumerate() {
            if let Some(at) = self.written.get(path) {
                return passed(*at);
            }
            if passed(begun_ns) {
                return true;
            }
            let end = self.earlier.entry(path.clone());
            match (end.or_insert_with(|| End::of(path)), wall) {
                (End::Empty, _) if place == 0 => return true,
                (End::At(_), None) => return false,
                (End::At(ended), Some(now)) if *ended <= now => return now - *ended > age_ns,
                _ => {}
            }
        }
        false
    }

    /// Returns the wall clock, if it made no step for [`STEADY_NS`].
    fn steady_unix_ns(&self) -> Option<u64> {
        let (since, now) = self.steady?;
        let length = now.taken_ns.saturating_sub(since.taken_ns);
        (length >= STEADY_NS).then_some(now.unix_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const YEAR: u64 = 365 * 24 * 3600 * SECOND;

    #[test]
    fn wall_clock_is_trusted_after_a_steady_minute() {
        let mut ages = Ages::default();
        let mut steady = |from: u64, to: u64, unix: fn(u64) -> u64| {
            let seconds = from..to;
            let seen = seconds.map(|second| {
                ages.observe(second * SECOND, unix(second * SECOND));
                ages.steady_unix_ns().is_some()
            });
            seen.collect::<Vec<_>>()
        };
        let usual = |ns| 50 * YEAR + ns;
        assert_eq!(steady(0, 60, usual), [false; 60]);
        // A slewed clock deviates by less than a thousandth.
        assert_eq!(steady(60, 90, |ns| 50 * YEAR + ns + ns / 1000), [true; 30]);
        // A single wrong reading.
        assert_eq!(steady(90, 91, |ns| 90 * YEAR + ns), [false]);
        assert_eq!(steady(91, 151, usual), [false; 60]);
        assert_eq!(steady(151, 152, usual), [true]);
        // The clock is set back and stays there.
        assert_eq!(steady(152, 212, |ns| 20 * YEAR + ns), [false; 60]);
        assert_eq!(steady(212, 213, |ns| 20 * YEAR + ns), [true]);
    }
}
