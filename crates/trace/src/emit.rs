//! From a [`Program`] to instructions.
//!
//! R6 keeps the record (`record`), of which bytes 0 to 7 cannot be read, and numbers only where they
//! are aligned. R7 and R8 hold what is computed, R9 the memory that belongs to this CPU and later the row
//! of the table. The stack has room for what is fixed and small; what is not lies in that memory.

mod classic;
mod condition;
mod linked;
mod number;
mod packet;
mod pair;
mod record;
mod switch;
mod table;
#[cfg(test)]
mod tests;
mod text;
pub mod watch;

use std::fmt;

use crate::asm::{Assembler, Code, Helper, Jump, Label, Operand, Reg, TooFar, Width};
use crate::buckets;
use crate::probe::Probe;
use crate::program::{Action, Aggregate, Condition, ConditionKind, Pair, Part, Program, TEXT_ROOM};

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
    /// One entry, all zeros: a new row.
    Zero = 4,
    /// When the first of two events came, by their key.
    Firsts = 5,
    /// One entry per CPU: first events that found no room.
    Unkept = 6,
    /// One entry: not 0 while the table is paused. Of an event that switches others: how often it still may.
    Paused = 7,
    /// What is stored for a key beside its row: variables, and what was tracked.
    Variables = 8,
    /// One entry: 0 while nothing of the command counts.
    Gate = 9,
}

/// Maps of one table: the programs of several have those of the second behind those of the first.
pub const MAPS: usize = 10;

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
    /// How many of it there are.
    pub memories: u32,
    /// Where in it the word lies that is not 0 while a program holds it; `None`: there is one of it, for
    /// a program that cannot be interrupted by itself.
    pub busy: Option<usize>,
    /// The patterns of the filter, in the order of their entries.
    pub globs: Vec<[u64; 256]>,
    /// Bytes of the key that two events have in common; 0: the event stands alone.
    pub pair_size: usize,
    /// The table can be paused.
    pub pausable: bool,
    /// Bytes that are stored for a key beside its row; 0: none.
    pub variables_size: usize,
    /// Memory is changed in a way that only Linux 5.12 and newer have.
    pub atomic: bool,
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
    /// Synthetic events make others, and these more of them.
    TooManyLevels,
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooDeep => "the expression is nested too deeply",
            Self::TooLong => "the program is too long",
            Self::Unreadable => "a program cannot read this field",
            Self::NoPair => "only tracepoints and functions have a time between two of them",
            Self::TooLarge => "a key or a row takes more than 32 KiB",
            Self::TooManyLevels => "synthetic events make others, more than three times in a row",
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
    /// The key. Programs with variables have theirs in memory.
    pub(super) const KEY: i16 = -416;
    /// Of programs with variables: the memory of the CPU.
    pub(super) const MEMORY: i16 = -416;
    /// The record, the row and the stored variables of each level.
    pub(super) const LEVELS: i16 = -408;
    /// A record that the program makes itself.
    pub(super) const RECORD: i16 = -504;
    /// Nanoseconds since the first of two events, which have records of their own.
    pub(super) const LATENCY: i16 = -424;
    /// The key that two events have in common.
    pub(super) const PAIR: i16 = -512;
    /// Behind that: the memory that the program holds.
    pub(super) const HELD: i16 = -512;
}

/// Bytes that the key of two events can have.
pub(crate) const LONGEST_PAIR: usize = 88;

/// Of a program that can be interrupted by itself: so many of it can be under way on a CPU, each with a
/// memory of its own. One more counts as dropped.
pub(crate) const MEMORIES: u32 = 8;

/// How many results can wait.
const SPILLS: usize = 8;

/// Makes the instructions of a program.
///
/// # Errors
///
/// See [`EmitError`].
pub fn emit(program: &Program) -> Result<Emitted, EmitError> {
    emit_for(program, true)
}

/// The same for a kernel that may not have atomic exchange (before Linux 5.12): there two CPUs can both
/// find a variable that is to be read once, as in the kernel's own histograms.
///
/// # Errors
///
/// See [`EmitError`].
pub fn emit_for(program: &Program, has_atomics: bool) -> Result<Emitted, EmitError> {
    emit_as(program, has_atomics, program.probe)
}

