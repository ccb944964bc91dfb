//! The resolved form of a command for one event, between the tree and the instructions.
//!
//! All numbers have 64 bits. A shorter field is extended according to its own signedness. A
//! comparison therefore only needs to know whether it is signed.

mod linked;

use crate::classic::Classic;
use crate::probe::Probe;
use crate::source::Span;

pub use linked::{Action, Emit, EmitField, Linked, Read, Set, Source, Track, When};

/// A program for one event: a table that counts the events that pass a filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    pub probe: Probe,
    /// A classic filter that packets must pass first.
    pub classic: Option<Classic>,
    /// The condition for counting an event.
    pub filter: Option<Condition>,
    /// The parts of the table's key, in order. If empty, the table has one row.
    pub keys: Vec<Part>,
    /// The values that are kept in addition to the hit count.
    pub values: Vec<Kept>,
    /// The role of the event in a pair.
    pub pair: Pair,
    /// Whether the table can be paused.
    pub pausable: bool,
    /// Whether the program counts only while the gate of the command is open. All programs of the
    /// command then count in the same time window.
    pub gated: bool,
    /// Variables and actions.
    pub linked: Linked,
    /// Set if the event only pauses or resumes other tables and counts nothing.
    pub switch: Option<Switch>,
}

/// The effect of an event on other tables (`enable_hist`, `disable_hist`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Numbers of the tables, all of which can be paused.
    pub tables: Vec<usize>,
    /// True if the event resumes the tables, false if it pauses them.
    pub on: bool,
    /// Maximum number of times that the event acts; `None` for no limit.
    pub count: Option<u64>,
}

/// The role of an event in a pair whose latency is measured. Two events form a pair if their keys
/// are equal. Each part of the key is a number or text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pair {
    /// The event is not part of a pair.
    #[default]
    None,
    /// The first event: stores its time by key and replaces an earlier time. A first event is not
    /// counted.
    First(Vec<Part>),
    /// The second event: takes the time of the first event with the same key. Without such a first
    /// event it is not counted. The filter is evaluated afterwards.
    Second(Vec<Part>),
}

/// Number of addresses that are kept of a stack, the same as in the kernel's histograms.
pub const FRAMES: usize = 16;

/// A part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Eight bytes.
    Number(Number),
    /// Text up to its first NUL, padded with at least one zero. Unreadable text is empty.
    Text(Text),
    /// An IP address: sixteen bytes of the record.
    Address {
        /// Offset in the record, a multiple of eight.
        offset: u32,
    },
    /// The addresses of the kernel stack, at most [`FRAMES`], padded with zeros. A session assigns
    /// an id to each stack.
    Stack,
}

impl Part {
    /// Returns the size of this part in bytes, a multiple of eight.
    pub fn size(&self) -> usize {
        match self {
            Self::Number(_) => 8,
            Self::Stack => 8 * FRAMES,
            Self::Text(text) => text.room(),
            Self::Address { .. } => 16,
        }
    }
}

/// A number, and its aggregate that a row keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub number: Number,
    pub what: Aggregate,
}

/// An aggregate of the numbers of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aggregate {
    /// The sum modulo 2^64.
    Sum,
    Minimum {
        signed: bool,
    },
    Maximum {
        signed: bool,
    },
    /// The hit count of each bucket of [`crate::buckets`].
    Buckets,
    /// The time of the last kept number, the number, and the fields saved with it: see
    /// [`Track::saved`]. An action writes these values.
    Saved {
        words: usize,
        /// Determines which CPU's value is shown.
        when: When,
    },
}

