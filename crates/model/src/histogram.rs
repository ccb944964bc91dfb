//! Log-linear histograms, in the format of the kernel side.

use std::collections::BTreeMap;

use crate::Cumulative;

/// Counts of values in log-linear buckets: 16 of width 1, then 8 for each power of two. A value is
/// reported as the middle of its bucket, with an error of at most 1/16. Values of 2^40 or more are
/// in the last bucket. Histograms of several nodes can be added up.
///
/// Empty buckets take no memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Bucket and count, in ascending order; no count is 0.
    counts: Vec<(u16, u64)>,
}

impl Histogram {
    /// Log2 of the number of buckets for each power of two.
    pub const BITS: u32 = 3;
    /// Values of 2^40 or more (18 minutes in nanoseconds) are in the last bucket.
    pub const MAX_BITS: u32 = 40;
    /// Number of buckets.
    pub const BUCKETS: usize = ((Self::MAX_BITS - Self::BITS + 1) << Self::BITS) as usize;

    /// Creates a histogram from the count of each bucket, in order.
    pub fn from_counts(counts: impl IntoIterator<Item = u64>) -> Self {
        let counts = (0..).zip(counts).filter(|(_, count)| *count > 0).collect();
        Self { counts }
    }

    /// Creates a histogram from pairs of a value and a count; each value selects its bucket. This
    /// is the inverse of [`Self::buckets`].
    pub fn from_buckets(buckets: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut counts: BTreeMap<u16, u64> = BTreeMap::new();
        for (value, count) in buckets.into_iter().filter(|(_, count)| *count > 0) {
            let sum = counts.entry(Self::bucket(value) as u16).or_default();
            *sum = sum.saturating_add(count);
        }
        let counts = counts.into_iter().collect();
        Self { counts }
    }

    /// Updates the counts from 32-bit counters, which wrap around, and which started at 0 together
    /// with this histogram. No counter may grow by 2^32 or more between two calls.
    pub fn follow(&mut self, wrapping: &[u32]) {
        let mut at = 0;
        for (bucket, &now) in (0..).zip(wrapping) {
            match self.counts.get_mut(at) {
                // The counter on the kernel side is truncated to 32 bits in the same way.
                Some((b, count)) if *b == bucket => {
                    *count += u64::from(now.wrapping_sub(*count as u32));
                }
                _ if now > 0 => self.counts.insert(at, (bucket, now.into())),
                _ => continue,
            }
            at += 1;
        }
    }

    pub const fn bucket(value: u64) -> usize {
        if value >> Self::MAX_BITS != 0 {
            return Self::BUCKETS - 1;
        }
        if value >> (Self::BITS + 1) == 0 {
            return value as usize;
        }
        let shift = 63 - value.leading_zeros() - Self::BITS;
        ((shift << Self::BITS) + (value >> shift) as u32) as usize
    }

    /// Returns the smallest value of a bucket. For an index after the last bucket, returns the
    /// upper end of the last bucket.
    pub const fn lower_bound(bucket: usize) -> u64 {
        let per_power = 1 << Self::BITS;
        if bucket < 2 * per_power {
            return bucket as u64;
        }
        let shift = bucket / per_power - 1;
        ((bucket - shift * per_power) as u64) << shift
    }

    /// Returns the middle of a bucket, which represents its values.
    const fn middle(bucket: u16) -> u64 {
        let (low, high) = (
            Self::lower_bound(bucket as usize),
            Self::lower_bound(bucket as usize + 1),
        );
        low + (high - low) / 2
    }

    /// Returns whether the histogram has no values.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    /// Returns the exact number of values below 2^`bits`.
    pub fn count_below_power(&self, bits: u32) -> u64 {
        let end = Self::bucket(1 << bits.min(Self::MAX_BITS - 1));
        let below = self
            .counts
            .iter()
            .take_while(|(b, _)| usize::from(*b) < end);
        below.map(|(_, count)| count).sum()
    }

    /// Returns the `q` quantile (0 to 1), with an error of at most 1/16; `None` if there are no
    /// values.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let rank = (q * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for &(bucket, count) in &self.counts {
            seen += count;
            if seen >= rank {
                return Some(Self::middle(bucket));
            }
        }
        None
    }

    /// Returns the largest value, with an error of at most 1/16; `None` if there are no values.
    pub fn max(&self) -> Option<u64> {
        self.counts.last().map(|&(bucket, _)| Self::middle(bucket))
    }

    /// Returns the lower bound and count of each non-empty bucket.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let bound = |&(bucket, count): &(u16, u64)| (Self::lower_bound(bucket.into()), count);
        self.counts.iter().map(bound)
    }

    /// Returns the middle and count of each non-empty bucket.
    pub fn middles(&self) -> impl Iterator<Item = (u64, u64)> {
        let middle = |&(bucket, count): &(u16, u64)| (Self::middle(bucket), count);
        self.counts.iter().map(middle)
    }

    /// Returns the growth since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut before = earlier.counts.iter().copied().peekable();
        let grown = |&(bucket, count): &(u16, u64)| {
            while before.next_if(|(b, _)| *b < bucket).is_some() {}
            let before = before.next_if(|(b, _)| *b == bucket);
            let grown = count.saturating_sub(before.map_or(0, |(_, count)| count));
            (grown > 0).then_some((bucket, grown))
        };
        let counts = self.counts.iter().filter_map(grown).collect();
        Self { counts }
    }
}

