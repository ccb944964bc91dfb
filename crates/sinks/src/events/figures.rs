//! Figures for people, in as few characters as tell them.

/// Nanoseconds as a time of two digits or more: `15ms`, `1.2s`, `127s`, `3.4h`.
pub(super) fn time(ns: u64) -> String {
    const SECOND: f64 = 1e9;
    let units = [
        (86_400.0 * SECOND, "d"),
        (3600.0 * SECOND, "h"),
        (SECOND, "s"),
        (1e6, "ms"),
        (1e3, "us"),
    ];
    scaled(ns, &units).unwrap_or_else(|| format!("{ns}ns"))
}

/// A number of bytes: `12 MB`, in powers of 1000.
pub(super) fn bytes(count: u64) -> String {
    let units = [
        (1e15, " PB"),
        (1e12, " TB"),
        (1e9, " GB"),
        (1e6, " MB"),
        (1e3, " kB"),
    ];
    scaled(count, &units).unwrap_or_else(|| format!("{count} B"))
}

/// In the largest unit of which there is at least one; `None` below all of them.
fn scaled(value: u64, units: &[(f64, &str)]) -> Option<String> {
    let value = value as f64;
    // 999.6 kB would be drawn as 1000 kB: it is 1.0 MB.
    let (size, unit) = units.iter().find(|(size, _)| value >= size * 0.9995)?;
    let value = value / size;
    let decimals = usize::from(value < 9.95);
    Some(format!("{value:.decimals$}{unit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_never_round_to_a_thousand() {
        let times = [
            (0, "0ns"),
            (999, "999ns"),
            (1_234, "1.2us"),
            (120_000, "120us"),
            (999_960, "1.0ms"),
            (15_400_000, "15ms"),
            (2_100_000_000, "2.1s"),
            (127_000_000_000, "127s"),
            (12_240_000_000_000, "3.4h"),
            (180_000_000_000_000, "2.1d"),
        ];
        for (ns, text) in times {
            assert_eq!(time(ns), text);
        }
        let sizes = [
            (0, "0 B"),
            (999, "999 B"),
            (12_345, "12 kB"),
            (999_600, "1.0 MB"),
            (1_100_000, "1.1 MB"),
            (u64::MAX, "18447 PB"),
        ];
        for (count, text) in sizes {
            assert_eq!(bytes(count), text);
        }
    }
}