/// The same as if it were interrupted as one of this probe.
fn emit_as(program: &Program, has_atomics: bool, probe: Probe) -> Result<Emitted, EmitError> {
    let layout = layout(program);
    let is_linked = !program.linked.is_empty();
    let mut memory_size = program_text(program);
    let key = if layout.key_size <= KEY_ON_STACK && !is_linked {
        Place::stack(frame::KEY)
    } else {
        let at = memory_size;
        memory_size += layout.key_size;
        Place::memory(at)?
    };
    let uses_memory = memory_size > 0 || is_linked;
    let is_held = probe == Probe::FileFunction && uses_memory && has_atomics;
    let busy = is_held.then_some(memory_size);
    if is_held {
        memory_size += 8;
    }
    let has_pair = program.probe == Probe::Tracepoint || program.probe.is_function();
    if layout.pair_size > 0 && !has_pair {
        return Err(EmitError::NoPair);
    }
    let largest = memory_size.max(layout.value_size);
    if largest > LARGEST_VALUE || layout.pair_size > LONGEST_PAIR {
        return Err(EmitError::TooLarge);
    }
    let mut emitter = Emitter {
        key,
        busy: busy.map(Place::memory).transpose()?,
        has_atomics,
        is_interrupted: probe.is_interrupted(),
        memory_size,
        ..Emitter::new(program.probe, program.linked.table)
    };
    emitter.program(program, layout.value_size)?;
    if emitter.memory_size > LARGEST_VALUE {
        return Err(EmitError::TooLarge);
    }
    Ok(Emitted {
        code: emitter.asm.finish()?,
        memory_size: emitter.memory_size,
        globs: emitter.globs,
        memories: if is_held { MEMORIES } else { 1 },
        busy,
        atomic: emitter.atomic,
        ..layout
    })
}

/// The maps that the program's table has, without its instructions.
pub fn layout(program: &Program) -> Emitted {
    let pair_size = match &program.pair {
        Pair::None => 0,
        Pair::First(key) | Pair::Second(key) => key.iter().map(Part::size).sum(),
    };
    Emitted {
        key_size: program.keys.iter().map(Part::size).sum(),
        value_size: value_size(program),
        pair_size,
        pausable: program.pausable || program.switch.is_some(),
        variables_size: program.linked.kept,
        ..Emitted::default()
    }
}

/// Bytes of a row of the program's table.
fn value_size(program: &Program) -> usize {
    let kept = program.values.iter().map(|kept| size_of_kept(kept.what));
    8 + kept.sum::<usize>()
}

/// Bytes for text of the program's filter, and of those that are inside of it.
fn program_text(program: &Program) -> usize {
    let own = program.filter.as_ref().map_or(0, text_memory);
    let emits = program.linked.actions.iter().filter_map(Action::emit);
    let inner = emits.flat_map(|emit| &emit.programs).map(program_text);
    inner.max().unwrap_or(0).max(own)
}

