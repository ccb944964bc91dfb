//! What a reader gets of series that it has not seen before.

/// Longest time for which a series counts as new, in nanoseconds. Prometheus looks back as far by default: a reader
/// that was away for longer would take the past of the series for growth of its last interval.
pub(super) const YOUNG_NS: u64 = 300_000_000_000;

/// When a series began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Born {
    /// `CLOCK_MONOTONIC` of the first batch with the series, in nanoseconds; 0: it was there from the start.
    pub(super) began_ns: u64,
    /// When its counters were 0, in nanoseconds since 1970; 0: not known.
    pub(super) start_unix_ns: u64,
}

/// How a reader sees counters and histograms of new series. `increase()` and `rate()` of Prometheus count only the
/// difference of two samples, so a reader gets each new series at 0 first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// Each series with its value.
    #[default]
    Complete,
    /// Series that began after this moment of `CLOCK_MONOTONIC` are new to the reader. The moment is that of the batch
    /// that the reader saw last, in nanoseconds.
    Since(u64),
}

impl View {
    /// Whether a series is new to the reader of a batch that was taken at that moment.
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
    fn a_series_is_new_to_readers_that_looked_last_before_it_began() {
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
