//! Which readers there are, and up to when each of them has seen the series.

use super::view::{Born, View};

/// Readers of the series. A pair that loses its place keeps what a reader has seen of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Scrapes of `/metrics`.
    Scrapes,
    /// The receiver of OTLP.
    Receiver,
}

impl Reader {
    /// All readers.
    pub const ALL: [Self; 2] = [Self::Scrapes, Self::Receiver];
}

/// When the figures were taken that each reader saw last, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen(Option<[u64; Reader::ALL.len()]>);

impl Seen {
    pub(super) fn note(&mut self, reader: Reader, taken_ns: u64) {
        self.0.get_or_insert_default()[reader as usize] = taken_ns;
    }

    /// Whether the reader has seen a series only at 0 so far, when it sees the batch that was taken at that moment.
    pub(super) fn sees_zero(self, reader: Reader, born: Born, taken_ns: u64) -> bool {
        let view = self
            .0
            .map_or(View::Complete, |seen| View::Since(seen[reader as usize]));
        view.is_new(born, taken_ns)
    }

    /// Whether it is known of any reader what it has seen.
    pub(super) fn is_known(self) -> bool {
        self.0.is_some()
    }
}