/// Bytes of a row that are for this.
pub fn size_of_kept(what: Aggregate) -> usize {
    match what {
        Aggregate::Buckets => 8 * buckets::COUNT,
        Aggregate::Saved { words, .. } => 8 * words,
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
    /// The number of the first map of its table.
    first_map: u32,
    /// Bytes of the CPU's memory that are in use.
    memory_size: usize,
    /// The word that is not 0 while a program holds the memory.
    busy: Option<Place>,
    has_atomics: bool,
    is_interrupted: bool,
    atomic: bool,
    /// Of programs with variables.
    level: linked::Level,
}

impl Emitter {
    /// For an event whose table has this number.
    fn new(probe: Probe, table: usize) -> Self {
        Self {
            probe,
            asm: Assembler::default(),
            globs: Vec::new(),
            key: Place::stack(frame::KEY),
            first_map: first_map(table),
            memory_size: 0,
            busy: None,
            has_atomics: true,
            is_interrupted: probe.is_interrupted(),
            atomic: false,
            level: linked::Level::outermost(probe),
        }
    }

    fn program(&mut self, program: &Program, value_size: usize) -> Result<(), EmitError> {
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
        if program.gated {
            self.lookup_first(MapUse::Gate);
            self.unless_found(end);
            self.asm.load(Width::B8, Reg::R0, Reg::R0, 0);
            self.asm.jump(Jump::Eq, Reg::R0, 0, end);
        }
        if program.switch.is_none() {
            self.unless_paused(program, end);
        }
        let done = self.memory(end);
        if let Some(switch) = &program.switch {
            self.switch(program, switch, done)?;
        } else if program.linked.is_empty() {
            self.body(program, value_size, done)?;
        } else {
            self.linked(program, value_size, done)?;
        }
        if let Some(busy) = self.busy {
            self.asm.bind(done);
            self.asm.load(Width::B8, Reg::R1, Reg::R10, frame::HELD);
            self.asm.store(Width::B8, Reg::R1, busy.offset, 0);
        }
        self.asm.bind(end);
        self.asm.mov(Reg::R0, 0);
        self.asm.exit();
        Ok(())
    }

    /// R9: the memory, if it is used. Where the program holds it, what comes then ends at the label that
    /// is given back.
    fn memory(&mut self, end: Label) -> Label {
        let Some(busy) = self.busy else {
            if self.memory_size > 0 {
                self.lookup_first(MapUse::Memory);
                self.unless_found(end);
                self.asm.mov(Reg::R9, Reg::R0);
            }
            return end;
        };
        self.atomic = true;
        let held = self.asm.label();
        for number in 0..MEMORIES.cast_signed() {
            let index = Place::stack(frame::INDEX);
            self.asm.store(Width::B4, index.base, index.offset, number);
            self.lookup(MapUse::Memory, index);
            self.unless_found(end);
            self.asm.mov(Reg::R9, Reg::R0);
            self.asm.mov(Reg::R7, 1);
            self.asm.exchange(Reg::R9, busy.offset, Reg::R7);
            self.asm.jump(Jump::Eq, Reg::R7, 0, held);
        }
        self.lookup_first(MapUse::Dropped);
        self.unless_found(end);
        self.add(Reg::R0, 0, 1);
        self.always(end);
        self.asm.bind(held);
        self.asm.store(Width::B8, Reg::R10, frame::HELD, Reg::R9);
        self.asm.label()
    }

    fn unless_paused(&mut self, program: &Program, end: Label) {
        if program.pausable {
            self.lookup_first(MapUse::Paused);
            self.unless_found(end);
            self.asm.load(Width::B8, Reg::R0, Reg::R0, 0);
            self.asm.jump(Jump::Ne, Reg::R0, 0, end);
        }
    }

    /// Counts what passes the filter. R9: the memory, if it is used.
    fn body(&mut self, program: &Program, value_size: usize, end: Label) -> Result<(), EmitError> {
        if let Some(filter) = &program.filter {
            self.branch(filter, false, end)?;
        }
        self.asm.at(None);
        self.key(&program.keys)?;
        self.row(program.keys.is_empty(), value_size, end)?;
        self.count(&program.values)
    }

    /// The address of a map.
    fn map(&mut self, dst: Reg, map: MapUse) {
        // Memory and patterns belong to the program, the gate to all of the command.
        let first = match map {
            MapUse::Memory | MapUse::Globs | MapUse::Gate => 0,
            _ => self.first_map,
        };
        self.asm.map(dst, first + map as u32);
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
        self.map(Reg::R1, map);
        self.address(Reg::R2, key);
        self.asm.call(Helper::MapLookup);
    }

    /// Adds to what `base` points to.
    fn add(&mut self, base: Reg, offset: i16, what: impl Into<Operand>) {
        if self.is_interrupted {
            self.asm.mov(Reg::R1, what);
            self.asm.atomic_add(base, offset, Reg::R1);
            return;
        }
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

/// The number of the first map of a table.
fn first_map(table: usize) -> u32 {
    u32::try_from(table * MAPS).unwrap_or(u32::MAX)
}
