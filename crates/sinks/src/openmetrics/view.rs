//! When series began.

/// When a series began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Born {
    /// `CLOCK_MONOTONIC` of the first batch with the series, in nanoseconds; 0: it was there from the start.
    pub(super) began_ns: u64,
    /// When its counters were 0, in nanoseconds since 1970; 0: not known.
    pub(super) start_unix_ns: u64,
}
