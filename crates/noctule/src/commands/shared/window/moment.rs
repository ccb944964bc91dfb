//! Parses a moment of a recording as typed by the user.

use chrono::{
    DateTime, Local, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, Offset as _, TimeDelta,
    TimeZone,
};

use crate::exit::Usage;

/// Parses a moment. A time of day means its last occurrence before the end of the recording.
pub(crate) fn moment(text: &str, end_unix_ns: u64) -> Result<u64, Usage> {
    moment_in(text, end_unix_ns, &|at| at <= end_unix_ns)
}

/// Like [`moment`]. If clocks were set back, a local time occurs twice; the later recorded
/// occurrence is selected.
pub(crate) fn moment_in(
    text: &str,
    end_unix_ns: u64,
    is_recorded: &dyn Fn(u64) -> bool,
) -> Result<u64, Usage> {
    let recording = Recorded {
        zone: Local,
        end_unix_ns,
        is_recorded,
    };
    let parsed = relative(text, end_unix_ns)
        .or_else(|| unix(text))
        .or_else(|| {
            let time = DateTime::parse_from_rfc3339(text).ok()?;
            nanoseconds(time.timestamp_nanos_opt()?)
        })
        .or_else(|| recording.of_local(date(text)?))
        .or_else(|| recording.at_time_of_day(time_of_day(text)?));
    parsed.ok_or_else(|| {
        let words = "must be a time of day (03:10, 03:10:30), a date and time (2026-11-24T03:10, with \
                     or without an offset), -10m before the end, or seconds since 1970";
        Usage(words.into())
    })
}

/// Returns whether a time of day was resolved to a day before the recording's end.
pub(crate) fn is_of_day_before(text: &str, unix_ns: u64, end_unix_ns: u64) -> bool {
    let day = |unix_ns: u64| {
        let time = DateTime::from_timestamp_nanos(unix_ns.cast_signed());
        time.with_timezone(&Local).date_naive()
    };
    time_of_day(text).is_some() && day(unix_ns) < day(end_unix_ns)
}

/// If the moment was given relative to the end of the recording, returns the distance in
/// nanoseconds.
pub(crate) fn before_end(text: &str) -> Option<u64> {
    let back = humantime::parse_duration(text.strip_prefix('-')?).ok()?;
    u64::try_from(back.as_nanos()).ok()
}

fn nanoseconds(signed: i64) -> Option<u64> {
    u64::try_from(signed).ok()
}

fn relative(text: &str, end_unix_ns: u64) -> Option<u64> {
    end_unix_ns.checked_sub(before_end(text)?)
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

fn date(text: &str) -> Option<NaiveDateTime> {
    let forms = [
        "%Y-%m-%dT%H:%M",
        "%Y-%m-%dT%H:%M:%S%.f",
        "%Y-%m-%d %H:%M",
        "%Y-%m-%d %H:%M:%S%.f",
    ];
    let mut parsed = forms
        .iter()
        .map(|form| NaiveDateTime::parse_from_str(text, form));
    parsed.find_map(Result::ok)
}

fn time_of_day(text: &str) -> Option<NaiveTime> {
    let forms = ["%H:%M", "%H:%M:%S%.f"];
    let mut parsed = forms
        .iter()
        .map(|form| NaiveTime::parse_from_str(text, form));
    parsed.find_map(Result::ok)
}

/// The recording for which a local time is resolved.
struct Recorded<'a, Z> {
    zone: Z,
    end_unix_ns: u64,
    is_recorded: &'a dyn Fn(u64) -> bool,
}

