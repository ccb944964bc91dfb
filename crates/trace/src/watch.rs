//! What one command does at its events: the records that it shows, and its triggers.
//!
//! [`Watch`] is what happens at one event, without a word about instructions
//! ([`emit::watch`](crate::emit::watch) makes them). [`Arrivals`] puts what the programs of all CPUs
//! sent into the order of time; [`WatchSession`] runs them.

mod arrivals;
mod session;

use crate::format::EventFormat;
use crate::program::Condition;

pub use arrivals::{Arrival, Arrivals, FRAMES, HEAD, STACK_ROOM};
pub use session::{Losses, Plan, WatchSession};

/// The kernel makes no longer records (`PERF_MAX_TRACE_SIZE`).
pub const LONGEST_RECORD: u32 = 8192;

/// What happens at one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// How much of the record is sent.
    pub shape: Shape,
    /// The event itself is shown.
    pub shown: Option<Shown>,
    /// Its triggers, in the order in which they were given.
    pub triggers: Vec<Trigger>,
}

/// How long the records of an event are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Bytes up to the end of the last field that is in the record itself.
    pub fixed: u32,
    /// Where the words of dynamic fields lie, and whether their offsets count from the end of the word.
    pub dynamic: Vec<(u32, bool)>,
}

impl Shape {
    /// The shape of an event's records, by the fields that a program gets
    /// ([`EventFormat::parse_of`]).
    pub fn of(format: &EventFormat) -> Self {
        let mut shape = Self {
            fixed: 8,
            dynamic: Vec::new(),
        };
        for field in &format.fields {
            if let Some(relative) = field.is_dynamic() {
                shape.dynamic.push((field.offset, relative));
            }
            shape.fixed = shape.fixed.max(field.offset + field.size);
        }
        shape
    }
}

/// When an event is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Switches that have to be on.
    pub switches: Vec<u32>,
    /// Has to hold.
    pub filter: Option<Condition>,
}

/// A trigger of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// Its number in the command, by which its arrivals and its count are found.
    pub number: u16,
    /// What it does.
    pub action: Action,
    /// It has a count.
    pub counted: bool,
    /// Has to hold.
    pub filter: Option<Condition>,
}

/// What a trigger does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Sends the kernel's stack, while this switch is on if there is one. The count is used up also while
    /// it is off, as the kernel's.
    Stack {
        /// The number of the switch.
        switch: Option<u32>,
    },
    /// Sends a mark: what was seen up to now is to be kept.
    Mark,
    /// Turns a switch on or off, and says so if that changed it.
    Switch {
        /// Its number.
        switch: u32,
        /// On.
        on: bool,
        /// After the event is shown, as the kernel's `traceoff`.
        after: bool,
    },
}

impl Action {
    /// It comes after the event is shown, as the kernel's triggers of that kind.
    pub const fn is_after(self) -> bool {
        match self {
            Self::Stack { .. } => true,
            Self::Mark => false,
            Self::Switch { after, .. } => after,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_is_the_formats() {
        let text = "name: a\nID: 1\n\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n\
                    \tfield:__data_loc char[] b;\toffset:12;\tsize:4;\tsigned:0;\n\
                    \tfield:__rel_loc char[] c;\toffset:16;\tsize:4;\tsigned:0;\n";
        let format = EventFormat::parse(text).unwrap();
        let shape = Shape::of(&format);
        assert_eq!(shape.fixed, 20);
        assert_eq!(shape.dynamic, [(12, false), (16, true)]);
    }
}
