//! Who reads the series, and what each of them has seen.

use std::ops::BitOr;

/// Who reads what the exporter shows. Each sees a new counter of events at 0 first, whatever the other has
/// seen: who sees it only later has no rate of what happened in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Scrapes of `/metrics`, whoever makes them.
    Scrapes,
    /// The receiver of OTLP.
    Receiver,
}

impl Reader {
    /// Each of them.
    pub const ALL: [Self; 2] = [Self::Scrapes, Self::Receiver];
}

/// How long a series can begin at 0, in nanoseconds. As far back Prometheus looks for a sample by default: who has not
/// looked for longer has a gap, and would take what happened in it for what happens now.
const YOUNG_NS: u64 = 300_000_000_000;

/// When the figures were taken that each reader saw last, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seen([u64; Reader::ALL.len()]);

/// Nobody says what readers have seen: nothing is held back.
impl Default for Seen {
    fn default() -> Self {
        Self([u64::MAX; Reader::ALL.len()])
    }
}

impl Seen {
    pub(super) fn note(&mut self, reader: Reader, taken_ns: u64) {
        self.0[reader as usize] = taken_ns;
    }

    /// Who has not seen a series that began then, if it is young `at` the batch that is shown.
    pub(super) fn lacks(self, began_ns: u64, at: u64) -> Unseen {
        let is_young = at.saturating_sub(began_ns) <= YOUNG_NS;
        Unseen(self.0.map(|seen_ns| is_young && began_ns > seen_ns))
    }

    /// Whether it is known of any reader what it has seen.
    pub(super) fn is_known(self) -> bool {
        self != Self::default()
    }
}

/// The readers that have not seen something yet: it begins at 0 for them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unseen([bool; Reader::ALL.len()]);

impl Unseen {
    /// `None`: whoever reads it gets nothing after it, and so all that there is.
    pub(super) fn by(self, reader: Option<Reader>) -> bool {
        reader.is_some_and(|reader| self.0[reader as usize])
    }
}

impl BitOr for Unseen {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] || other.0[at]))
    }
}
