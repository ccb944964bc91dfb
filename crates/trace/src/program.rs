//! What a command asks of one event, with every name resolved: the form between the tree and the
//! instructions.
//!
//! All numbers have 64 bits. A field that has fewer is extended by its own signedness, so that a
//! comparison of two numbers needs to know only whether both are below zero or far above.

mod linked;

use crate::classic::Classic;
use crate::probe::Probe;
use crate::source::Span;

pub use linked::{Action, Emit, EmitField, Linked, Read, Set, Source, Track, When};

/// A program for one event: a table that is fed by what passes a filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Where it runs.
    pub probe: Probe,
    /// Of a packet: a classic filter that it has to pass first.
    pub classic: Option<Classic>,
    /// What has to hold.
    pub filter: Option<Condition>,
    /// The parts of the table's key, in order. None: the table has one row.
    pub keys: Vec<Part>,
    /// What is kept beside the count of hits.
    pub values: Vec<Kept>,
    /// Where the event stands among two that belong together.
    pub pair: Pair,
    /// The table can be paused while it counts.
    pub pausable: bool,
    /// It counts only while the gate of the command is open, so that all of its programs count in one window.
    pub gated: bool,
    /// Variables, and what is done beside counting.
    pub linked: Linked,
    /// It counts nothing, and turns tables of others on or off.
    pub switch: Option<Switch>,
}

/// What an event does to tables of others (`enable_hist`, `disable_hist`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Their numbers. All of them can be paused.
    pub tables: Vec<usize>,
    /// From then on they count.
    pub on: bool,
    /// How often it does so; `None`: without end.
    pub count: Option<u64>,
}

/// Two events whose distance in time is asked for. They belong together when their keys are equal; each
/// part of these is a number or text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pair {
    /// The event stands alone.
    #[default]
    None,
    /// The first of both: its time is kept for its key, in place of an earlier one, and nothing is
    /// counted.
    First(Vec<Part>),
    /// The second of both: without a first one of its key nothing is counted, and no other finds that
    /// one again. Then comes the filter.
    Second(Vec<Part>),
}

/// Addresses of a stack that are kept, as many as the kernel's own histograms have.
pub const FRAMES: usize = 16;

/// One part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Eight bytes.
    Number(Number),
    /// Text, up to its first NUL; the rest of its room is zero, and one byte of it at least. Text that
    /// cannot be read is empty.
    Text(Text),
    /// Sixteen bytes of the record: an IP address.
    Address {
        /// Bytes from the record's start; a multiple of eight.
        offset: u32,
    },
    /// The addresses of the kernel's stack, [`FRAMES`] of them at most; the rest of its room is zero. A session
    /// gives each a number.
    Stack,
}

impl Part {
    /// Bytes in the key; a multiple of eight.
    pub fn size(&self) -> usize {
        match self {
            Self::Number(_) => 8,
            Self::Stack => 8 * FRAMES,
            Self::Text(text) => text.room(),
            Self::Address { .. } => 16,
        }
    }
}

/// What a row of the table keeps of a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The number.
    pub number: Number,
    /// What is kept of it.
    pub what: Aggregate,
}

/// What is kept of the numbers of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aggregate {
    /// Their sum, modulo 2^64.
    Sum,
    /// The least, as signed or unsigned numbers.
    Minimum {
        /// Numbers below zero are possible.
        signed: bool,
    },
    /// The greatest.
    Maximum {
        /// Numbers below zero are possible.
        signed: bool,
    },
    /// How many fell into each bucket of [`crate::buckets`].
    Buckets,
    /// When the number was kept last, the number, and what was saved with it: see
    /// [`Track::saved`]. An action writes it.
    Saved {
        /// Words of all.
        words: usize,
        /// Which of several CPUs counts.
        when: When,
    },
}