/// A 64-bit number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Number {
    /// A constant; negative numbers in two's complement.
    Constant(u64),
    /// A field of the record.
    Field(FieldRead),
    /// An element of a dynamic array in the record.
    DynamicField {
        /// Offset of the word that locates the array.
        word: u32,
        /// Whether the array's offset counts from the end of the word.
        relative: bool,
        /// Offset of the element in the array, in bytes.
        skip: u32,
        /// Size of the element in bytes.
        size: u32,
        signed: bool,
    },
    /// A property of the event's context.
    Context(Context),
    /// Eight bytes that are reached from the kernel's `struct task_struct` of the current thread.
    /// Each offset except the last leads to the next pointer. Unreadable memory yields 0.
    OfThread(Vec<u32>),
    /// A variable of another table, by its index in [`Linked::reads`].
    Read(usize),
    /// A variable of the event itself, by its index in [`Linked::sets`].
    Own(usize),
    /// The result of an operator.
    Binary(Operator, Box<Number>, Box<Number>),
    /// `ceil(log2(x))`; 0 for 0, as in the kernel on x86.
    Log2(Box<Number>),
    /// `x / width * width`.
    Bucket {
        number: Box<Number>,
        /// The bucket width, not 0.
        width: u64,
    },
}

/// A number in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldRead {
    /// Offset in the record.
    pub offset: u32,
    /// Size in bytes: 1, 2, 4 or 8.
    pub size: u32,
    pub signed: bool,
}

/// A property that every event has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    /// The thread id, `common_pid`.
    Pid,
    /// The process id.
    Tgid,
    Cpu,
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    Time,
    /// The id of the thread's cgroup in the unified hierarchy.
    Cgroup,
    /// Nanoseconds since the first event of the pair; only in [`Pair::Second`].
    Latency,
}

/// A binary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    Plus,
    Minus,
    Times,
    /// Unsigned; a division by 0 yields 2^64-1, as in the kernel's histograms.
    Divided,
    /// Unsigned; a division by 0 yields 2^64-1.
    Remainder,
    And,
    Or,
    Xor,
    /// The low six bits of the second operand are the distance.
    ShiftLeft,
    /// Logical shift. The low six bits of the second operand are the distance.
    ShiftRight,
    /// Rounds towards zero; a division by 0 yields -1.
    SignedDivided,
    /// Has the sign of the first operand; a division by 0 yields -1.
    SignedRemainder,
    /// Arithmetic shift. The low six bits of the second operand are the distance.
    SignedShiftRight,
}

/// Text of an event, up to its first NUL or the end of its field. Unreadable text equals nothing
/// and matches no pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// A field of fixed size in the record.
    Field {
        /// Offset in the record.
        offset: u32,
        /// Size of the field in bytes.
        size: u32,
    },
    /// Dynamic text in the record.
    Dynamic {
        /// Offset of the word that holds the text's offset and length.
        word: u32,
        /// Whether the text's offset counts from the end of the word.
        relative: bool,
    },
    /// Text that a pointer refers to.
    Pointer {
        /// The field with the pointer.
        field: FieldRead,
        /// Whether the pointer points to user memory.
        user: bool,
    },
    /// The name of the thread.
    Comm,
    /// A variable of another table, by its index in [`Linked::reads`].
    Read {
        index: usize,
        /// Size in bytes, a multiple of eight.
        room: usize,
    },
}

/// Maximum size of text from a field without a fixed length, including its NUL.
pub const TEXT_ROOM: usize = 256;

impl Text {
    /// Returns the size of this text in a key, in bytes, a multiple of eight.
    pub fn room(&self) -> usize {
        match self {
            Self::Field { size, .. } => (*size as usize).min(TEXT_ROOM).next_multiple_of(8),
            Self::Dynamic { .. } | Self::Pointer { .. } => TEXT_ROOM,
            Self::Comm => 16,
            Self::Read { room, .. } => *room,
        }
    }
}

/// A condition that an event passes or fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub kind: ConditionKind,
    /// The source of the condition, at which a rejected instruction is reported.
    pub span: Span,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionKind {
    /// Compares two numbers.
    Compare {
        how: Comparison,
        signed: bool,
        left: Number,
        right: Number,
    },
    /// Whether the two numbers have a common bit.
    AnyBit(Number, Number),
    /// Whether the number is in the list.
    OneOf(Number, Vec<u64>),
    /// Whether the text equals the value.
    Equals(Text, Vec<u8>),
    /// Whether the first 255 characters of the text match the pattern.
    Matches(Text, crate::glob::Glob),
    /// Negation.
    Not(Box<Condition>),
    /// Conjunction, evaluated from left to right until one condition fails.
    All(Vec<Condition>),
    /// Disjunction, evaluated from left to right until one condition holds.
    Any(Vec<Condition>),
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}
