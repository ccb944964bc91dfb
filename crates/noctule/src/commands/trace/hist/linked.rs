//! Triggers that depend on each other through variables, actions or synthetic events.

use anyhow::{Result, bail};
use noctule_kernel::TraceEvents;
use noctule_trace::print::{FieldTable, Print};
use noctule_trace::probe::Probe;
use noctule_trace::program::Program;
use noctule_trace::resolve::{Function, Linkable, Scope, linked};
use noctule_trace::source::{Problem, Span};
use noctule_trace::synthetic::Synthetic;
use noctule_trace::table::Table;
use noctule_trace::tree::{EventName, Handler, Hist};

use super::job::{Job, refused};
use crate::commands::trace::attach_point::Target;
use crate::commands::trace::groups::Groups;
use crate::commands::trace::kallsyms::Kallsyms;
use crate::exit::Usage;

/// System name of synthetic events.
const SYSTEM: &str = "synthetic";
/// First id of synthetic events, above those of tracepoints and other probes.
const FIRST: u64 = 1 << 40;

/// An event with its trigger, as typed by the user.
pub(super) struct Given<'a> {
    pub(super) events: &'a str,
    pub(super) trigger: &'a str,
    pub(super) tree: Hist,
}

impl Given<'_> {
    /// Returns whether the trigger depends on other triggers. `matched` lists the events of
    /// `onmatch` handlers.
    pub(super) fn is_linked(&self, matched: &[EventName]) -> bool {
        let tree = &self.tree;
        !tree.vars.is_empty()
            || !tree.actions.is_empty()
            || self.synthetic().is_some()
            || matched.contains(&event_name(self.events))
    }

    /// Returns the name of the synthetic event, if the event is synthetic.
    fn synthetic(&self) -> Option<&str> {
        let (system, event) = self.events.split_once(':')?;
        (system == SYSTEM).then_some(event)
    }

    /// Returns whether the table has no output of its own, because it only serves other tables.
    fn is_hidden(&self, table: &Table) -> bool {
        let tree = &self.tree;
        let serves = !tree.vars.is_empty() || !tree.actions.is_empty();
        serves && table.tracked.is_empty() && tree.vals.is_empty() && tree.sort.is_empty()
    }
}