impl Cumulative for Histogram {
    fn since(&self, earlier: &Self) -> Self {
        Self::since(self, earlier)
    }
}

impl std::ops::AddAssign<&Histogram> for Histogram {
    fn add_assign(&mut self, other: &Self) {
        if self.counts.is_empty() {
            self.counts.clone_from(&other.counts);
            return;
        }
        let mut at = 0;
        for &(bucket, count) in &other.counts {
            at += self.counts[at..]
                .iter()
                .take_while(|(b, _)| *b < bucket)
                .count();
            match self.counts.get_mut(at) {
                Some((b, sum)) if *b == bucket => *sum += count,
                _ => self.counts.insert(at, (bucket, count)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[u64]) -> Histogram {
        let mut counts = vec![0; Histogram::BUCKETS];
        values
            .iter()
            .for_each(|v| counts[Histogram::bucket(*v)] += 1);
        Histogram::from_counts(counts)
    }

    #[test]
    fn buckets_contain_their_values_within_a_sixteenth() {
        let powers = (0..Histogram::MAX_BITS).map(|bit| 1u64 << bit);
        for value in powers.flat_map(|p| [p, p + p / 3, p + p / 2, 2 * p - 1]) {
            let bucket = Histogram::bucket(value);
            assert!(Histogram::lower_bound(bucket) <= value, "{value}");
            assert!(value < Histogram::lower_bound(bucket + 1), "{value}");
            let shown = Histogram::middle(bucket as u16);
            assert!(
                shown.abs_diff(value) * 16 <= value,
                "{value} is reported as {shown}"
            );
        }
        assert_eq!(Histogram::bucket(u64::MAX), Histogram::BUCKETS - 1);
        assert_eq!(
            Histogram::lower_bound(Histogram::BUCKETS),
            1 << Histogram::MAX_BITS
        );
    }

    #[test]
    fn quantiles_follow_the_counts() {
        assert_eq!(of(&[]).quantile(0.5), None);
        let histogram = of(&[1, 2, 3, 1000]);
        assert_eq!(histogram.quantile(0.5), Some(2));
        assert_eq!(histogram.quantile(0.0), Some(1));
        assert!(histogram.quantile(1.0).expect("a value").abs_diff(1000) < 63);
        assert_eq!(histogram.max(), histogram.quantile(1.0));
        assert_eq!(histogram.count_below_power(2), 3);
        assert_eq!(histogram.count_below_power(9), 3);
        assert_eq!(histogram.count_below_power(10), 4);
    }

    #[test]
    fn wrapping_counters_are_followed() {
        let mut histogram = Histogram::default();
        for now in [u32::MAX - 1, u32::MAX, 3] {
            histogram.follow(&[0, now]);
        }
        assert_eq!(histogram.counts, [(1, (1 << 32) + 3)]);
    }

    #[test]
    fn buckets_rebuild_the_same_histogram() {
        let histogram = of(&[0, 7, 7, 16, 1000, 1 << 39, u64::MAX]);
        assert_eq!(Histogram::from_buckets(histogram.buckets()), histogram);
        assert!(Histogram::from_buckets([(5, 0)]).is_empty());
    }

    /// Returns counts of four buckets, from 0 to 2 each.
    fn small(number: u32) -> [u32; 4] {
        std::array::from_fn(|at| number / 3_u32.pow(at as u32) % 3)
    }

    #[test]
    fn merging_adds_the_counts_of_each_bucket() {
        let of = |counts: [u32; 4]| Histogram::from_counts(counts.map(u64::from));
        let each = |a: [u32; 4], b: [u32; 4], f: fn(u32, u32) -> u32| {
            std::array::from_fn(|at| f(a[at], b[at]))
        };
        for (a, b) in (0..81).flat_map(|a| (0..81).map(move |b| (small(a), small(b)))) {
            let mut sum = of(a);
            sum += &of(b);
            assert_eq!(sum, of(each(a, b, |a, b| a + b)), "{a:?} + {b:?}");
            let grown = of(each(a, b, u32::saturating_sub));
            assert_eq!(of(a).since(&of(b)), grown, "{a:?} - {b:?}");
            let mut followed = Histogram::default();
            followed.follow(&a);
            followed.follow(&each(a, b, |a, b| a + b));
            assert_eq!(followed, sum, "{a:?}, then {b:?} more");
        }
    }

    #[test]
    fn since_is_the_inverse_of_add() {
        let earlier = of(&[5, 70]);
        let mut sum = of(&[5, 300, 300]);
        let grown = sum.clone();
        sum += &earlier;
        assert_eq!(sum.since(&earlier), grown);
        assert!(sum.since(&sum).is_empty());
    }
}
