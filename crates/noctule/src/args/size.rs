//! Parses sizes.

/// Units in bytes. Powers of 1024 have an `i`, as in IEC 80000-13.
const UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("B", 1),
    ("kB", 1000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
];

/// Parses a number of bytes such as `64MiB`, `1GB` or `4096`.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = unit.trim_start();
    let number: u64 = number
        .parse()
        .map_err(|_| "must be a whole number with a unit, as in 64MiB".to_owned())?;
    let known = UNITS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let (_, bytes) = known.ok_or_else(|| {
        let names: Vec<&str> = UNITS.iter().skip(1).map(|(name, _)| *name).collect();
        format!("unknown unit `{unit}`: use {}", names.join(", "))
    })?;
    number
        .checked_mul(*bytes)
        .ok_or_else(|| "is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_with_common_units() {
        let good = [
            ("4096", 4096),
            ("64MiB", 64 << 20),
            ("64 mib", 64 << 20),
            ("1GB", 1_000_000_000),
            ("10kB", 10_000),
        ];
        for (text, bytes) in good {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "-1", "1.5GiB", "64MiBs", "99999999999GiB"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
