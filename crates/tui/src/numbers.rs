//! Lengths of time and dates in a few characters.

/// A length of time, or time per second, in nanoseconds.
pub(crate) fn length(ns: f64) -> String {
    noctule_text::duration(ns.round() as u64)
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
    fn dates_of_leap_days_and_year_ends() {
        let day = 86_400 * 1_000_000_000;
        assert_eq!(date_time(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date_time(19_782 * day), "2024-02-29 00:00:00 UTC");
        assert_eq!(date_time(20_089 * day - 1), "2024-12-31 23:59:59 UTC");
    }
}
