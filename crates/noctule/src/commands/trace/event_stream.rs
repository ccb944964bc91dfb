//! Events that are watched individually, and the format of their records.

mod json;
mod lines;
mod names;
mod traced;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use noctule_kernel::TraceEvents;
use noctule_trace::format::EventFormat;
use noctule_trace::parse;
use noctule_trace::print::{FieldTable, Print};
use noctule_trace::probe::Probe;
use noctule_trace::program::Condition;
use noctule_trace::resolve::{self, Scope};
use noctule_trace::source::Problem;
use noctule_trace::tree::Expr;
use noctule_trace::watch::{Arrival, Losses, Shape, WatchSession};

use super::groups::Groups;
use super::kallsyms::Kallsyms;
use super::tracepoints::{self, Registered, Skipped};
use crate::commands::shared::watch::{Output, Reader};
use crate::exit::Usage;
use crate::stop::{Signals, Woken};
use names::KernelNames;

pub(super) use lines::Lines;
pub(super) use traced::{Traced, either};

/// Interval between readings of the ring. An event is printed after at most two intervals.
pub(super) const STEP: Duration = Duration::from_millis(100);

/// A watched event.
pub(super) struct Watched {
    /// `SYSTEM:EVENT`.
    pub(super) name: String,
    pub(super) system: String,
    pub(super) format: EventFormat,
    /// `None` if the print format cannot be parsed. The fields of such an event are printed by
    /// name.
    print: Option<Print>,
}

impl Watched {
    fn open(events: &TraceEvents, system: &str, event: &str) -> Result<Self> {
        let name = format!("{system}:{event}");
        let format = tracepoints::one(events, &name)?;
        Ok(Self {
            print: print(&format),
            system: system.to_owned(),
            name,
            format,
        })
    }

    pub(super) fn shape(&self) -> Shape {
        Shape::of(&self.format)
    }

    /// Resolves the condition of a filter in `source`.
    pub(super) fn condition(&self, filter: &Expr, source: &str, node: &Node) -> Result<Condition> {
        let tables = self.tables();
        let scope = Scope {
            probe: Probe::Tracepoint,
            format: &self.format,
            tables: &tables,
            function: &|wanted| node.symbols.function(wanted),
            groups: &node.groups,
            cpus: TraceEvents::possible_cpus(),
        };
        resolve::filter(filter, &scope).map_err(|problems| {
            let error = wrong(&problems, source);
            Usage(format!("{}: {error}", self.name)).into()
        })
    }

    fn tables(&self) -> Vec<FieldTable> {
        self.print.as_ref().map(Print::tables).unwrap_or_default()
    }
}

/// Kernel symbols and cgroup paths of the node, to translate addresses and ids.
#[derive(Default)]
pub(super) struct Node {
    pub(super) symbols: Kallsyms,
    pub(super) groups: Groups,
}

/// Parses the print format. Enumerators get their values from the kernel's BTF.
fn print(format: &EventFormat) -> Option<Print> {
    let print = Print::parse(format).ok()?;
    if print.unresolved().is_empty() {
        return Some(print);
    }
    let known: HashMap<String, i64> = noctule_kernel::enumerators(print.unresolved());
    Print::parse_with(format, &|name| known.get(name).copied()).ok()
}

/// Returns the usage error for problems in a text, with their positions.
pub(super) fn wrong(problems: &[Problem], source: &str) -> Usage {
    let shown: Vec<_> = problems
        .iter()
        .map(|problem| problem.show(source))
        .collect();
    Usage(shown.concat().trim_end().to_owned())
}

/// The events that a command specifies, without duplicates.
#[derive(Default)]
pub(super) struct WatchedEvents {
    all: Vec<Watched>,
}

impl WatchedEvents {
    pub(super) fn all(&self) -> &[Watched] {
        &self.all
    }

    /// Returns the indexes of the matching events: one index for a name, and several for a pattern.
    /// Omits registered probes, whose records BPF programs cannot read.
    pub(super) fn find(&mut self, events: &TraceEvents, text: &str) -> Result<Vec<usize>> {
        let is_pattern = text.contains(['*', '?', '[']) || !text.contains([':', '/']);
        let names = if is_pattern {
            tracepoints::matching(events, text)?
        } else {
            let (system, event) = text.split_once([':', '/']).unwrap_or((text, ""));
            vec![(system.to_owned(), event.to_owned())]
        };
        let registered = Registered::read(events)?;
        let (mut places, mut skipped) = (Vec::new(), Skipped::default());
        for (system, event) in names {
            let name = format!("{system}:{event}");
            if let Some(sort) = registered.sort(&name) {
                let _: Option<()> = skipped.pass(Err(sort.refuse(&name).into()))?;
                continue;
            }
            let known = self.all.iter().position(|one| one.name == name);
            places.push(match known {
                Some(place) => place,
                None => {
                    self.all.push(Watched::open(events, &system, &event)?);
                    self.all.len() - 1
                }
            });
        }
        skipped.finish(places.is_empty())?;
        tracepoints::check_event_count(self.all.len())?;
        Ok(places)
    }
}

/// Separates an event from its filter.
pub(super) fn event(text: &str) -> Result<(String, Option<Expr>)> {
    let (tree, problems) = parse::event(text);
    if !problems.is_empty() {
        bail!(wrong(&problems, text));
    }
    Ok((tree.event.node, tree.filter))
}

/// Rounds the size of a ring up to a power of two and at least a page.
pub(super) fn ring(bytes: u64) -> Result<u32> {
    const MOST: u64 = 1 << 30;
    if bytes > MOST {
        bail!(Usage("--buffer: at most 1GiB".to_owned()));
    }
    let page = rustix::param::page_size() as u64;
    let bytes = bytes.max(page).next_power_of_two();
    Ok(u32::try_from(bytes).unwrap_or(1 << 30))
}

/// Whether more records are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum More {
    Wanted,
    Enough,
}

/// Prints records until the time is up, a signal arrives, or no more records are wanted. Afterwards
/// detaches the programs and prints the remaining records.
pub(super) fn follow(
    session: &mut WatchSession,
    signals: &Signals,
    duration: Option<Duration>,
    output: &mut Output<'_>,
    mut show: impl FnMut(&Arrival, &mut String) -> More,
) -> Result<Option<Losses>> {
    let end = duration.map(|duration| Instant::now() + duration);
    let mut text = String::new();
    let mut more = More::Wanted;
    let mut take = |arrival: Arrival, text: &mut String, more: &mut More| {
        if *more == More::Wanted {
            *more = show(&arrival, text);
        }
    };
    loop {
        let next = Instant::now() + STEP;
        let until = end.map_or(next, |end| end.min(next));
        let woken = signals.wait(until, &[session.wakes()])?;
        session.read(monotonic_ns(), |arrival| {
            take(arrival, &mut text, &mut more);
        })?;
        if output.write(&text)? == Reader::Gone {
            return Ok(None);
        }
        text.clear();
        let is_over = end.is_some_and(|end| Instant::now() >= end);
        if woken == Woken::End || is_over || more == More::Enough {
            break;
        }
    }
    let losses = session.stop(monotonic_ns(), |arrival| {
        take(arrival, &mut text, &mut more);
    })?;
    if output.write(&text)? == Reader::Gone || more == More::Enough {
        return Ok(None);
    }
    Ok(Some(losses))
}

pub(super) fn monotonic_ns() -> u64 {
    ns(rustix::time::ClockId::Monotonic)
}

fn ns(clock: rustix::time::ClockId) -> u64 {
    let now = rustix::time::clock_gettime(clock);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
