//! The numbers that one part of a key stands for.

use super::KeyShow;

/// Numbers from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Range {
    /// The range of a key; `None` if the column has none.
    pub(super) fn of(show: &KeyShow, number: u64) -> Option<Self> {
        match show {
            KeyShow::Log2 => Some(Self::log2(number)),
            KeyShow::Buckets(width) => Some(Self {
                first: number,
                last: number.saturating_add(width.saturating_sub(1)),
            }),
            _ => None,
        }
    }

    /// The numbers whose logarithm, rounded up, is this: 0 and 1 for 0, 5 to 8 for 3.
    fn log2(number: u64) -> Self {
        let power = |exponent: u64| 1_u64.checked_shl(u32::try_from(exponent).unwrap_or(64));
        let last = power(number).unwrap_or(u64::MAX);
        if number == 0 {
            return Self { first: 0, last };
        }
        let before = power(number.min(64) - 1).unwrap_or(u64::MAX);
        Self {
            first: before.saturating_add(1),
            last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_keys() {
        let log2 = KeyShow::Log2;
        let top = (1 << 63) + 1;
        let cases = [
            (&log2, 0, (0, 1)),
            (&log2, 1, (2, 2)),
            (&log2, 3, (5, 8)),
            (&log2, 64, (top, u64::MAX)),
            (&log2, u64::MAX, (top, u64::MAX)),
            (&KeyShow::Buckets(32), 64, (64, 95)),
            (&KeyShow::Buckets(0), 7, (7, 7)),
        ];
        for (show, number, expected) in cases {
            let range = Range::of(show, number).unwrap();
            assert_eq!((range.first, range.last), expected, "{show:?} {number}");
        }
        assert_eq!(Range::of(&KeyShow::Number, 1), None);
    }
}
