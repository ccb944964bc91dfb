//! From a [`Program`] to instructions.
//!
//! R6 keeps the record (`record`), of which bytes 0 to 7 cannot be read, and numbers only where they
//! are aligned. R7 and R8 hold what is computed, R9 the memory that belongs to this CPU and later the row
//! of the table. The stack has room for what is fixed and small; what is not lies in that memory.

mod classic;
mod condition;
mod number;
mod packet;
mod pair;
mod record;
mod table;
#[cfg(test)]
mod tests;
mod text;
pub mod watch;

use std::fmt;

use crate::asm::{Assembler, Code, Helper, Jump, Label, Operand, Reg, TooFar, Width};
use crate::buckets;
use crate::probe::Probe;
use crate::program::{Aggregate, Condition, ConditionKind, Pair, Part, Program, TEXT_ROOM};

/// Maps that a program uses, as [`Code::maps`] numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapUse {
    /// The rows: per CPU, by key. An array with one entry where there is no key.
    Table = 0,
    /// One entry per CPU: hits that found no room.
    Dropped = 1,
    /// One entry per CPU: memory for keys and text.
    Memory = 2,
    /// A table of steps for each pattern; read only.
    Globs = 3,
    /// Stacks.
    Stacks = 4,
    /// One entry, all zeros: a new row.
    Zero = 5,
    /// When the first of two events came, by their key.
    Firsts = 6,
    /// One entry per CPU: first events that found no room.
    Unkept = 7,
    /// One entry: not 0 while the table is paused.
    Paused = 8,
}

/// A program that is complete but for its maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Emitted {
    /// The instructions.
    pub code: Code,
    /// Bytes of a key; 0: the table is an array with one entry.
    pub key_size: usize,
    /// Bytes of a row: the hits, and what is kept in the order of the program.
    pub value_size: usize,
    /// Bytes of the memory of a CPU; 0: none is used.
    pub memory_size: usize,
    /// The patterns of the filter, in the order of their entries.
    pub globs: Vec<[u64; 256]>,
    /// The table of stacks is used.
    pub stacks: bool,
    /// Bytes of the key that two events have in common; 0: the event stands alone.
    pub pair_size: usize,
    /// The table can be paused.
    pub pausable: bool,
}

/// Why there are no instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmitError {
    /// An expression needs more registers than there is room for.
    TooDeep,
    /// A jump is longer than 32,767 instructions.
    TooLong,
    /// The field cannot be read by a program.
    Unreadable,
    /// A key or a row takes more memory than a map of values per CPU has.
    TooLarge,
    /// Only tracepoints and functions have a time between two of them.
    NoPair,
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooDeep => "the expression is nested too deeply",
            Self::TooLong => "the program is too long",
            Self::Unreadable => "a program cannot read this field",
            Self::NoPair => "only tracepoints and functions have a time between two of them",
            Self::TooLarge => "a key or a row takes more than 32 KiB",
        })
    }
}

impl std::error::Error for EmitError {}

impl From<TooFar> for EmitError {
    fn from(_: TooFar) -> Self {
        Self::TooLong
    }
}

/// The kernel allocates values per CPU up to that size (`PCPU_MIN_UNIT_SIZE`).
const LARGEST_VALUE: usize = 32 << 10;
/// The kernel makes no longer records (`PERF_MAX_TRACE_SIZE`), and refuses to read behind.
const LONGEST_RECORD: u32 = 8192;
/// Keys up to that size are made on the stack.
const KEY_ON_STACK: usize = 256;
/// New rows up to that size are made on the stack.
const ROW_ON_STACK: usize = 64;

/// Where things lie on the stack, in bytes from its end.
mod frame {
    /// Results that wait for the other operand.
    pub(super) const SPILLS: i16 = -64;
    /// Numbers that a helper reads.
    pub(super) const CELL: i16 = -72;
    /// The key of an array.
    pub(super) const INDEX: i16 = -80;
    /// Short text.
    pub(super) const COMM: i16 = -96;
    /// A new row.
    pub(super) const ROW: i16 = -160;
    /// The key.
    pub(super) const KEY: i16 = -416;
    /// A record that the program makes itself.
    pub(super) const RECORD: i16 = -504;
    /// Nanoseconds since the first of two events, which have records of their own.
    pub(super) const LATENCY: i16 = -424;
    /// The key that two events have in common.
    pub(super) const PAIR: i16 = -512;
}

/// Bytes that the key of two events can have.
pub(crate) const LONGEST_PAIR: usize = 88;

/// How many results can wait.
const SPILLS: usize = 8;

/// Makes the instructions of a program.
///
/// # Errors
///
/// See [`EmitError`].
pub fn emit(program: &Program) -> Result<Emitted, EmitError> {
    let key_size = program.keys.iter().map(Part::size).sum();
    let kept = program.values.iter().map(|kept| size_of_kept(kept.what));
    let value_size = 8 + kept.sum::<usize>();
    let mut memory_size = program.filter.as_ref().map_or(0, text_memory);
    let key = if key_size <= KEY_ON_STACK {
        Place::stack(frame::KEY)
    } else {
        let at = memory_size;
        memory_size += key_size;
        Place::memory(at)?
    };
    let pair_size = match &program.pair {
        Pair::None => 0,
        Pair::First(key) | Pair::Second(key) => key.iter().map(Part::size).sum(),
    };
    if pair_size > 0 && !matches!(program.probe, Probe::Tracepoint | Probe::Function) {
        return Err(EmitError::NoPair);
    }
    if memory_size.max(value_size) > LARGEST_VALUE || pair_size > LONGEST_PAIR {
        return Err(EmitError::TooLarge);
    }
    let mut emitter = Emitter {
        probe: program.probe,
        asm: Assembler::default(),
        globs: Vec::new(),
        key,
        stacks: false,
    };
    emitter.program(program, memory_size, value_size)?;
    Ok(Emitted {
        code: emitter.asm.finish()?,
        key_size,
        value_size,
        memory_size,
        globs: emitter.globs,
        stacks: emitter.stacks,
        pair_size,
        pausable: program.pausable,
    })
}

