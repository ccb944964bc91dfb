//! Variables and actions, which link the events of a command.

use super::{Number, Program, Text};

/// The links of an event to the other events of its command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Linked {
    /// Number of the event's table in the command.
    pub table: usize,
    /// Variables of other tables, looked up by this event's key. If one of the variables is not
    /// set, the event is ignored.
    pub reads: Vec<Read>,
    /// Variables of the event itself, in order. Each may refer to earlier ones.
    pub sets: Vec<Set>,
    /// Actions after the event was counted, in order.
    pub actions: Vec<Action>,
    /// Bytes stored per key next to the row: variables and tracked values.
    pub kept: usize,
}

impl Linked {
    /// Whether the event has no links.
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.sets.is_empty() && self.actions.is_empty()
    }
}

/// A variable of another table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub table: usize,
    /// Offset in the values that the table stores for the key.
    pub at: usize,
    /// Size of the text that follows the word which marks the variable as set; `None` for a number.
    pub text: Option<usize>,
    /// Whether reading unsets the variable, as in expressions of the kernel's histograms.
    pub once: bool,
}

/// A variable of the event itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    pub value: Source,
    /// Offset in the values that the table stores for the key; `None` if no other event reads the
    /// variable.
    pub at: Option<usize>,
}

/// A number or text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Number(Number),
    Text(Text),
}

impl Source {
    /// Returns the size of the value in bytes, a multiple of eight.
    pub fn room(&self) -> usize {
        match self {
            Self::Number(_) => 8,
            Self::Text(text) => text.room(),
        }
    }

    /// Returns the size of the value when stored as a variable. Text takes one more word, which
    /// marks the text as set.
    pub fn stored(&self) -> usize {
        match self {
            Self::Number(_) => 8,
            Self::Text(text) => 8 + text.room(),
        }
    }
}

/// An action of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Generates a synthetic event.
    Emit(Emit),
    /// Tracks the maximum or the latest value of a number per key.
    Track(Track),
}

impl Action {
    /// Returns the synthetic event that the action generates.
    pub fn emit(&self) -> Option<&Emit> {
        match self {
            Self::Emit(emit) => Some(emit),
            Self::Track(track) => track.emit.as_ref(),
        }
    }

    pub(crate) fn emit_mut(&mut self) -> Option<&mut Emit> {
        match self {
            Self::Emit(emit) => Some(emit),
            Self::Track(track) => track.emit.as_mut(),
        }
    }
}

/// A number that is tracked per key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    pub number: Number,
    /// Condition for keeping a new value.
    pub when: When,
    /// Offset of the tracked value among the stored variables, if all CPUs share it. `None` if each
    /// CPU has its own value, and the maximum of them is shown.
    pub at: Option<usize>,
    /// Index in [`Program::values`] of the saved data: the time, the number and `fields`.
    pub saved: usize,
    /// Fields that are saved with the number.
    pub fields: Vec<Source>,
    /// Synthetic event to generate when a value is kept.
    pub emit: Option<Emit>,
}

/// The condition for keeping a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum When {
    /// The value is greater than the kept one, which is initially 0.
    Greater,
    /// The value differs from the kept one, which is initially 0.
    Other,
}

/// A synthetic event: the program builds its record, and then these programs count it immediately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emit {
    pub event: usize,
    /// Size of the event's record in bytes, a multiple of eight.
    pub size: usize,
    pub fields: Vec<EmitField>,
    /// The programs that count the event.
    pub programs: Vec<Program>,
}

/// A field of a synthetic event's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmitField {
    /// Offset in the record.
    pub offset: usize,
    /// Size in bytes, to which numbers are truncated.
    pub size: usize,
    pub value: Source,
}
