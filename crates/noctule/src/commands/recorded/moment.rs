//! A moment of a recording, as people type it.

use chrono::{DateTime, Local, NaiveDate, NaiveDateTime, NaiveTime, TimeZone as _};

use crate::exit::Usage;

/// A moment as people type it. A time of day is the last one before the recording's end.
pub(in super::super) fn moment(text: &str, end_unix_ns: u64) -> Result<u64, Usage> {
    let parsed = relative(text, end_unix_ns)
        .or_else(|| unix(text))
        .or_else(|| {
            let time = DateTime::parse_from_rfc3339(text).ok()?;
            nanoseconds(time.timestamp_nanos_opt()?)
        })
        .or_else(|| date(text))
        .or_else(|| time_of_day(text, end_unix_ns));
    parsed.ok_or_else(|| {
        let words = "must be a time of day (03:10, 03:10:30), a date and time (2026-11-24T03:10, with \
                     or without an offset), -10m before the end, or seconds since 1970";
        Usage(words.into())
    })
}

fn nanoseconds(signed: i64) -> Option<u64> {
    u64::try_from(signed).ok()
}

fn relative(text: &str, end_unix_ns: u64) -> Option<u64> {
    let back = humantime::parse_duration(text.strip_prefix('-')?).ok()?;
    end_unix_ns.checked_sub(u64::try_from(back.as_nanos()).ok()?)
}

fn unix(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(seconds) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let fraction: u64 = format!("{fraction:0<9}").parse().ok()?;
    let seconds: u64 = seconds.parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction)
}

fn date(text: &str) -> Option<u64> {
    let forms = [
        "%Y-%m-%dT%H:%M",
        "%Y-%m-%dT%H:%M:%S%.f",
        "%Y-%m-%d %H:%M",
        "%Y-%m-%d %H:%M:%S%.f",
    ];
    let parsed = forms
        .iter()
        .find_map(|form| NaiveDateTime::parse_from_str(text, form).ok());
    of_local(parsed?)
}

fn time_of_day(text: &str, end_unix_ns: u64) -> Option<u64> {
    let forms = ["%H:%M", "%H:%M:%S%.f"];
    let time = forms
        .iter()
        .find_map(|form| NaiveTime::parse_from_str(text, form).ok())?;
    let end = DateTime::from_timestamp_nanos(end_unix_ns.cast_signed()).with_timezone(&Local);
    let on = |date: NaiveDate| of_local(date.and_time(time));
    let day = end.date_naive();
    on(day)
        .filter(|at| *at <= end_unix_ns)
        .or_else(|| on(day.pred_opt()?))
}

fn of_local(time: NaiveDateTime) -> Option<u64> {
    let time = Local.from_local_datetime(&time).earliest()?;
    nanoseconds(time.timestamp_nanos_opt()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_as_people_type_them() {
        let end = of_local(
            NaiveDate::from_ymd_opt(2026, 11, 24)
                .and_then(|day| day.and_hms_opt(12, 0, 0))
                .expect("a time"),
        )
        .expect("a moment");
        let hour = 3_600_000_000_000;
        let cases = [
            ("-10m", end - 600_000_000_000),
            ("1790000000.25", 1_790_000_000_250_000_000),
            ("1970-01-01T01:00:00+01:00", 0),
            ("11:00", end - hour),
            ("2026-11-24T11:00:00.5", end - hour + 500_000_000),
            ("2026-11-24 11:00", end - hour),
            // The evening before.
            ("23:00", end - 13 * hour),
        ];
        for (text, expected) in cases {
            assert_eq!(
                moment(text, end).map_err(|error| error.0),
                Ok(expected),
                "{text}"
            );
        }
        for text in [
            "",
            "soon",
            "25:00",
            "-",
            "-soon",
            "1.2.3",
            "2026-13-01T00:00",
        ] {
            assert!(moment(text, end).is_err(), "{text}");
        }
    }
}