impl<Z: TimeZone> Recorded<'_, Z> {
    fn at_time_of_day(&self, time: NaiveTime) -> Option<u64> {
        let end = DateTime::from_timestamp_nanos(self.end_unix_ns.cast_signed());
        let day = end.with_timezone(&self.zone).date_naive();
        let on = |date: NaiveDate| self.of_local(date.and_time(time));
        on(day)
            .filter(|at| *at <= self.end_unix_ns || (self.is_recorded)(*at))
            .or_else(|| on(day.pred_opt()?))
    }

    fn of_local(&self, time: NaiveDateTime) -> Option<u64> {
        let moments = self.moments(time);
        let latest = |fits: &dyn Fn(u64) -> bool| {
            let fitting = moments.into_iter().flatten().filter(|at| fits(*at));
            fitting.max()
        };
        // If the clock was set back, recorded times can be later than the time of the last batch.
        latest(&self.is_recorded)
            .or_else(|| latest(&|at| at <= self.end_unix_ns))
            .or(moments[0])
    }

    /// Returns the moments with this local time: two if clocks were set back. If the time was
    /// skipped by setting clocks forward, it is resolved with the old offset.
    fn moments(&self, time: NaiveDateTime) -> [Option<u64>; 2] {
        let unix_ns = |time: DateTime<Z>| nanoseconds(time.timestamp_nanos_opt()?);
        match self.zone.from_local_datetime(&time) {
            LocalResult::Single(at) => [unix_ns(at), None],
            LocalResult::Ambiguous(first, second) => [unix_ns(first), unix_ns(second)],
            LocalResult::None => {
                let day_before = time - TimeDelta::days(1);
                let before = self.zone.offset_from_local_datetime(&day_before).latest();
                let at = before.map(|offset| (time - offset.fix()).and_utc());
                [
                    at.and_then(|at| nanoseconds(at.timestamp_nanos_opt()?)),
                    None,
                ]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::FixedOffset;

    use super::*;

    #[test]
    fn common_time_formats_are_parsed() {
        let end = moment("2026-11-24T12:00", 0).expect("a moment");
        let hour = 3_600_000_000_000;
        let cases = [
            ("-10m", end - 600_000_000_000),
            ("1790000000.25", 1_790_000_000_250_000_000),
            ("1970-01-01T01:00:00+01:00", 0),
            ("11:00", end - hour),
            ("2026-11-24T11:00:00.5", end - hour + 500_000_000),
            ("2026-11-24 11:00", end - hour),
            // The previous evening.
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

    #[test]
    fn time_of_the_previous_day_is_recognized() {
        let end = moment("2026-11-24T12:00", 0).expect("a moment");
        let at = |text| moment(text, end).expect("a moment");
        for (text, expected) in [
            ("12:00", false),
            ("11:59", false),
            ("12:01", true),
            ("2026-11-23T12:01", false),
            ("-20h", false),
        ] {
            assert_eq!(is_of_day_before(text, at(text), end), expected, "{text}");
        }
    }

    /// Germany in 2026: clocks were set forward on 29 March at 02:00, and back on 25 October at
    /// 03:00.
    #[derive(Clone)]
    struct Berlin;

    const WINTER: i32 = 3600;
    const SUMMER: i32 = 2 * WINTER;
    const AHEAD: &str = "2026-03-29T01:00:00Z";
    const BACK: &str = "2026-10-25T01:00:00Z";

    fn utc(text: &str) -> NaiveDateTime {
        let time = DateTime::parse_from_rfc3339(text).expect("a time");
        time.naive_utc()
    }

    impl TimeZone for Berlin {
        type Offset = FixedOffset;

        fn from_offset(_: &FixedOffset) -> Self {
            Self
        }

        fn offset_from_local_date(&self, _: &NaiveDate) -> LocalResult<FixedOffset> {
            LocalResult::None
        }

        fn offset_from_local_datetime(&self, local: &NaiveDateTime) -> LocalResult<FixedOffset> {
            let [winter, summer] = [WINTER, SUMMER].map(|seconds| {
                let offset = FixedOffset::east_opt(seconds).expect("an offset");
                Some(offset).filter(|_| self.offset_from_utc_datetime(&(*local - offset)) == offset)
            });
            match (summer, winter) {
                (Some(first), Some(second)) => LocalResult::Ambiguous(first, second),
                (one, other) => one.or(other).map_or(LocalResult::None, LocalResult::Single),
            }
        }

        fn offset_from_utc_date(&self, date: &NaiveDate) -> FixedOffset {
            self.offset_from_utc_datetime(&date.and_time(NaiveTime::MIN))
        }

        fn offset_from_utc_datetime(&self, time: &NaiveDateTime) -> FixedOffset {
            let summer = (utc(AHEAD)..utc(BACK)).contains(time);
            FixedOffset::east_opt(if summer { SUMMER } else { WINTER }).expect("an offset")
        }
    }

    #[test]
    fn ambiguous_hour_is_the_one_that_was_recorded() {
        let unix = |text: &str| utc(text).and_utc().timestamp_nanos_opt().expect("a time") as u64;
        // Typed text, start and end of the recording, and the expected moment.
        let cases = [
            (
                "02:30",
                "2026-10-25T00:00:00Z",
                "2026-10-25T05:00:00Z",
                "2026-10-25T01:30:00Z",
            ),
            (
                "02:30",
                "2026-10-25T00:00:00Z",
                "2026-10-25T00:50:00Z",
                "2026-10-25T00:30:00Z",
            ),
            (
                "2026-10-25 02:30",
                "2026-10-25T00:00:00Z",
                "2026-10-25T01:10:00Z",
                "2026-10-25T00:30:00Z",
            ),
            (
                "2026-10-25 02:30",
                "2026-10-25T01:05:00Z",
                "2026-10-25T01:50:00Z",
                "2026-10-25T01:30:00Z",
            ),
            (
                "03:30",
                "2026-10-25T00:00:00Z",
                "2026-10-25T05:00:00Z",
                "2026-10-25T02:30:00Z",
            ),
            (
                "02:30",
                "2026-03-29T00:00:00Z",
                "2026-03-29T05:00:00Z",
                "2026-03-29T01:30:00Z",
            ),
            (
                "2026-03-29 02:30",
                "2026-03-29T00:00:00Z",
                "2026-03-29T05:00:00Z",
                "2026-03-29T01:30:00Z",
            ),
        ];
        for (typed, from, to, expected) in cases {
            let (from, to) = (unix(from), unix(to));
            let recorded = Recorded {
                zone: Berlin,
                end_unix_ns: to,
                is_recorded: &|at| (from..=to).contains(&at),
            };
            let found = match time_of_day(typed) {
                Some(time) => recorded.at_time_of_day(time),
                None => recorded.of_local(date(typed).expect("a date")),
            };
            assert_eq!(found, Some(unix(expected)), "{typed} up to {to}");
        }
    }
}
