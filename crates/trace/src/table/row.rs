//! Rows: what the CPUs have counted for one key, made into one.

use super::Figure;
use crate::buckets;
use crate::emit::size_of_kept;
use crate::program::{Aggregate, When};

/// The sign bit: signed extremes are stored with it turned over.
const SIGN: u64 = 1 << 63;

/// A key with what all CPUs have counted for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The bytes of the key.
    pub key: Vec<u8>,
    /// How many hits there were.
    pub hits: u64,
    /// What was kept, in the order of the program.
    pub kept: Vec<Merged>,
}

/// What was kept of a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// The sum, the least or the greatest number; two's complement where it is signed.
    Number(u64),
    /// The count of each bucket of [`crate::buckets`].
    Buckets(Vec<u64>),
    /// When a number was kept last, the number, and the words that were saved with it; all zeros if it
    /// never was.
    Saved(Vec<u64>),
}

impl Row {
    /// Makes one row of those of each CPU. Sums wrap, as the kernel's do.
    ///
    /// A CPU without a hit has a row of zeros, which changes nothing; so does one whose bytes are too
    /// few. The least number without any hit is 0, and so is the greatest.
    ///
    /// The kernel writes while the rows are read: a row may have the hit and not yet its number, so
    /// that the least one of a single hit can show as the greatest that there is.
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
                    if counts_before(*when, &other, stored) {
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
        let kept = all.map(|(what, words)| finish(*what, hits, words));
        Self {
            key,
            hits,
            kept: kept.collect(),
        }
    }

    /// Adds another row, of which the program keeps the same.
    pub(super) fn add(&mut self, other: &Self, kept: &[Aggregate]) {
        self.hits = self.hits.wrapping_add(other.hits);
        for ((what, sum), more) in kept.iter().zip(&mut self.kept).zip(&other.kept) {
            match (sum, more) {
                (Merged::Number(sum), Merged::Number(more)) => *sum = both(*what, *sum, *more),
                (Merged::Buckets(sum), Merged::Buckets(more)) => {
                    for (sum, more) in sum.iter_mut().zip(more) {
                        *sum = sum.wrapping_add(*more);
                    }
                }
                (Merged::Saved(saved), Merged::Saved(other)) => {
                    if let Aggregate::Saved { when, .. } = what
                        && counts_before(*when, other, saved)
                    {
                        saved.clone_from(other);
                    }
                }
                _ => {}
            }
        }
    }

    /// What was saved last at this index: the number, and the words behind it.
    pub(super) fn saved(&self, index: usize) -> (u64, &[u64]) {
        match self.kept.get(index) {
            Some(Merged::Saved(words)) => match words.as_slice() {
                [_, number, fields @ ..] => (*number, fields),
                _ => (0, &[]),
            },
            _ => (0, &[]),
        }
    }

    /// When a number was saved last at this index, and the number; `None`: never.
    pub(super) fn saved_at(&self, index: usize) -> Option<(u64, u64)> {
        match self.kept.get(index)? {
            Merged::Saved(words) => match words.as_slice() {
                [time, number, ..] if *time > 0 => Some((*time, *number)),
                _ => None,
            },
            _ => None,
        }
    }

    /// A number of the row; 0 if the row does not have it.
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

/// Whether what one CPU has saved counts, and not what another has. Of two equal maxima that is the
/// first one, as where one CPU finds both.
fn counts_before(when: When, words: &[u64], other: &[u64]) -> bool {
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

/// Adds what one CPU has stored. Extremes are stored so that the greatest one counts.
fn combine(what: Aggregate, sum: u64, word: u64) -> u64 {
    match what {
        Aggregate::Sum | Aggregate::Buckets => sum.wrapping_add(word),
        Aggregate::Minimum { .. } | Aggregate::Maximum { .. } => sum.max(word),
        // All of its words belong together.
        Aggregate::Saved { .. } => sum,
    }
}

/// What two rows with hits have kept of a number.
fn both(what: Aggregate, one: u64, other: u64) -> u64 {
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

/// The number of what is stored: see `emit/table.rs`.
fn finish(what: Aggregate, hits: u64, words: Vec<u64>) -> Merged {
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

/// The sum divided by the hits, rounded towards zero. The sum has 64 bits: one that has wrapped gives
/// no average.
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

/// The number of which this share of all numbers is not greater: the middle of the bucket with the
/// number at rank `ceil(share * count)`. A bucket is at most one eighth as wide as its least number, so
/// the result is off by at most one sixteenth of the exact one; numbers below 16 are exact. Signed numbers below 0
/// are in the buckets of the greatest unsigned ones, too wide to tell more of them than that.
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