/// A number of 64 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Number {
    /// A constant; below zero as two's complement.
    Constant(u64),
    /// A field of the record.
    Field(FieldRead),
    /// An element of an array in the record, found by a word with its offset.
    DynamicField {
        /// Where the word lies in the record.
        word: u32,
        /// The offset counts from the end of the word.
        relative: bool,
        /// Bytes from the first element.
        skip: u32,
        /// Bytes of the element.
        size: u32,
        /// It is extended as a signed number.
        signed: bool,
    },
    /// Where the event happened.
    Context(Context),
    /// Eight bytes that are found from the kernel's record of the thread (`struct task_struct`): each
    /// offset but the last leads to the next pointer. What cannot be read is 0.
    OfThread(Vec<u32>),
    /// The variable of another table, by its index in [`Linked::reads`].
    Read(usize),
    /// The variable of its own at this index of [`Linked::sets`].
    Own(usize),
    /// The result of an operator.
    Binary(Operator, Box<Number>, Box<Number>),
    /// `ceil(log2(x))`; 0 of 0, as the kernel's on x86.
    Log2(Box<Number>),
    /// `x / width * width`.
    Bucket {
        /// Of what.
        number: Box<Number>,
        /// Not 0.
        width: u64,
    },
}

/// A number in the record itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldRead {
    /// Bytes from the record's start.
    pub offset: u32,
    /// 1, 2, 4 or 8.
    pub size: u32,
    /// It is extended as a signed number.
    pub signed: bool,
}

/// What is known of every event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    /// The thread's id, `common_pid`.
    Pid,
    /// The process id.
    Tgid,
    /// The CPU.
    Cpu,
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    Time,
    /// The id of the thread's cgroup in the unified hierarchy.
    Cgroup,
    /// Nanoseconds since the first of two events; only in [`Pair::Second`].
    Latency,
}

/// An operator on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say what they are")]
pub enum Operator {
    Plus,
    Minus,
    Times,
    /// Unsigned; by 0 the result is 2^64-1, as in the kernel's histograms.
    Divided,
    /// Unsigned; by 0 the result is 2^64-1.
    Remainder,
    And,
    Or,
    Xor,
    /// By the low six bits of the second.
    ShiftLeft,
    /// By the low six bits of the second; zeros come in.
    ShiftRight,
    /// Rounded towards zero; by 0 the result is -1.
    SignedDivided,
    /// With the sign of the first; by 0 the result is -1.
    SignedRemainder,
    /// By the low six bits of the second; the sign comes in.
    SignedShiftRight,
}

/// Text of an event, up to its first NUL, and not beyond its field. What cannot be read is not equal to
/// anything and matches nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// In the record, in a field of this size.
    Field {
        /// Bytes from the record's start.
        offset: u32,
        /// Bytes of the field.
        size: u32,
    },
    /// In the record, found by a word with offset and length.
    Dynamic {
        /// Where the word lies in the record.
        word: u32,
        /// The offset counts from the end of the word.
        relative: bool,
    },
    /// Behind a pointer.
    Pointer {
        /// The field with the pointer.
        field: FieldRead,
        /// It points to memory of the process.
        user: bool,
    },
    /// The name of the thread.
    Comm,
    /// The variable of another table, by its index in [`Linked::reads`].
    Read {
        /// The index.
        index: usize,
        /// Bytes of it; a multiple of eight.
        room: usize,
    },
}

/// Longest text that is kept of a field without a length of its own, with its NUL.
pub const TEXT_ROOM: usize = 256;

impl Text {
    /// Bytes that it takes in a key; a multiple of eight.
    pub fn room(&self) -> usize {
        match self {
            Self::Field { size, .. } => (*size as usize).min(TEXT_ROOM).next_multiple_of(8),
            Self::Dynamic { .. } | Self::Pointer { .. } => TEXT_ROOM,
            Self::Comm => 16,
            Self::Read { room, .. } => *room,
        }
    }
}

/// What holds or does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// What it is.
    pub kind: ConditionKind,
    /// The characters that asked for it: an instruction that the kernel refuses is shown there.
    pub span: Span,
}

/// What a condition is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionKind {
    /// Both numbers are compared.
    Compare {
        /// How.
        how: Comparison,
        /// As signed numbers.
        signed: bool,
        /// What stands on the left.
        left: Number,
        /// What stands on the right.
        right: Number,
    },
    /// Any bit is common.
    AnyBit(Number, Number),
    /// The number is one of these.
    OneOf(Number, Vec<u64>),
    /// The text is exactly this.
    Equals(Text, Vec<u8>),
    /// The text matches, of which the first 255 characters are looked at.
    Matches(Text, crate::glob::Glob),
    /// The other does not hold.
    Not(Box<Condition>),
    /// All hold; the first that does not ends it.
    All(Vec<Condition>),
    /// One holds; the first that does ends it.
    Any(Vec<Condition>),
}

/// How two numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say what they are")]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}
