//! Variables, and what an event does beside counting: the links between the events of one command.

use super::{Number, Program, Text};

/// What an event has to do with the others of its command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Linked {
    /// Its table, by the number that it has in the command.
    pub table: usize,
    /// Variables of other tables, found by this event's key. Where one of them is not set, nothing is
    /// counted and nothing is done.
    pub reads: Vec<Read>,
    /// Variables of its own, in order: each may use those before it.
    pub sets: Vec<Set>,
    /// What it does, in order, after it was counted.
    pub actions: Vec<Action>,
    /// Bytes that the table keeps for each key beside its rows: stored variables, and what was tracked.
    pub kept: usize,
}

impl Linked {
    /// The event has nothing to do with others.
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.sets.is_empty() && self.actions.is_empty()
    }
}

/// A variable of another table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The number of the table.
    pub table: usize,
    /// Where it lies in what that table keeps for the key.
    pub at: usize,
    /// Bytes of text behind the word that says that it is set; `None` for a number.
    pub text: Option<usize>,
    /// It is not set any more afterwards, as with the kernel's variables in expressions.
    pub once: bool,
}

/// A variable of the event's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// What it gets.
    pub value: Source,
    /// Where it is stored for the key; `None`: no other event reads it.
    pub at: Option<usize>,
}

/// A number or text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Eight bytes.
    Number(Number),
    /// Text.
    Text(Text),
}

impl Source {
    /// Bytes of the value; a multiple of eight.
    pub fn room(&self) -> usize {
        match self {
            Self::Number(_) => 8,
            Self::Text(text) => text.room(),
        }
    }

    /// Bytes that are stored of it as a variable. Of text, a word says whether it is set.
    pub fn stored(&self) -> usize {
        match self {
            Self::Number(_) => 8,
            Self::Text(text) => 8 + text.room(),
        }
    }
}

/// What an event does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Makes a synthetic event.
    Emit(Emit),
    /// Keeps the greatest or last value of a number for its key.
    Track(Track),
}

impl Action {
    /// The synthetic event that it makes.
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

/// The value of a number that is kept for its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// The number.
    pub number: Number,
    /// When it is kept.
    pub when: When,
    /// Where all CPUs find it, beside the stored variables; `None`: each CPU has its own, and the
    /// greatest counts.
    pub at: Option<usize>,
    /// The index in [`Program::values`] of what is saved: the time, the value and these.
    pub saved: usize,
    /// What is saved with it.
    pub fields: Vec<Source>,
    /// What is done then.
    pub emit: Option<Emit>,
}

/// When the value of a number is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum When {
    /// It is greater than what was kept, which is 0 at first.
    Greater,
    /// It differs from what was kept, which is 0 at first.
    Other,
}

/// A synthetic event: its record is made, and then counted by these programs at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emit {
    /// The number of the synthetic event.
    pub event: usize,
    /// Bytes of its record; a multiple of eight.
    pub size: usize,
    /// What is in it.
    pub fields: Vec<EmitField>,
    /// Who counts it.
    pub programs: Vec<Program>,
}

/// A field of a synthetic event's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmitField {
    /// Bytes from the record's start.
    pub offset: usize,
    /// Bytes of it; a number is cut to them.
    pub size: usize,
    /// What it gets.
    pub value: Source,
}
