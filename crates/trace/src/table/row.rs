//! Merges the counts of all CPUs for a key into a row.

use super::Figure;
use crate::buckets;
use crate::emit::size_of_kept;
use crate::program::{Aggregate, When};

/// The sign bit, which is inverted in stored signed extremes.
const SIGN: u64 = 1 << 63;

/// A key and the merged counts of all CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub key: Vec<u8>,
    /// Number of hits.
    pub hits: u64,
    /// The aggregates, in the program's order.
    pub kept: Vec<Merged>,
}

/// A merged aggregate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// A sum, minimum or maximum. Signed numbers are in two's complement.
    Number(u64),
    /// The hit count of each bucket of [`crate::buckets`].
    Buckets(Vec<u64>),
    /// The time of the last kept number, the number, and the words saved with it. All zeros if
    /// nothing was kept.
    Saved(Vec<u64>),
}

impl Row {
    /// Merges the rows of all CPUs. Sums wrap, as in the kernel.
    ///
    /// A CPU without hits has a row of zeros. Neither such a row nor one that is too short changes
    /// the result. Without any hit, minimum and maximum are 0.
    ///
    /// The kernel writes while the rows are read. A row can already contain the hit but not yet its
    /// number. The minimum of a single hit can then be the largest possible number.
    pub fn merge<'a>(
        key: Vec<u8>,
        per_cpu: impl Iterator<Item = &'a [u8]>,
        kept: &[Aggregate],
    ) -> Self {
        let mut hits = 0_u64;
        let mut stored: Vec<Vec<u64>> = kept
            .iter()
            .map(|what| vec![0; size_of_kept(*what) / 8])
            .collect();
        for row in per_cpu {
            let mut words = row.as_chunks().0.iter().copied().map(u64::from_ne_bytes);
            hits = hits.wrapping_add(words.next().unwrap_or(0));
            for (what, stored) in kept.iter().zip(&mut stored) {
                if let Aggregate::Saved { when, .. } = what {
                    let other: Vec<u64> = words.by_ref().take(stored.len()).collect();
                    if takes_precedence(*when, &other, stored) {
                        *stored = other;
                    }
                    continue;
                }
                for (sum, word) in stored.iter_mut().zip(&mut words) {
                    *sum = combine(*what, *sum, word);
                }
            }
        }
        let all = kept.iter().zip(stored);
        let kept = all.map(|(what, words)| decode(*what, hits, words));
        Self {
            key,
            hits,
            kept: kept.collect(),
        }
    }

    /// Adds another row with the same aggregates.
    pub(super) fn add(&mut self, other: &Self, kept: &[Aggregate]) {
        self.hits = self.hits.wrapping_add(other.hits);
        for ((what, sum), more) in kept.iter().zip(&mut self.kept).zip(&other.kept) {
            match (sum, more) {
                (Merged::Number(sum), Merged::Number(more)) => {
                    *sum = combine_merged(*what, *sum, *more);
                }
                (Merged::Buckets(sum), Merged::Buckets(more)) => {
                    for (sum, more) in sum.iter_mut().zip(more) {
                        *sum = sum.wrapping_add(*more);
                    }
                }
                (Merged::Saved(saved), Merged::Saved(other)) => {
                    if let Aggregate::Saved { when, .. } = what
                        && takes_precedence(*when, other, saved)
                    {
                        saved.clone_from(other);
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the last saved number at this index, and the words after it.
    pub(super) fn saved(&self, index: usize) -> (u64, &[u64]) {
        match self.kept.get(index) {
            Some(Merged::Saved(words)) => match words.as_slice() {
                [_, number, fields @ ..] => (*number, fields),
                _ => (0, &[]),
            },
            _ => (0, &[]),
        }
    }

    /// Returns time and value of the last saved number at this index, or `None` if there is none.
    pub(super) fn saved_at(&self, index: usize) -> Option<(u64, u64)> {
        match self.kept.get(index)? {
            Merged::Saved(words) => match words.as_slice() {
                [time, number, ..] if *time > 0 => Some((*time, *number)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns a number of the row, or 0 if the row does not have it.
    pub fn figure(&self, figure: Figure) -> u64 {
        match figure {
            Figure::Hits => self.hits,
            Figure::Kept(index) => self.number(index),
            Figure::Average { kept, signed } => average(self.number(kept), self.hits, signed),
            Figure::Percentile {
                kept,
                thousandths,
                signed,
            } => match self.kept.get(kept) {
                Some(Merged::Buckets(counts)) => percentile(counts, thousandths, signed),
                _ => 0,
            },
        }
    }

    fn number(&self, index: usize) -> u64 {
        match self.kept.get(index) {
            Some(Merged::Number(number)) => *number,
            _ => 0,
        }
    }
}

/// Whether the data saved by one CPU takes precedence over the data of another. If two maxima are
/// equal, the earlier one takes precedence, as it would on a single CPU.
fn takes_precedence(when: When, words: &[u64], other: &[u64]) -> bool {
    let [time, number, ..] = *words else {
        return false;
    };
    let [other_time, other_number, ..] = *other else {
        return true;
    };
    if time == 0 || other_time == 0 {
        return other_time == 0;
    }
    match when {
        When::Greater => (number, other_time) > (other_number, time),
        When::Other => time > other_time,
    }
}

/// Combines the values that two CPUs have stored. Minima and maxima are encoded such that the
/// larger word is always the result.
fn combine(what: Aggregate, sum: u64, word: u64) -> u64 {
    match what {
        Aggregate::Sum | Aggregate::Buckets => sum.wrapping_add(word),
        Aggregate::Minimum { .. } | Aggregate::Maximum { .. } => sum.max(word),
        // The words of this aggregate belong together and are merged elsewhere.
        Aggregate::Saved { .. } => sum,
    }
}

/// Combines an aggregate of two rows, both of which have hits.
fn combine_merged(what: Aggregate, one: u64, other: u64) -> u64 {
    let (signed, least) = match what {
        Aggregate::Sum | Aggregate::Buckets => return one.wrapping_add(other),
        Aggregate::Saved { .. } => return one,
        Aggregate::Minimum { signed } => (signed, true),
        Aggregate::Maximum { signed } => (signed, false),
    };
    let rank = |number: u64| if signed { number ^ SIGN } else { number };
    let first = (rank(one) < rank(other)) == least;
    if first { one } else { other }
}

/// Decodes the stored form of an aggregate; see `emit/table.rs`.
fn decode(what: Aggregate, hits: u64, words: Vec<u64>) -> Merged {
    let (signed, least) = match what {
        Aggregate::Buckets => return Merged::Buckets(words),
        Aggregate::Saved { .. } => return Merged::Saved(words),
        Aggregate::Sum => return Merged::Number(words.first().copied().unwrap_or(0)),
        Aggregate::Minimum { signed } => (signed, true),
        Aggregate::Maximum { signed } => (signed, false),
    };
    let stored = words.first().copied().unwrap_or(0);
    if hits == 0 {
        return Merged::Number(0);
    }
    let number = if least { !stored } else { stored };
    Merged::Number(if signed { number ^ SIGN } else { number })
}

/// Returns the sum divided by the hits, rounded towards zero. If the 64-bit sum has overflowed, the
/// result is wrong.
fn average(sum: u64, hits: u64, signed: bool) -> u64 {
    if hits == 0 {
        return 0;
    }
    if !signed {
        return sum / hits;
    }
    let hits = i64::try_from(hits).unwrap_or(i64::MAX);
    (sum.cast_signed() / hits).cast_unsigned()
}

/// Returns a percentile: the middle of the bucket that contains the number at rank `ceil(share *
/// count)`. A bucket is at most one eighth as wide as its smallest number, so the error is at most
/// one sixteenth. Numbers below 16 are exact. Negative numbers are in the buckets of the largest
/// unsigned numbers, which are too wide to tell them apart.
fn percentile(counts: &[u64], thousandths: u16, signed: bool) -> u64 {
    let counts = counts.iter().enumerate().take(buckets::COUNT);
    let all: u128 = counts.clone().map(|(_, count)| u128::from(*count)).sum();
    let rank = (all * u128::from(thousandths.min(1000)))
        .div_ceil(1000)
        .max(1);
    let is_below = |index: usize| signed && buckets::range(index).0 >= SIGN;
    let below = counts.clone().filter(|(index, _)| is_below(*index));
    let mut seen: u128 = below.map(|(_, count)| u128::from(*count)).sum();
    if seen >= rank {
        return u64::MAX;
    }
    for (index, count) in counts.filter(|(index, _)| !is_below(*index)) {
        seen += u128::from(*count);
        if seen >= rank {
            let (first, last) = buckets::range(index);
            return first + (last - first) / 2;
        }
    }
    0
}
