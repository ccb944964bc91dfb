//! Numbers as the kernel's `kstrtoull` reads them with base 0.

/// Decimal, hexadecimal behind `0x`, or octal behind `0`; at most 64 bits.
pub(super) fn number(digits: &str) -> Option<u64> {
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', _, ..] => (16, digits.get(2..)?),
        [b'0', _, ..] => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    // The library would take a sign.
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    u64::from_str_radix(digits, base).ok()
}

/// The number below zero of these digits.
pub(super) fn negative(digits: &str) -> Option<i128> {
    let magnitude = i128::from(number(digits)?);
    let fits = magnitude <= -i128::from(i64::MIN);
    fits.then_some(-magnitude)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_kernels() {
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
    fn below_zero_is_one_bit_less() {
        assert_eq!(negative("1"), Some(-1));
        let least = "9223372036854775808";
        assert_eq!(negative(least), Some(i64::MIN.into()));
        assert_eq!(negative("9223372036854775809"), None);
    }
}
