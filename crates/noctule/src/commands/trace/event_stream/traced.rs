//! Events that are printed if their filter matches.

use anyhow::Result;
use noctule_kernel::TraceEvents;
use noctule_trace::program::{Condition, ConditionKind};
use noctule_trace::watch::{Plan, Shown, Watch, WatchSession};

use crate::commands::trace::event_stream::{Node, WatchedEvents, event, ring};
use crate::commands::trace::refusal::not_started;
use crate::commands::trace::tracepoints::Skipped;

/// The traced events, and for each of them the filter of its records.
pub(in crate::commands) struct Traced<'a> {
    pub(in crate::commands) events: WatchedEvents,
    /// Filters, by the index of the event.
    shown: Vec<Wanted<'a>>,
}

/// Filter for the records of an event.
struct Wanted<'a> {
    /// `None` if all records are printed.
    condition: Option<Condition>,
    /// The user's text for the first filter.
    text: &'a str,
}

impl<'a> Traced<'a> {
    /// Finds the events for these arguments. Each is `SYSTEM:EVENT [if FILTER]`, or a pattern.
    pub(in crate::commands) fn find(
        texts: &'a [String],
        kernel: &TraceEvents,
        node: &Node,
    ) -> Result<Self> {
        let mut events = WatchedEvents::default();
        let mut shown: Vec<Wanted<'_>> = Vec::new();
        let mut skipped = Skipped::default();
        for text in texts {
            let (name, filter) = event(text)?;
            let places = skipped.pass(events.find(kernel, &name))?;
            for place in places.unwrap_or_default() {
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
        skipped.finish(events.all().is_empty())?;
        Ok(Self { events, shown })
    }

    /// Starts to watch the events. `buffer` is the size of the ring between kernel and command, in
    /// bytes.
    pub(in crate::commands) fn start(
        &self,
        kernel: &TraceEvents,
        buffer: u64,
    ) -> Result<WatchSession> {
        let watch = |(event, wanted): (&super::Watched, &Wanted<'_>)| {
            let watch = Watch {
                shape: event.shape(),
                shown: Some(Shown {
                    switches: Vec::new(),
                    filter: wanted.condition.clone(),
                }),
                triggers: Vec::new(),
            };
            (event.format.id, watch)
        };
        let all = self.events.all();
        let watches: Vec<_> = all.iter().zip(&self.shown).map(watch).collect();
        let plan = Plan {
            events: &watches,
            switches: &[],
            counts: &[],
            ring: ring(buffer)?,
        };
        WatchSession::start(kernel, &plan).map_err(|(place, error)| {
            let text = self.shown.get(place).map(|wanted| wanted.text);
            not_started(&all[place].name, text, error)
        })
    }
}

impl Wanted<'_> {
    /// Adds a filter. If an event is given twice, it is printed if either filter matches.
    fn or(&mut self, other: Option<Condition>) {
        self.condition = either(self.condition.take(), other);
    }
}

/// Returns a condition that is true if either filter is true. `None` is a filter that is always
/// true.
pub(in crate::commands) fn either(
    one: Option<Condition>,
    other: Option<Condition>,
) -> Option<Condition> {
    let (one, other) = one.zip(other)?;
    Some(Condition {
        span: one.span,
        kind: ConditionKind::Any(vec![one, other]),
    })
}
