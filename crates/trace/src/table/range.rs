//! The range of numbers that a part of a key represents.

use super::KeyShow;

/// An inclusive range of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u64,
    pub(super) last: u64,
    shape: Shape,
}

/// The notation of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// `[0, 1]`.
    Closed,
    /// `[32, 64)`.
    Lower,
    /// `(4, 8]`, because the kernel's logarithm rounds up.
    Upper,
}

impl Range {
    /// Returns the range of a key, or `None` if the column has no ranges.
    pub(super) fn of(show: &KeyShow, number: u64) -> Option<Self> {
        match show {
            KeyShow::Log2 => Some(Self::log2(number)),
            KeyShow::Buckets(width) => Some(Self {
                first: number,
                last: number.saturating_add(width.saturating_sub(1)),
                shape: Shape::Lower,
            }),
            _ => None,
        }
    }

    /// Creates the range between two powers of two, including the lower one.
    pub(super) fn octave(first: u64, last: u64) -> Self {
        Self {
            first,
            last,
            shape: Shape::Lower,
        }
    }

    /// Returns the numbers whose logarithm, rounded up, is `number`: 0 and 1 for 0, and 5 to 8 for
    /// 3.
    fn log2(number: u64) -> Self {
        let power = |exponent: u64| 1_u64.checked_shl(u32::try_from(exponent).unwrap_or(64));
        let last = power(number).unwrap_or(u64::MAX);
        if number == 0 {
            return Self {
                first: 0,
                last,
                shape: Shape::Closed,
            };
        }
        let before = power(number.min(64) - 1).unwrap_or(u64::MAX);
        Self {
            first: before.saturating_add(1),
            last,
            shape: Shape::Upper,
        }
    }

    /// Formats the range: `(4, 8]` for a logarithm, `[32, 64)` otherwise. Multiples of 1024 get a
    /// unit: `[1K, 2K)`.
    pub(super) fn text(self) -> String {
        let (first, last) = (u128::from(self.first), u128::from(self.last));
        match self.shape {
            Shape::Closed => format!("[{first}, {last}]"),
            Shape::Lower => format!("[{}, {})", with_unit(first), with_unit(last + 1)),
            Shape::Upper => {
                // In the topmost range, `last` is one less than a power of two.
                let end = last.next_multiple_of(2);
                format!("({}, {}]", with_unit(first - 1), with_unit(end))
            }
        }
    }
}

/// Formats a number with a binary unit, if the number is a multiple of that unit.
fn with_unit(number: u128) -> String {
    let mut number = number;
    let mut unit = "";
    for larger in ["K", "M", "G", "T", "P", "E"] {
        if number == 0 || !number.is_multiple_of(1024) {
            break;
        }
        number /= 1024;
        unit = larger;
    }
    format!("{number}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_ranges() {
        let log2 = KeyShow::Log2;
        let by_32 = KeyShow::Buckets(32);
        let cases = [
            (&log2, 0, (0, 1), "[0, 1]"),
            (&log2, 1, (2, 2), "(1, 2]"),
            (&log2, 3, (5, 8), "(4, 8]"),
            (&log2, 11, (1025, 2048), "(1K, 2K]"),
            (&log2, 63, ((1 << 62) + 1, 1 << 63), "(4E, 8E]"),
            (&log2, 64, ((1 << 63) + 1, u64::MAX), "(8E, 16E]"),
            (&log2, u64::MAX, ((1 << 63) + 1, u64::MAX), "(8E, 16E]"),
            (&by_32, 0, (0, 31), "[0, 32)"),
            (&KeyShow::Buckets(2), 0, (0, 1), "[0, 2)"),
            (&by_32, 2048, (2048, 2079), "[2K, 2080)"),
            (
                &by_32,
                u64::MAX - 15,
                (u64::MAX - 15, u64::MAX),
                "[18446744073709551600, 16E)",
            ),
            (&KeyShow::Buckets(1), 7, (7, 7), "[7, 8)"),
            (&KeyShow::Buckets(0), 7, (7, 7), "[7, 8)"),
        ];
        for (show, number, (first, last), text) in cases {
            let range = Range::of(show, number).unwrap();
            assert_eq!(
                (range.first, range.last),
                (first, last),
                "{show:?} {number}"
            );
            assert_eq!(range.text(), text);
        }
        assert_eq!(Range::of(&KeyShow::Number, 1), None);
        assert_eq!(Range::octave(1, 1).text(), "[1, 2)");
    }
}
