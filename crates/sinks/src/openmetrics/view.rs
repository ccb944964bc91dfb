//! How a reader sees series that are new to it.

/// Longest time for which a series counts as new, in nanoseconds. It equals Prometheus' default
/// lookback. A reader that was away for longer would otherwise count earlier growth of the series
/// as growth in its last interval.
pub(super) const YOUNG_NS: u64 = 300_000_000_000;

/// When a series began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Born {
    /// Time of the first batch that contains the series, in nanoseconds of `CLOCK_MONOTONIC`; 0 if
    /// the series existed from the start.
    pub(super) began_ns: u64,
    /// When the series' counters were 0, in nanoseconds since 1970; 0 if unknown.
    pub(super) start_unix_ns: u64,
}

/// How a reader sees counters and histograms of new series. Prometheus' `increase()` and `rate()`
/// use the difference of two samples, so a reader must first receive each new series with the value
/// 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// Shows each series with its value.
    #[default]
    Complete,
    /// Treats series as new if they began after this time, in nanoseconds of `CLOCK_MONOTONIC`.
    /// This is the time of the last batch that the reader has seen.
    Since(u64),
}

impl View {
    /// Returns whether a series is new to the reader of a batch taken at `taken_ns`.
    pub(super) fn is_new(self, born: Born, taken_ns: u64) -> bool {
        let Self::Since(seen_ns) = self else {
            return false;
        };
        born.began_ns > seen_ns && taken_ns.saturating_sub(born.began_ns) <= YOUNG_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_is_new_to_readers_that_scraped_before_it_began() {
        const SECOND: u64 = 1_000_000_000;
        let is_new = |view: View, began: u64, taken: u64| {
            let born = Born {
                began_ns: began * SECOND,
                start_unix_ns: 1,
            };
            view.is_new(born, taken * SECOND)
        };
        let since = |seconds| View::Since(seconds * SECOND);
        assert!(is_new(since(9), 10, 12));
        assert!(!is_new(since(10), 10, 12), "it was in the last page");
        assert!(!is_new(View::Complete, 10, 12));
        assert!(is_new(since(9), 10, 310));
        assert!(!is_new(since(9), 10, 311), "the reader has a gap");
    }
}
