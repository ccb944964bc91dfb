//! Logarithmic buckets: eight buckets of equal width between consecutive powers of two.
//!
//! A percentile that is taken from the middle of its bucket is off by at most one sixteenth.

/// Number of bits after the highest set bit that select a bucket.
pub const BITS: u32 = 3;

/// Number of buckets that cover all 64-bit numbers.
pub const COUNT: usize = ((63 - BITS as usize) << BITS) + (2 << BITS);

/// Returns the bucket of a number.
pub fn index(number: u64) -> usize {
    let high = 63 - (number | 1).leading_zeros();
    let shift = high.saturating_sub(BITS);
    ((shift as usize) << BITS) + (number >> shift) as usize
}

/// Returns the smallest and the largest number of a bucket.
pub fn range(index: usize) -> (u64, u64) {
    let shift = (index >> BITS).saturating_sub(1);
    let first = (index - (shift << BITS)) as u64;
    (first << shift, (first << shift) + ((1 << shift) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous() {
        let mut next = 0;
        for bucket in 0..COUNT {
            let (first, last) = range(bucket);
            assert_eq!(first, next, "{bucket}");
            assert_eq!((index(first), index(last)), (bucket, bucket));
            assert!(last - first <= first / 8, "{bucket}");
            next = last.wrapping_add(1);
        }
        assert_eq!(next, 0, "the last bucket ends with the largest number");
    }
}
