//! Formats moments in local time. A moment is in nanoseconds since 1970. `utc_offset` is local time
//! minus UTC at that moment, in seconds; the caller supplies it, because this crate reads no files.

use chrono::{DateTime, FixedOffset, Utc};

/// Formats date and time: `2024-02-29 13:05:09`.
pub fn date_time(unix_ns: u64, utc_offset: i32) -> String {
    local(unix_ns, utc_offset)
        .format("%Y-%m-%d %H:%M:%S")
        .to_string()
}

/// Formats the time of day: `13:05:09`.
pub fn clock(unix_ns: u64, utc_offset: i32) -> String {
    local(unix_ns, utc_offset).format("%H:%M:%S").to_string()
}

/// Formats the time of day in milliseconds, for events in quick succession: `13:05:09.123`.
pub fn clock_ms(unix_ns: u64, utc_offset: i32) -> String {
    local(unix_ns, utc_offset)
        .format("%H:%M:%S%.3f")
        .to_string()
}

/// Formats the time of day in microseconds, for traces: `13:05:09.123456`.
pub fn clock_us(unix_ns: u64, utc_offset: i32) -> String {
    local(unix_ns, utc_offset)
        .format("%H:%M:%S%.6f")
        .to_string()
}

/// Returns local time. An impossible offset of a day or more counts as UTC.
fn local(unix_ns: u64, utc_offset: i32) -> DateTime<FixedOffset> {
    let moment: DateTime<Utc> =
        DateTime::from_timestamp_nanos(i64::try_from(unix_ns).unwrap_or(i64::MAX));
    let zone = FixedOffset::east_opt(utc_offset).unwrap_or_else(|| chrono::Offset::fix(&Utc));
    moment.with_timezone(&zone)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400 * 1_000_000_000;

    #[test]
    fn dates_of_leap_days_and_year_ends() {
        assert_eq!(date_time(0, 0), "1970-01-01 00:00:00");
        assert_eq!(date_time(19_782 * DAY, 0), "2024-02-29 00:00:00");
        assert_eq!(date_time(20_089 * DAY - 1, 0), "2024-12-31 23:59:59");
        assert_eq!(date_time(20_089 * DAY - 1, 3600), "2025-01-01 00:59:59");
        assert_eq!(date_time(0, -1800), "1969-12-31 23:30:00");
    }

    #[test]
    fn time_of_day_uses_the_zone() {
        let noon = DAY / 2 + 7_123_999_999;
        assert_eq!(clock(noon, 0), "12:00:07");
        assert_eq!(clock_ms(noon, 0), "12:00:07.123");
        assert_eq!(clock_us(noon, 0), "12:00:07.123999");
        assert_eq!(clock_ms(noon, -5 * 3600 - 1800), "06:30:07.123");
        assert_eq!(clock(noon, i32::MAX), "12:00:07");
        // Extreme moments do not panic.
        assert_eq!(clock(u64::MAX, 14 * 3600).len(), 8);
    }
}
