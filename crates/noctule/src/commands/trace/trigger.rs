//! `noctule trigger`: the kernel's event triggers, implemented by noctule's own programs.

mod setup;

use std::collections::VecDeque;

use anyhow::{Result, bail};
use noctule_trace::tree::Command;
use noctule_trace::watch::{Arrival, Plan, WatchSession};

use super::event_stream::{self, Lines, More, Node};
use super::refusal::not_started;
use crate::args::TriggerArgs;
use crate::commands::shared::watch::{Output, Reader};
use crate::exit::{self, Usage};
use crate::stop::Signals;
use setup::Setup;

pub(crate) fn run(args: &TriggerArgs) -> Result<u8> {
    let (pairs, rest) = args.pairs.as_chunks::<2>();
    if !rest.is_empty() {
        bail!(Usage(
            "each EVENT needs its ACTION, such as sched:sched_process_exit stacktrace:5".to_owned()
        ));
    }
    let mut output = Output::open(args.output.as_deref())?;
    let signals = Signals::catch()?;
    let kernel = super::tracepoints::open()?;
    let node = Node::default();
    let setup = Setup::new(&kernel, &node, pairs, &args.trace, args.off)?;
    let watches = setup.watches();
    let counts: Vec<_> = setup.triggers.iter().map(|one| one.count).collect();
    let plan = Plan {
        events: &watches,
        switches: &setup.switches,
        counts: &counts,
        ring: event_stream::ring(args.buffer)?,
    };
    let mut session = WatchSession::start(&kernel, &plan)
        .map_err(|(place, error)| not_started(&setup.events.all()[place].name, None, error))?;
    node.groups.warn_of_unknown();
    let lines = Lines::new(
        setup.events.all(),
        &node.symbols,
        &kernel,
        args.json,
        output.paint(),
    );
    if output.write(&lines.head())? == Reader::Gone {
        return Ok(exit::DONE);
    }
    let mut show = Show::new(&setup, &lines, args);
    let losses = event_stream::follow(
        &mut session,
        &signals,
        args.duration,
        &mut output,
        |arrival, out| show.take(arrival, out),
    )?;
    if let Some(losses) = losses {
        let mut text = String::new();
        lines.losses(&losses, &mut text);
        output.write(&text)?;
    }
    node.groups.refresh();
    node.groups.warn_of_late("seen");
    Ok(exit::DONE)
}

/// Prints arriving records and holds events for a snapshot.
struct Show<'a> {
    setup: &'a Setup,
    lines: &'a Lines<'a>,
    /// Lines of the last events, if there is a snapshot trigger.
    kept: Option<VecDeque<String>>,
    room: usize,
    /// Number of times that each trigger acted.
    done: Vec<u64>,
    left: u64,
}

impl<'a> Show<'a> {
    fn new(setup: &'a Setup, lines: &'a Lines<'a>, args: &TriggerArgs) -> Self {
        let mut triggers = setup.triggers.iter();
        let keeps = triggers.any(|one| one.command == Command::Snapshot);
        Self {
            setup,
            lines,
            kept: keeps.then(VecDeque::new),
            room: args.keep,
            done: vec![0; setup.triggers.len()],
            left: args.max.unwrap_or(u64::MAX),
        }
    }

    fn take(&mut self, arrival: &Arrival, out: &mut String) -> More {
        match arrival.trigger {
            None => self.event(arrival, out),
            Some(number) => self.trigger(arrival, usize::from(number), out),
        }
        if self.left == 0 {
            More::Enough
        } else {
            More::Wanted
        }
    }

    fn event(&mut self, arrival: &Arrival, out: &mut String) {
        let Some(kept) = &mut self.kept else {
            if self.left > 0 {
                self.lines.event(arrival, out);
                self.left -= 1;
            }
            return;
        };
        let mut line = String::new();
        self.lines.event(arrival, &mut line);
        kept.push_back(line);
        if kept.len() > self.room {
            kept.pop_front();
        }
    }

    fn trigger(&mut self, arrival: &Arrival, number: usize, out: &mut String) {
        let Some(trigger) = self.setup.triggers.get(number) else {
            return;
        };
        self.done[number] += 1;
        // Several CPUs can exceed the count simultaneously; their extra actions are dropped.
        if self.left == 0 || trigger.count.is_some_and(|count| self.done[number] > count) {
            return;
        }
        if trigger.command == Command::Snapshot {
            let kept = self.kept.iter_mut().flat_map(std::mem::take);
            out.extend(kept);
        }
        self.lines.trigger(arrival, &trigger.label, out);
        self.left -= 1;
    }
}
