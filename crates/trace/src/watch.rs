//! Watches events: which records a command shows, and its triggers.
//!
//! [`Watch`] describes the handling of one event. [`emit::watch`](crate::emit::watch) compiles it.
//! [`WatchSession`] runs the programs, and [`Arrivals`] sorts the messages of all CPUs by time.

mod arrivals;
mod session;

use crate::format::EventFormat;
use crate::program::Condition;

pub use arrivals::{Arrival, Arrivals, FRAMES, HEAD, STACK_ROOM};
pub use session::{Losses, Plan, WatchSession};

/// The kernel's limit for records (`PERF_MAX_TRACE_SIZE`).
pub const LONGEST_RECORD: u32 = 8192;

/// The handling of one event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// The part of the record that the program sends to user space.
    pub shape: Shape,
    /// When the event itself is shown; `None` if it only has triggers.
    pub shown: Option<Shown>,
    /// The triggers, in the given order.
    pub triggers: Vec<Trigger>,
}

/// Determines the length of an event's records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// End of the last field with a fixed offset, in bytes.
    pub fixed: u32,
    /// Offsets of the words of dynamic fields, and whether the locations in them count from the end
    /// of the word.
    pub dynamic: Vec<(u32, bool)>,
}

impl Shape {
    /// Returns the shape of an event's records for the fields that a program can read
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

/// The conditions for showing an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Switches that must all be on.
    pub switches: Vec<u32>,
    pub filter: Option<Condition>,
}

/// A trigger of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// Number of the trigger in the command, which identifies its messages and its count.
    pub number: u16,
    pub action: Action,
    pub counted: bool,
    pub filter: Option<Condition>,
}

/// The action of a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Sends the kernel stack, if the switch is on or absent. As in the kernel, the count decreases
    /// even while the switch is off.
    Stack {
        /// Number of the switch.
        switch: Option<u32>,
    },
    /// Sends a mark: user space keeps the events so far.
    Mark,
    /// Sets a switch, and sends a message if the state of the switch changed.
    Switch {
        /// Number of the switch.
        switch: u32,
        on: bool,
        /// Whether the trigger acts after the event is shown, like the kernel's `traceoff`.
        after: bool,
    },
}

impl Action {
    /// Whether the action takes place after the event is shown, as for the corresponding kernel
    /// triggers.
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
    fn the_shape_follows_the_format() {
        let text = "name: a\nID: 1\n\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n\
                    \tfield:__data_loc char[] b;\toffset:12;\tsize:4;\tsigned:0;\n\
                    \tfield:__rel_loc char[] c;\toffset:16;\tsize:4;\tsigned:0;\n";
        let format = EventFormat::parse(text).unwrap();
        let shape = Shape::of(&format);
        assert_eq!(shape.fixed, 20);
        assert_eq!(shape.dynamic, [(12, false), (16, true)]);
    }
}
