//! Resolves perf events by name.

use anyhow::{Result, bail};
use noctule_kernel::PerfProbe;

use crate::exit::Usage;

/// Returns the perf event that the text specifies; `None` if the text is not a perf event.
pub(super) fn probe(text: &str) -> Result<Option<PerfProbe>> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    Ok(Some(match kind {
        "profile" => PerfProbe::profile(hertz(rest)?),
        "interval" => PerfProbe::interval(nanoseconds(rest)?),
        "software" => named(
            kind,
            rest,
            PerfProbe::software,
            &PerfProbe::software_names(),
        )?,
        "hardware" => named(
            kind,
            rest,
            PerfProbe::hardware,
            &PerfProbe::hardware_names(),
        )?,
        _ => return Ok(None),
    }))
}

fn hertz(text: &str) -> Result<u64> {
    match text.parse() {
        Ok(hertz @ 1..) => Ok(hertz),
        _ => bail!(Usage(format!(
            "profile:{}: expected the samples per second, such as profile:99",
            noctule_text::escape(text)
        ))),
    }
}

fn nanoseconds(text: &str) -> Result<u64> {
    // Shortest period of the kernel's timers for perf events, in nanoseconds.
    const SHORTEST: u128 = 10_000;
    let time = humantime::parse_duration(text).map(|time| time.as_nanos());
    let whole = time.ok().filter(|time| *time >= SHORTEST);
    match whole.and_then(|time| u64::try_from(time).ok()) {
        Some(time) => Ok(time),
        None => bail!(Usage(format!(
            "interval:{}: expected a time of at least 10us, such as interval:1s",
            noctule_text::escape(text)
        ))),
    }
}

/// Parses `EVENT` or `EVENT:PERIOD`.
fn named(
    kind: &str,
    text: &str,
    find: impl Fn(&str, Option<u64>) -> Option<PerfProbe>,
    names: &[&str],
) -> Result<PerfProbe> {
    let (name, period) = match text.split_once(':') {
        None => (text, None),
        Some((name, period)) => match period.parse() {
            Ok(period @ 1..) => (name, Some(period)),
            _ => bail!(Usage(format!(
                "{kind}:{}: the period must be a number of events, at least 1",
                noctule_text::escape(text)
            ))),
        },
    };
    match find(name, period) {
        Some(probe) => Ok(probe),
        None => bail!(Usage(format!(
            "there is no {kind} event {}; there are {}",
            noctule_text::escape(name),
            names.join(", ")
        ))),
    }
}
