//! Numbers, lengths of time and dates in a few characters.

/// A count or a rate in at most five characters: `0.4`, `12`, `1.23k`, `45.6M`.
pub(crate) fn count(value: f64) -> String {
    const STEPS: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    if value < 10.0 && value.fract() != 0.0 && value >= 0.05 {
        return format!("{value:.1}");
    }
    if value < 999.5 {
        return format!("{value:.0}");
    }
    let mut value = value / 1e3;
    let mut step = 0;
    while value >= 999.5 && step + 1 < STEPS.len() {
        value /= 1e3;
        step += 1;
    }
    let digits = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}{}", STEPS[step])
}

/// A percentage without its sign: one decimal below 1000.
pub(crate) fn percent(value: f64) -> String {
    if value < 999.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// A ratio, such as instructions per cycle.
pub(crate) fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

/// A length of time in at most six characters: `45ns`, `12.3ms`, `1.25s`, `3m07s`, `2h05m`.
pub(crate) fn duration(nanoseconds: f64) -> String {
    match nanoseconds {
        0.0 => "0".to_owned(),
        ns if ns < 999.5 => format!("{ns:.0}ns"),
        ns if ns < 999_500.0 => format!("{}µs", three_digits(ns / 1e3)),
        ns if ns < 999_500_000.0 => format!("{}ms", three_digits(ns / 1e6)),
        ns if ns < 59.95e9 => format!("{}s", three_digits(ns / 1e9)),
        ns if ns < 3599.5e9 => {
            let seconds = (ns / 1e9).round() as u64;
            format!("{}m{:02}s", seconds / 60, seconds % 60)
        }
        ns => {
            let minutes = (ns / 60e9).round() as u64;
            format!("{}h{:02}m", minutes / 60, minutes % 60)
        }
    }
}

fn three_digits(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// A size of memory in the units of 1024.
pub(crate) fn bytes(value: u64) -> String {
    const STEPS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = value as f64;
    let mut step = 0;
    while scaled >= 1023.5 && step + 1 < STEPS.len() {
        scaled /= 1024.0;
        step += 1;
    }
    match step {
        0 => format!("{value} B"),
        _ => format!("{} {}", three_digits(scaled), STEPS[step]),
    }
}

/// A moment as a UTC date and time. The terminal's own zone would need the zone files of whoever
/// looks, and the agent logs in UTC.
pub(crate) fn date_time(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let (year, month, day) = civil(seconds / 86_400);
    format!("{year:04}-{month:02}-{day:02} {}", time(unix_ns))
}

/// The time of day, UTC.
pub(crate) fn time(unix_ns: u64) -> String {
    let second = unix_ns / 1_000_000_000 % 86_400;
    format!(
        "{:02}:{:02}:{:02} UTC",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Days since 1970 to a date. The year is counted from March, so that the leap day is its last.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = (march_month + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_short() {
        let counts = [
            0.0, 0.01, 0.44, 9.96, 10.4, 999.4, 999.6, 9_996.0, 1.2e7, 3e20,
        ];
        let texts = counts.map(count);
        let expected = [
            "0", "0", "0.4", "10.0", "10", "999", "1.00k", "10.0k", "12.0M", "300E",
        ];
        assert_eq!(texts, expected);
        let durations = [0.0, 12_345.0, 1.5e9, 59.96e9, 3_599.6e9].map(duration);
        assert_eq!(durations, ["0", "12.3µs", "1.50s", "1m00s", "1h00m"]);
        assert_eq!(percent(99.96), "100.0");
        assert_eq!(percent(12_800.4), "12800");
        assert_eq!(bytes(19_500_000), "18.6 MiB");
        assert_eq!(bytes(1023), "1023 B");
    }

    #[test]
    fn dates_of_leap_days_and_year_ends() {
        let day = 86_400 * 1_000_000_000;
        assert_eq!(date_time(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date_time(19_782 * day), "2024-02-29 00:00:00 UTC");
        assert_eq!(date_time(20_089 * day - 1), "2024-12-31 23:59:59 UTC");
    }
}
