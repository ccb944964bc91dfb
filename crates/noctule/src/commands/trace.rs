//! `noctule trace`: every event that matches, with all its fields.

use anyhow::Result;
use noctule_kernel::TraceEvents;
use noctule_trace::program::{Condition, ConditionKind};
use noctule_trace::watch::{Plan, Shown, Watch, WatchSession};

use super::refusal::not_started;
use super::watch::{Output, Reader};
use super::watched::{self, Lines, More, Node, WatchedEvents};
use crate::args::TraceArgs;
use crate::exit;
use crate::stop::Signals;

pub(super) fn run(args: &TraceArgs) -> Result<u8> {
    let mut output = Output::open(args.output.as_deref())?;
    let signals = Signals::catch()?;
    let kernel = super::tracepoints::open()?;
    let node = Node::default();
    let mut events = WatchedEvents::default();
    let shown = wanted(args, &kernel, &node, &mut events)?;
    let plan: Vec<_> = events
        .all()
        .iter()
        .zip(&shown)
        .map(|(event, wanted)| {
            let watch = Watch {
                shape: event.shape(),
                shown: Some(Shown {
                    switches: Vec::new(),
                    filter: wanted.condition.clone(),
                }),
                triggers: Vec::new(),
            };
            (event.format.id, watch)
        })
        .collect();
    let plan = Plan {
        events: &plan,
        switches: &[],
        counts: &[],
        ring: watched::ring(args.buffer)?,
    };
    let mut session = WatchSession::start(&kernel, &plan).map_err(|(place, error)| {
        let name = &events.all()[place].name;
        not_started(name, shown.get(place).map(|wanted| wanted.text), error)
    })?;
    let lines = Lines::new(
        events.all(),
        &node.symbols,
        &kernel,
        args.json,
        output.paint(),
    );
    if output.write(&lines.head())? == Reader::Gone {
        return Ok(exit::DONE);
    }
    let mut left = args.max.unwrap_or(u64::MAX);
    let losses = watched::follow(
        &mut session,
        &signals,
        args.duration,
        &mut output,
        |arrival, out| {
            if left == 0 {
                return More::Enough;
            }
            lines.event(arrival, out);
            left -= 1;
            if left == 0 {
                More::Enough
            } else {
                More::Wanted
            }
        },
    )?;
    if let Some(losses) = losses {
        let mut text = String::new();
        lines.losses(&losses, &mut text);
        output.write(&text)?;
    }
    node.groups.refresh();
    node.groups.warn_of_late("shown");
    Ok(exit::DONE)
}

/// Finds the events that are named; answers which records of each are shown.
fn wanted<'a>(
    args: &'a TraceArgs,
    kernel: &TraceEvents,
    node: &Node,
    events: &mut WatchedEvents,
) -> Result<Vec<Wanted<'a>>> {
    let mut shown: Vec<Wanted<'_>> = Vec::new();
    for text in &args.events {
        let (name, filter) = watched::event(text)?;
        for place in events.find(kernel, &name)? {
            let condition = match &filter {
                Some(filter) => Some(events.all()[place].condition(filter, text, node)?),
                None => None,
            };
            match shown.get_mut(place) {
                Some(wanted) => wanted.or(condition),
                None => shown.push(Wanted { condition, text }),
            }
        }
    }
    Ok(shown)
}

/// Which records of an event are shown.
struct Wanted<'a> {
    /// `None`: all of them.
    condition: Option<Condition>,
    /// What the user typed, for the first filter.
    text: &'a str,
}

impl Wanted<'_> {
    /// An event that is given twice is shown where either filter holds.
    fn or(&mut self, other: Option<Condition>) {
        self.condition = match (self.condition.take(), other) {
            (Some(one), Some(other)) => Some(Condition {
                span: one.span,
                kind: ConditionKind::Any(vec![one, other]),
            }),
            _ => None,
        };
    }
}
