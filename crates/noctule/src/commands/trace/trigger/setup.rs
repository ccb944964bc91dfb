//! Translates a command's triggers to watched events.

use anyhow::{Result, bail};
use noctule_kernel::TraceEvents;
use noctule_trace::parse;
use noctule_trace::tree::{self, Command, EventName};
use noctule_trace::watch::{Action, Shown, Trigger, Watch};

use crate::commands::trace::event_stream::{self, Node, WatchedEvents, either};
use crate::exit::Usage;

/// The events of a command with their triggers.
pub(super) struct Setup {
    pub(super) events: WatchedEvents,
    /// Triggers in the order of their numbers.
    pub(super) triggers: Vec<Given>,
    /// Initial state of each switch; the first one switches all tracing.
    pub(super) switches: Vec<bool>,
    /// Actions, by the index of the event.
    places: Vec<Place>,
    /// Whether a trigger turns tracing on or off.
    has_tracing_switch: bool,
}

/// A trigger as typed by the user.
pub(super) struct Given {
    pub(super) command: Command,
    pub(super) count: Option<u64>,
    /// The text of the trigger without the filter.
    pub(super) label: String,
}

/// The actions at an event.
#[derive(Default)]
struct Place {
    shown: Option<Shown>,
    /// The switch that determines whether the event is printed, if a trigger enables or disables
    /// the event.
    switch: Option<u32>,
    triggers: Vec<Trigger>,
    /// Commands of the event, including their targets.
    commands: Vec<Command>,
}

/// Number of the switch for all tracing.
const TRACING: u32 = 0;

impl Setup {
    pub(super) fn new(
        kernel: &TraceEvents,
        node: &Node,
        pairs: &[[String; 2]],
        traced: &[String],
        off: bool,
    ) -> Result<Self> {
        let mut setup = Self {
            events: WatchedEvents::default(),
            triggers: Vec::new(),
            switches: vec![!off],
            places: Vec::new(),
            has_tracing_switch: off,
        };
        for text in traced {
            let (name, filter) = event_stream::event(text)?;
            for place in setup.find(kernel, &name)? {
                let filter = match &filter {
                    Some(filter) => Some(setup.events.all()[place].condition(filter, text, node)?),
                    None => None,
                };
                let shown = &mut setup.places[place].shown;
                let filter = match shown.take() {
                    Some(before) => either(before.filter, filter),
                    None => filter,
                };
                *shown = Some(Shown {
                    switches: Vec::new(),
                    filter,
                });
            }
        }
        let mut parsed = Vec::new();
        for [event, text] in pairs {
            let (tree, problems) = parse::trigger(text);
            if !problems.is_empty() {
                bail!(event_stream::wrong(&problems, text));
            }
            parsed.push((event, text, tree));
        }
        setup.check(&parsed, off)?;
        // Events to enable come first, because an event can be disabled only if it is already
        // traced.
        for (_, _, tree) in &parsed {
            if let Command::EnableEvent(target) = &tree.command.node {
                setup.enabled(kernel, target)?;
            }
        }
        for (event, text, tree) in &parsed {
            setup.add(kernel, node, event, text, tree)?;
        }
        Ok(setup)
    }

    /// Returns the actions at each event, with the event's id in the kernel.
    pub(super) fn watches(&self) -> Vec<(u64, Watch)> {
        let one = |(event, place): (&event_stream::Watched, &Place)| {
            let tracing = self.has_tracing_switch.then_some(TRACING);
            let shown = place.shown.clone().map(|shown| Shown {
                switches: tracing.into_iter().chain(place.switch).collect(),
                ..shown
            });
            let watch = Watch {
                shape: event.shape(),
                shown,
                triggers: place.triggers.clone(),
            };
            (event.format.id, watch)
        };
        self.events
            .all()
            .iter()
            .zip(&self.places)
            .map(one)
            .collect()
    }

    /// Finds events and creates entries for their actions.
    fn find(&mut self, kernel: &TraceEvents, name: &str) -> Result<Vec<usize>> {
        let places = self.events.find(kernel, name)?;
        let count = self.events.all().len();
        self.places.resize_with(count, Place::default);
        Ok(places)
    }

