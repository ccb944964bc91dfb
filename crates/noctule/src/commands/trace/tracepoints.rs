//! Finds tracepoints by name and by pattern.

use std::collections::HashMap;

use anyhow::{Result, anyhow, bail};
use noctule_kernel::TraceEvents;
use noctule_trace::format::EventFormat;
use noctule_trace::glob::Glob;

use crate::exit::{NotForPrograms, Usage};
use crate::rights::Reading;

/// Maximum number of events per command. Each event needs its own program.
const MOST_EVENTS: usize = 512;

/// Opens tracefs, temporarily using the capability to read it (see `rights.rs`).
pub(super) fn open() -> Result<TraceEvents> {
    let _reading = Reading::begin();
    Ok(TraceEvents::open()?)
}

/// Definitions of dynamic events (kprobes, uprobes, synthetic events and others) by event name,
/// such as `p:kprobes/open do_sys_openat2 dfd=%di`.
pub(super) struct Registered(HashMap<String, String>);

impl Registered {
    pub(super) fn read(events: &TraceEvents) -> Result<Self> {
        let _reading = Reading::begin();
        Ok(Self::parse(&events.dynamic()?))
    }

    fn parse(text: &str) -> Self {
        let split = |line: &str| {
            let (kind, _) = line.split_once(' ')?;
            let (_, name) = kind.split_once(':')?;
            Some((name.replacen('/', ":", 1), line.to_owned()))
        };
        Self(text.lines().filter_map(split).collect())
    }

    /// Returns the definition of a dynamic event; `None` if the event is built into the kernel.
    pub(super) fn definition(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the kind of a dynamic event; `None` if the event is built into the kernel.
    pub(super) fn sort(&self, name: &str) -> Option<Sort> {
        let mut words = self.definition(name)?.split_whitespace();
        let (kind, place) = (words.next()?, words.next().unwrap_or(""));
        Some(match kind.as_bytes()[0] {
            kind @ (b'p' | b'r') => Sort::Function {
                is_of_file: place.starts_with('/'),
                at_return: kind == b'r',
            },
            b'f' => Sort::Other("an fprobe"),
            b't' => Sort::Other("a tracepoint probe"),
            b'e' => Sort::Other("an event probe"),
            b's' => Sort::Other("a synthetic event of the kernel"),
            _ => Sort::Other("a registered event"),
        })
    }
}

impl Sort {
    /// Returns the error for commands that need the event's record.
    pub(super) fn refuse(self, name: &str) -> NotForPrograms {
        let name = noctule_text::escape(name);
        NotForPrograms(match self {
            Self::Function { is_of_file, .. } => {
                let kind = if is_of_file { "uprobe" } else { "kprobe" };
                format!(
                    "{name} is a registered {kind}: BPF programs see its registers, but not its \
                     record; count it with noctule hist"
                )
            }
            Self::Other(sort) => format!(
                "{name} is {sort}: the kernel cannot attach BPF programs to it; trace the event or \
                 function behind it instead"
            ),
        })
    }
}

/// A kind of dynamic event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Function {
        /// Whether the event is a uprobe.
        is_of_file: bool,
        at_return: bool,
    },
    /// An event to which the kernel cannot attach programs.
    Other(&'static str),
}

/// Events that a command omits because no program can be attached to them.
#[derive(Default)]
pub(super) struct Skipped(Vec<anyhow::Error>);

impl Skipped {
    /// Returns the result, or `None` if the event was refused and recorded here.
    pub(super) fn pass<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Err(error) if error.is::<NotForPrograms>() => {
                self.0.push(error);
                Ok(None)
            }
            result => result.map(Some),
        }
    }

    /// Warns of the omitted events. If no other event remains (`is_all`), returns one of the
    /// errors.
    pub(super) fn finish(mut self, is_all: bool) -> Result<()> {
        if is_all && let Some(error) = self.0.pop() {
            return Err(error);
        }
        for error in self.0 {
            tracing::warn!("{error}; continuing with the other events");
        }
        Ok(())
    }
}

/// Returns an error if one command has too many events.
pub(super) fn check_event_count(count: usize) -> Result<()> {
    if count > MOST_EVENTS {
        bail!(Usage(format!(
            "{count} events match; one command traces at most {MOST_EVENTS}: give a narrower pattern"
        )));
    }
    Ok(())
}

/// Reads the format of an event given as `SYSTEM:EVENT`.
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

/// Returns the system and name of each matching event, sorted. A pattern can match `SYSTEM:EVENT`,
/// the event name or the system name.
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

/// Returns the message for an unknown event, with the most similar existing event.
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

/// Returns the event with the most similar name. The search covers the given system, or the system
/// with the most similar name. If no system is given, it covers all events.
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
    fn registered_events_have_definitions_and_kinds() {
        let text = "p:kprobes/open do_sys_openat2 dfd=%di\nr64:mine/back do_sys_openat2\nodd\n\
                    p:mine/file /bin/sh:0x10\nf:fprobes/x vfs_read\ns:synthetic/made u64 lat\n";
        let found = Registered::parse(text);
        let open = found.definition("kprobes:open");
        assert_eq!(open, Some("p:kprobes/open do_sys_openat2 dfd=%di"));
        let function = |is_of_file, at_return| {
            Some(Sort::Function {
                is_of_file,
                at_return,
            })
        };
        assert_eq!(found.sort("kprobes:open"), function(false, false));
        assert_eq!(found.sort("mine:back"), function(false, true));
        assert_eq!(found.sort("mine:file"), function(true, false));
        for name in ["fprobes:x", "synthetic:made"] {
            let words = found.sort(name).unwrap().refuse(name).to_string();
            assert!(words.contains("cannot attach BPF programs"), "{words}");
        }
        assert_eq!(found.sort("sched:sched_switch"), None);
    }

    #[test]
    fn closest_event_is_in_the_closest_system() {
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
