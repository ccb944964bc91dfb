//! Parses numbers like the kernel's `kstrtoull` with base 0.

/// Parses a decimal number, a hexadecimal one with `0x`, or an octal one with `0`, of at most 64
/// bits.
pub(super) fn number(digits: &str) -> Option<u64> {
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, digits.get(2..)?),
        [b'0', _, ..] => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    // `from_str_radix` would accept a sign.
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    u64::from_str_radix(digits, base).ok()
}

/// Parses digits as a negative number.
pub(super) fn negative(digits: &str) -> Option<i128> {
    let magnitude = i128::from(number(digits)?);
    let fits = magnitude <= -i128::from(i64::MIN);
    fits.then_some(-magnitude)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_numbers_like_the_kernel() {
        let cases = [
            ("0", Some(0)),
            ("00", Some(0)),
            ("10", Some(10)),
            ("010", Some(8)),
            ("0x1F", Some(31)),
            ("0Xff", Some(255)),
            ("18446744073709551615", Some(u64::MAX)),
            ("0xffffffffffffffff", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("99999999999999999999999999", None),
            ("08", None),
            ("0x", None),
            ("0xg", None),
            ("0x+1", None),
            ("0_1", None),
            ("1_000", None),
            ("10ms", None),
            ("+1", None),
            ("", None),
        ];
        for (digits, expected) in cases {
            assert_eq!(number(digits), expected, "{digits}");
        }
    }

    #[test]
    fn negative_numbers_fit_in_64_bits() {
        assert_eq!(negative("1"), Some(-1));
        let least = "9223372036854775808";
        assert_eq!(negative(least), Some(i64::MIN.into()));
        assert_eq!(negative("9223372036854775809"), None);
    }
}