/// Returns the events of all `onmatch` handlers.
pub(super) fn matched(all: &[Given<'_>]) -> Vec<EventName> {
    let actions = all.iter().flat_map(|given| &given.tree.actions);
    actions
        .filter_map(|action| match &action.handler.node {
            Handler::OnMatch(event) => Some(event.clone()),
            Handler::OnMax(_) | Handler::OnChange(_) => None,
        })
        .collect()
}

/// Parses the definitions of synthetic events.
pub(super) fn synthetic(texts: &[String]) -> Result<Vec<Synthetic>> {
    let mut all: Vec<Synthetic> = Vec::new();
    for (text, number) in texts.iter().zip(FIRST..) {
        let made =
            Synthetic::parse(text, number).map_err(|problem| refused(None, &[problem], text))?;
        if all
            .iter()
            .any(|known| known.format.name == made.format.name)
        {
            let problem = Problem::new(Span::new(0, 0), "Event already exists");
            bail!(refused(None, &[problem], text));
        }
        all.push(made);
    }
    Ok(all)
}

/// The targets of a trigger's programs.
struct Opened {
    event: EventName,
    target: Option<Target>,
    first: Option<Target>,
    synthetic: Option<usize>,
    tables: Vec<FieldTable>,
    first_tables: Vec<FieldTable>,
}

impl Opened {
    fn new(given: &Given<'_>, synthetic: &[Synthetic]) -> Result<Self> {
        let (first, second) = match given.events.split_once("..") {
            Some((first, second)) => (Some(first), second),
            None => (None, given.events),
        };
        let mut opened = Self {
            event: event_name(second),
            target: None,
            first: None,
            synthetic: None,
            tables: Vec::new(),
            first_tables: Vec::new(),
        };
        if let Some(name) = given.synthetic() {
            let known = synthetic.iter().position(|one| one.format.name == name);
            opened.synthetic = Some(known.ok_or_else(|| unknown_synthetic(name, synthetic))?);
            return Ok(opened);
        }
        let tables = |target: &Target| {
            Print::parse(target.format()).map_or_else(|_| Vec::new(), |print| print.tables())
        };
        let target = Target::open(second)?;
        opened.tables = tables(&target);
        opened.target = Some(target);
        if let Some(first) = first {
            let target = Target::open(first)?;
            opened.first_tables = tables(&target);
            opened.first = Some(target);
        }
        Ok(opened)
    }
}

fn unknown_synthetic(name: &str, synthetic: &[Synthetic]) -> Usage {
    let name = noctule_text::escape(name);
    let names: Vec<_> = synthetic
        .iter()
        .map(|one| one.format.name.as_str())
        .collect();
    Usage(match names.as_slice() {
        [] => format!("synthetic:{name}: not defined: add --synth '{name} u64 FIELD; ...'"),
        names => format!(
            "synthetic:{name}: not defined: --synth defines {}",
            names.join(", ")
        ),
    })
}

/// Parses an event name in the form that variables and actions use: `sched.sched_switch`.
fn event_name(text: &str) -> EventName {
    let (system, event) = text.split_once(':').unwrap_or(("", text));
    EventName {
        system: system.to_owned(),
        event: event.to_owned(),
    }
}

/// Creates the tables of these triggers, in this order.
pub(super) fn jobs(
    all: &[Given<'_>],
    synthetic: &[Synthetic],
    symbols: &Kallsyms,
    groups: &Groups,
    pausable: bool,
) -> Result<Vec<Job>> {
    let opened: Vec<_> = all
        .iter()
        .map(|given| Opened::new(given, synthetic))
        .collect::<Result<_>>()?;
    let function = |wanted: Function<'_>| symbols.function(wanted);
    let mut linkable = Vec::new();
    for (given, one) in all.iter().zip(&opened) {
        let with = |(probe, format, tables)| Scope {
            probe,
            format,
            tables,
            function: &function,
            groups,
            cpus: TraceEvents::possible_cpus(),
        };
        let second = match (&one.target, one.synthetic) {
            (Some(target), _) => (target.probe(), target.format(), one.tables.as_slice()),
            (None, Some(index)) => (Probe::Synthetic, &synthetic[index].format, &[][..]),
            (None, None) => continue,
        };
        let first = one.first.as_ref();
        let first = first.map(|first| (first.probe(), first.format(), one.first_tables.as_slice()));
        linkable.push(Linkable {
            event: one.event.clone(),
            hist: &given.tree,
            scope: with(second),
            first: first.map(with),
            synthetic: one.synthetic,
        });
    }
    let made = linked(&linkable, synthetic, pausable).map_err(|(at, problems)| {
        let event = (all.len() > 1).then_some(all[at].events);
        refused(event, &problems, all[at].trigger)
    })?;
    drop(linkable);
    let made = all.iter().zip(opened).zip(made).enumerate();
    let jobs = made.map(|(number, ((given, opened), (programs, table)))| Job {
        number: Some(number),
        ..job(given, opened, programs, table)
    });
    Ok(jobs.collect())
}

fn job(given: &Given<'_>, opened: Opened, programs: Vec<Program>, table: Table) -> Job {
    Job {
        events: given.events.to_owned(),
        trigger: given.trigger.to_owned(),
        name: given.tree.name.as_ref().map(|name| name.node.clone()),
        tree: given.tree.clone(),
        is_hidden: given.is_hidden(&table),
        number: None,
        table,
        programs,
        targets: opened.target.into_iter().chain(opened.first).collect(),
        paused: given.tree.pause.is_some(),
    }
}