    /// Returns an error for triggers that can never have an effect.
    fn check(&mut self, parsed: &[(&String, &String, tree::Trigger)], off: bool) -> Result<()> {
        let has = |command: Command| {
            parsed
                .iter()
                .any(|(_, _, tree)| tree.command.node == command)
        };
        let (on, out) = (has(Command::TraceOn), has(Command::TraceOff));
        self.has_tracing_switch = off || on || out;
        if on && !out && !off {
            bail!(Usage(
                "traceon: tracing is on from the start, and nothing turns it off; add --off, or a \
                 traceoff trigger"
                    .to_owned()
            ));
        }
        if off && !on {
            bail!(Usage(
                "--off: no trigger turns tracing on; add a traceon trigger".to_owned()
            ));
        }
        let shows = !self.places.is_empty()
            || parsed
                .iter()
                .any(|(_, _, tree)| matches!(tree.command.node, Command::EnableEvent(_)));
        if has(Command::Snapshot) && !shows {
            bail!(Usage(
                "snapshot shows the last traced events: add --trace EVENT".to_owned()
            ));
        }
        Ok(())
    }

    /// Adds a switch for the event. The switch is off at first, unless the event is also traced
    /// without a trigger.
    fn enabled(&mut self, kernel: &TraceEvents, target: &EventName) -> Result<()> {
        let name = format!("{}:{}", target.system, target.event);
        for place in self.find(kernel, &name)? {
            if self.places[place].switch.is_some() {
                continue;
            }
            let is_traced = self.places[place].shown.is_some();
            self.places[place].switch = Some(self.switch(is_traced));
            self.places[place].shown.get_or_insert_default();
        }
        Ok(())
    }

    fn switch(&mut self, on: bool) -> u32 {
        self.switches.push(on);
        u32::try_from(self.switches.len() - 1).unwrap_or(u32::MAX)
    }

    fn add(
        &mut self,
        kernel: &TraceEvents,
        node: &Node,
        event: &str,
        text: &str,
        tree: &tree::Trigger,
    ) -> Result<()> {
        let number = u16::try_from(self.triggers.len())?;
        let action = self.action(kernel, event, &tree.command.node)?;
        let count = tree.count.as_ref().map(|count| count.node);
        for place in self.find(kernel, event)? {
            let name = &self.events.all()[place].name;
            let filter = match &tree.filter {
                Some(filter) => Some(self.events.all()[place].condition(filter, text, node)?),
                None => None,
            };
            if self.places[place].commands.contains(&tree.command.node) {
                let label = label(tree);
                bail!(Usage(format!(
                    "File exists: {name} has a trigger {label} already"
                )));
            }
            self.places[place].commands.push(tree.command.node.clone());
            self.places[place].triggers.push(Trigger {
                number,
                action,
                counted: count.is_some(),
                filter,
            });
        }
        self.triggers.push(Given {
            command: tree.command.node.clone(),
            count,
            label: label(tree),
        });
        Ok(())
    }

    fn action(&mut self, kernel: &TraceEvents, event: &str, command: &Command) -> Result<Action> {
        let tracing = |on| Action::Switch {
            switch: TRACING,
            on,
            after: !on,
        };
        Ok(match command {
            Command::Stacktrace => Action::Stack {
                switch: self.has_tracing_switch.then_some(TRACING),
            },
            Command::Snapshot => Action::Mark,
            Command::TraceOn => tracing(true),
            Command::TraceOff => tracing(false),
            Command::EnableEvent(target) => self.switching(kernel, target, true)?,
            Command::DisableEvent(target) => self.switching(kernel, target, false)?,
            Command::Hist(_) => bail!(Usage(format!(
                "hist is a command of its own: noctule hist {event} 'keys=...'"
            ))),
            Command::EnableHist(of) | Command::DisableHist(of) => bail!(Usage(format!(
                "enable_hist and disable_hist switch the tables of noctule hist: noctule hist \
                 {0}:{1} 'keys=...' {event} 'enable_hist:{0}:{1}'",
                of.system, of.event
            ))),
            Command::Unknown(word) => bail!(Usage(format!("Unknown trigger {word}"))),
        })
    }

    /// Returns the action that shows or hides another event.
    fn switching(&mut self, kernel: &TraceEvents, target: &EventName, on: bool) -> Result<Action> {
        let name = format!("{}:{}", target.system, target.event);
        let &[place] = &self.find(kernel, &name)?[..] else {
            bail!(Usage(format!(
                "{name}: a trigger switches one event, not a pattern"
            )));
        };
        if self.places[place].shown.is_none() {
            bail!(Usage(format!(
                "disable_event:{name}: this command does not trace {name}; add --trace {name}"
            )));
        }
        let switch = match self.places[place].switch {
            Some(switch) => switch,
            None => self.switch(true),
        };
        self.places[place].switch = Some(switch);
        Ok(Action::Switch {
            switch,
            on,
            after: false,
        })
    }
}

/// Formats a trigger without its filter, such as `enable_event:sched:sched_switch:3`.
fn label(tree: &tree::Trigger) -> String {
    let plain = tree::Trigger {
        filter: None,
        ..tree.clone()
    };
    plain.to_string()
}
