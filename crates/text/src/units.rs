//! Formats numbers in a few characters, with the unit directly after the number.

/// Formats a count in at most five characters: `999`, `1.23k`, `45.6M`.
pub fn count(value: u64) -> String {
    rate(value as f64)
}

/// Returns a count with its noun in the singular or plural: "1 CPU", "2 CPUs", "1.20k events".
pub fn counted(value: u64, one: &str, many: &str) -> String {
    let noun = if value == 1 { one } else { many };
    format!("{} {noun}", count(value))
}

/// Formats a fractional number, such as events per second, like [`count`] but with one decimal
/// below 10.
pub fn rate(value: f64) -> String {
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
    format!("{}{}", three_digits(value), STEPS[step])
}

/// Formats a share: `52.6%`; `-` if the whole is 0.
pub fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        whole => percent(part as f64 * 100.0 / whole as f64),
    }
}

/// Formats a percentage: `52.6%`.
pub fn percent(value: f64) -> String {
    decimal(value) + "%"
}

/// Formats a percentage for a column with `%` in its heading: `52.6`, without decimals above 1000.
pub fn decimal(value: f64) -> String {
    if value < 999.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// Formats a ratio, such as instructions per cycle: `1.25`.
pub fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

/// Formats nanoseconds as a duration in at most six characters, up to a hundred days: `45ns`,
/// `12.3ms`, `1.25s`, `3m07s`, `2h05m`, `1d03h`.
pub fn duration(ns: u64) -> String {
    // Rounding to the displayed unit never carries into the next unit.
    let two = |unit: f64, per: u64, names: [&str; 2]| {
        let whole = (ns as f64 / unit).round() as u64;
        format!("{}{}{:02}{}", whole / per, names[0], whole % per, names[1])
    };
    match ns as f64 {
        0.0 => "0".to_owned(),
        ns if ns < 999.5 => format!("{ns:.0}ns"),
        ns if ns < 999.5e3 => three_digits(ns / 1e3) + "µs",
        ns if ns < 999.5e6 => three_digits(ns / 1e6) + "ms",
        ns if ns < 59.95e9 => three_digits(ns / 1e9) + "s",
        ns if ns < 3599.5e9 => two(1e9, 60, ["m", "s"]),
        ns if ns < 1439.5 * 60e9 => two(60e9, 60, ["h", "m"]),
        _ => two(3600e9, 24, ["d", "h"]),
    }
}

/// Formats nanoseconds as seconds with milliseconds, for durations that a reader may add up:
/// `12.345s`.
pub fn seconds(ns: u64) -> String {
    format!("{:.3}s", ns as f64 / 1e9)
}

/// Formats bytes in units of 1024: `82B`, `18.6MiB`.
pub fn bytes(value: u64) -> String {
    const STEPS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut scaled = value as f64;
    let mut step = 0;
    while scaled >= 1023.5 && step + 1 < STEPS.len() {
        scaled /= 1024.0;
        step += 1;
    }
    match step {
        0 => format!("{value}B"),
        _ => format!("{}{}", three_digits(scaled), STEPS[step]),
    }
}

/// Formats microjoules as energy: `61µJ`, `450mJ`, `12.3J`, `1.23kJ`.
pub fn joules(uj: u64) -> String {
    match uj as f64 {
        0.0 => "0J".to_owned(),
        uj if uj < 999.5 => format!("{uj:.0}µJ"),
        uj if uj < 999.5e3 => three_digits(uj / 1e3) + "mJ",
        uj => metric(uj / 1e6) + "J",
    }
}

/// Formats power: `35.2mW`, `12.3W`, `1.23kW`.
pub fn watts(value: f64) -> String {
    match value {
        v if v < 0.000_05 => "0W".to_owned(),
        v if v < 0.999_5 => three_digits(v * 1e3) + "mW",
        v => metric(v) + "W",
    }
}

/// Formats power for a column with the unit in its heading: `0`, `2.04`, `35.2`.
pub fn watts_alone(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v < 9.995 => format!("{v:.2}"),
        v => format!("{v:.1}"),
    }
}

/// Formats the half-width of an interval, as a share of its middle: `±3.1%`.
pub fn half_width(ratio: f64) -> String {
    match ratio * 100.0 {
        percent if percent < 99.95 => format!("±{percent:.1}%"),
        percent if percent < 999.5 => format!("±{percent:.0}%"),
        _ => ">±999%".to_owned(),
    }
}

/// Formats a number of at least 1 with three digits and a metric prefix.
fn metric(value: f64) -> String {
    if value < 999.5 {
        three_digits(value)
    } else {
        rate(value)
    }
}

/// Formats a frequency: `3.42GHz`.
pub fn frequency(hertz: f64) -> String {
    rate(hertz) + "Hz"
}

fn three_digits(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_and_power_have_three_digits() {
        let uj = [0, 61, 999, 450_000, 999_600, 12_345_678, 1_234_567_890];
        let expected = ["0J", "61µJ", "999µJ", "450mJ", "1.00J", "12.3J", "1.23kJ"];
        assert_eq!(uj.map(joules), expected);
        let power = [0.0, 0.0352, 0.999_6, 12.34, 1234.0].map(watts);
        assert_eq!(power, ["0W", "35.2mW", "1.00W", "12.3W", "1.23kW"]);
    }

    #[test]
    fn counts_have_three_digits_and_never_show_1000() {
        let counts = [0, 9, 999, 1000, 12_345, 999_499, 999_999, u64::MAX].map(count);
        let expected = ["0", "9", "999", "1.00k", "12.3k", "999k", "1.00M", "18.4E"];
        assert_eq!(counts, expected);
        let rates = [
            0.0, 0.01, 0.44, 9.96, 10.4, 999.4, 999.6, 9_996.0, 1.2e7, 3e20,
        ];
        let expected = [
            "0", "0", "0.4", "10.0", "10", "999", "1.00k", "10.0k", "12.0M", "300E",
        ];
        assert_eq!(rates.map(rate), expected);
        assert_eq!(frequency(3.42e9), "3.42GHz");
    }

    #[test]
    fn durations_use_the_largest_unit_that_fits() {
        const SECOND: u64 = 1_000_000_000;
        let cases = [
            (0, "0"),
            (999, "999ns"),
            (12_345, "12.3µs"),
            (999_960, "1.00ms"),
            (15_400_000, "15.4ms"),
            (SECOND * 3 / 2, "1.50s"),
            (SECOND * 5996 / 100, "1m00s"),
            (SECOND * 187, "3m07s"),
            (SECOND * 35_996 / 10, "1h00m"),
            (SECOND * (86_400 - 31), "23h59m"),
            (SECOND * (86_400 - 29), "1d00h"),
            (SECOND * 97_200, "1d03h"),
        ];
        for (ns, text) in cases {
            assert_eq!(duration(ns), text, "{ns}");
        }
        assert_eq!(seconds(12_345_678_901), "12.346s");
    }

    #[test]
    fn sizes_are_in_units_of_1024() {
        let cases = [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.00KiB"),
            (1023 * 1024 + 600, "1.00MiB"),
            (19_500_000, "18.6MiB"),
            (u64::MAX, "16.0EiB"),
        ];
        for (value, text) in cases {
            assert_eq!(bytes(value), text);
        }
    }

    #[test]
    fn shares_have_one_decimal() {
        assert_eq!(share(1, 3), "33.3%");
        assert_eq!(share(1, 0), "-");
        assert_eq!(percent(99.96), "100.0%");
        assert_eq!(decimal(12_800.4), "12800");
    }
}
