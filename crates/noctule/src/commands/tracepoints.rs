//! Tracepoints by name and by pattern.

use anyhow::{Result, anyhow, bail};
use noctule_kernel::TraceEvents;
use noctule_trace::format::EventFormat;
use noctule_trace::glob::Glob;

use crate::exit::Usage;
use crate::rights::Reading;

/// The most events of one command: each has a program of its own.
const MOST_EVENTS: usize = 512;

/// Opens tracefs, with the right to read it where it is held back (`rights.rs`).
pub(super) fn open() -> Result<TraceEvents> {
    let _reading = Reading::begin();
    Ok(TraceEvents::open()?)
}

/// Refuses more events than one command can have.
pub(super) fn not_too_many(count: usize) -> Result<()> {
    if count > MOST_EVENTS {
        bail!(Usage(format!(
            "{count} events match; one command traces at most {MOST_EVENTS}: give a narrower pattern"
        )));
    }
    Ok(())
}

/// The layout of an event that is given as `SYSTEM:EVENT`.
pub(super) fn one(events: &TraceEvents, text: &str) -> Result<EventFormat> {
    let Some((system, event)) = text.split_once(':').or_else(|| text.split_once('/')) else {
        bail!(Usage(format!(
            "{text}: an event is SYSTEM:EVENT, such as sched:sched_switch"
        )));
    };
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
            && !name.starts_with('.')
    };
    let _reading = Reading::begin();
    let format = if is_name(system) && is_name(event) {
        events.format(system, event)?
    } else {
        None
    };
    let Some(format) = format else {
        bail!(Usage(unknown(events, system, event)));
    };
    EventFormat::parse_of(system, &format).map_err(|error| anyhow!("{text}: {error}"))
}

/// System and name of the events that a pattern matches, in the order of the alphabet: it stands for
/// `SYSTEM:EVENT`, for the event alone, or for the system alone.
pub(super) fn matching(events: &TraceEvents, pattern: &str) -> Result<Vec<(String, String)>> {
    let glob = Glob::parse(pattern.as_bytes()).map_err(|_| {
        let shown = noctule_text::escape(pattern);
        Usage(format!(
            "{shown}: a pattern has at most 63 characters other than *"
        ))
    })?;
    let reading = Reading::begin();
    let mut all = events.available()?;
    drop(reading);
    all.retain(|(system, event)| {
        let names = [format!("{system}:{event}"), event.clone(), system.clone()];
        names.iter().any(|name| glob.matches(name.as_bytes()))
    });
    if all.is_empty() {
        let (system, event) = pattern.split_once(':').unwrap_or(("", pattern));
        bail!(Usage(unknown(events, system, event)));
    }
    Ok(all)
}

/// The words for an event that the kernel does not have, with the nearest that it has.
fn unknown(events: &TraceEvents, system: &str, event: &str) -> String {
    let shown = match system {
        "" => noctule_text::escape(event),
        _ => noctule_text::escape(&format!("{system}:{event}")),
    };
    let nearest = nearest(&events.available().unwrap_or_default(), system, event);
    match nearest {
        Some(near) => format!("this kernel has no event {shown}; did you mean {near}?"),
        None => format!("this kernel has no event {shown}"),
    }
}

/// The event whose name is nearest: of the same system if there is that system, else of the system
/// whose name is nearest; of any system where none was given.
fn nearest(all: &[(String, String)], system: &str, event: &str) -> Option<String> {
    let distance = strsim::damerau_levenshtein;
    let systems = all.iter().map(|(system, _)| system);
    let of = match system {
        "" => None,
        _ => Some(systems.min_by_key(|other| distance(other, system))?),
    };
    let inside = all
        .iter()
        .filter(|(system, _)| of.is_none_or(|of| system == of));
    let (system, event) = inside.min_by_key(|(_, other)| distance(other, event))?;
    Some(format!("{system}:{event}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_event_is_of_the_nearest_system() {
        let all = [
            "irq:softirq_entry",
            "sched:sched_stat_wait",
            "sched:sched_switch",
        ];
        let all: Vec<_> = all
            .iter()
            .filter_map(|name| name.split_once(':'))
            .map(|(system, event)| (system.to_owned(), event.to_owned()))
            .collect();
        let cases = [
            ("sched", "sched_swich", "sched:sched_switch"),
            ("shed", "sched_stat_wiat", "sched:sched_stat_wait"),
            ("irq", "sched_switch", "irq:softirq_entry"),
            ("", "softirq_enter", "irq:softirq_entry"),
        ];
        for (system, event, near) in cases {
            assert_eq!(nearest(&all, system, event).as_deref(), Some(near));
        }
        assert_eq!(nearest(&[], "sched", "sched_switch"), None);
    }
}