/// Bytes of a row that are for this.
pub fn size_of_kept(what: Aggregate) -> usize {
    match what {
        Aggregate::Buckets => 8 * buckets::COUNT,
        Aggregate::Sum | Aggregate::Minimum { .. } | Aggregate::Maximum { .. } => 8,
    }
}

/// Bytes for text that has to be copied to be looked at; a multiple of eight.
fn text_memory(condition: &Condition) -> usize {
    match &condition.kind {
        ConditionKind::Equals(text, _) if text.is_compared_in_place() => 0,
        // The NUL, and one byte to see that the text goes on.
        ConditionKind::Equals(_, value) => (value.len() + 2).next_multiple_of(8),
        ConditionKind::Matches(..) => TEXT_ROOM,
        ConditionKind::Not(inner) => text_memory(inner),
        ConditionKind::All(all) | ConditionKind::Any(all) => {
            all.iter().map(text_memory).max().unwrap_or(0)
        }
        ConditionKind::Compare { .. } | ConditionKind::AnyBit(..) | ConditionKind::OneOf(..) => 0,
    }
}

/// A place in memory that the program may write.
#[derive(Clone, Copy, Debug)]
struct Place {
    base: Reg,
    offset: i16,
}

impl Place {
    const fn stack(offset: i16) -> Self {
        Self {
            base: Reg::R10,
            offset,
        }
    }

    fn memory(offset: usize) -> Result<Self, EmitError> {
        let start = Self {
            base: Reg::R9,
            offset: 0,
        };
        start.plus(offset)
    }

    fn plus(self, bytes: usize) -> Result<Self, EmitError> {
        let bytes = i16::try_from(bytes).map_err(|_| EmitError::TooLarge)?;
        let offset = self.offset.checked_add(bytes).ok_or(EmitError::TooLarge)?;
        Ok(Self { offset, ..self })
    }
}

struct Emitter {
    probe: Probe,
    asm: Assembler,
    globs: Vec<[u64; 256]>,
    key: Place,
    stacks: bool,
}

impl Emitter {
    fn program(
        &mut self,
        program: &Program,
        memory_size: usize,
        value_size: usize,
    ) -> Result<(), EmitError> {
        let end = self.asm.label();
        self.record(program.classic.as_ref(), end);
        match &program.pair {
            Pair::None => {}
            Pair::First(key) => {
                self.first(key, end)?;
                return Ok(());
            }
            Pair::Second(key) => self.second(key, end)?,
        }
        if program.pausable {
            self.lookup_first(MapUse::Paused);
            self.unless_found(end);
            self.asm.load(Width::B8, Reg::R0, Reg::R0, 0);
            self.asm.jump(Jump::Ne, Reg::R0, 0, end);
        }
        if memory_size > 0 {
            self.lookup_first(MapUse::Memory);
            self.asm.jump(Jump::Eq, Reg::R0, 0, end);
            self.asm.mov(Reg::R9, Reg::R0);
        }
        if let Some(filter) = &program.filter {
            self.branch(filter, false, end)?;
        }
        self.asm.at(None);
        self.key(&program.keys)?;
        self.row(program.keys.is_empty(), value_size, end)?;
        self.count(&program.values)?;
        self.asm.bind(end);
        self.asm.mov(Reg::R0, 0);
        self.asm.exit();
        Ok(())
    }

    /// The address of a place.
    fn address(&mut self, dst: Reg, place: Place) {
        self.asm.mov(dst, place.base);
        self.asm
            .alu(crate::asm::Alu::Add, dst, i32::from(place.offset));
    }

    /// Looks up entry 0 of an array.
    fn lookup_first(&mut self, map: MapUse) {
        let index = Place::stack(frame::INDEX);
        self.asm.store(Width::B4, index.base, index.offset, 0);
        self.lookup(map, index);
    }

    /// R0: the entry of the key at this place, or 0.
    fn lookup(&mut self, map: MapUse, key: Place) {
        self.asm.map(Reg::R1, map as u32);
        self.address(Reg::R2, key);
        self.asm.call(Helper::MapLookup);
    }

    /// Adds one to what `base` points to.
    fn add(&mut self, base: Reg, offset: i16, what: impl Into<Operand>) {
        self.asm.load(Width::B8, Reg::R1, base, offset);
        self.asm.alu(crate::asm::Alu::Add, Reg::R1, what);
        self.asm.store(Width::B8, base, offset, Reg::R1);
    }

    /// A jump that is always taken. With `goto` the instructions behind could be without a way to them,
    /// which the verifier refuses; what it finds never to run, it removes.
    fn always(&mut self, label: Label) {
        self.always_with(Reg::R1, label);
    }

    /// The same, for which this register is lost.
    fn always_with(&mut self, lost: Reg, label: Label) {
        self.asm.mov(lost, 0);
        self.asm.jump(Jump::Eq, lost, 0, label);
    }

    /// A jump that is taken when `R0` is none.
    fn unless_found(&mut self, label: Label) {
        self.asm.jump(Jump::Eq, Reg::R0, 0, label);
    }
}
