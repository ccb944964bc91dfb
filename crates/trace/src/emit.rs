//! Compiles a [`Program`] to instructions.
//!
//! Register conventions: R6 holds the record. Programs cannot read its bytes 0 to 7, and can load
//! only aligned numbers directly. R7 and R8 hold computed values. R9 holds this CPU's scratch
//! memory and later the row of the table. The stack holds small items of fixed size; larger data
//! are in the scratch memory.

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

use crate::asm::{Assembler, Code, Helper, Jump, Label, Operand, Reg, TooFar, Width};
use crate::buckets;
use crate::probe::Probe;
use crate::program::{Action, Aggregate, Condition, ConditionKind, Pair, Part, Program, TEXT_ROOM};

/// The maps of a program, as [`Code::maps`] numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapUse {
    /// The rows: per CPU, by key. An array with one entry if there is no key.
    Table = 0,
    /// One entry per CPU: the number of hits that were dropped because the table was full.
    Dropped = 1,
    /// Scratch memory per CPU for keys and text.
    Memory = 2,
    /// A transition table for each glob pattern; read-only.
    Globs = 3,
    /// One entry of zeros, from which a new row is copied.
    Zero = 4,
    /// Times of first events of pairs, by the key that both events have in common.
    Firsts = 5,
    /// One entry per CPU: the number of first events that were lost because their map was full.
    Unkept = 6,
    /// One entry, which is not 0 while the table is paused. For an event that switches tables, the
    /// number of times it may still do so.
    Paused = 7,
    /// The values that are stored next to the row of a key: variables and tracked values.
    Variables = 8,
    /// One entry, which is 0 while the whole command is paused.
    Gate = 9,
}

/// Number of maps per table. In a command with several tables, the maps of each table follow the
/// maps of the previous one.
pub const MAPS: usize = 10;

/// A program that is complete except for its maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Emitted {
    pub code: Code,
    /// Key size in bytes; 0 if the table is an array with one entry.
    pub key_size: usize,
    /// Row size in bytes: the hit count, then the values in the order of the program.
    pub value_size: usize,
    /// Size of a scratch memory in bytes; 0 if the program uses none.
    pub memory_size: usize,
    /// Number of scratch memories per CPU.
    pub memories: u32,
    /// Offset in the scratch memory of the word that is not 0 while a program holds the memory.
    /// `None` if there is only one memory because the program cannot interrupt itself.
    pub busy: Option<usize>,
    /// The glob patterns of the filter, in the order of their map entries.
    pub globs: Vec<[u64; 256]>,
    /// Size in bytes of the key that a pair of events has in common; 0 if the event is not part of
    /// a pair.
    pub pair_size: usize,
    /// Whether the table can be paused.
    pub pausable: bool,
    /// Bytes stored next to the row of a key; 0 if there are none.
    pub variables_size: usize,
    /// Whether the program uses atomic operations that need Linux 5.12.
    pub atomic: bool,
}

/// The reason why a program cannot be compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// An expression needs too many registers.
    #[error("the expression is nested too deeply")]
    TooDeep,
    #[error("the program is too long")]
    TooLong,
    #[error("a program cannot read this field")]
    Unreadable,
    /// A key or a row exceeds the size limit of per-CPU map values.
    #[error("a key or a row is larger than 32 KiB")]
    TooLarge,
    #[error("latency can only be measured between tracepoints or functions")]
    NoPair,
    #[error("synthetic events are nested more than three levels deep")]
    TooManyLevels,
}

impl From<TooFar> for EmitError {
    fn from(_: TooFar) -> Self {
        Self::TooLong
    }
}

/// The kernel's limit for the size of per-CPU values (`PCPU_MIN_UNIT_SIZE`).
const MAX_VALUE_SIZE: usize = 32 << 10;
/// The kernel's limit for the size of records (`PERF_MAX_TRACE_SIZE`). Programs cannot read beyond
/// it.
const MAX_RECORD_SIZE: u32 = 8192;
/// Keys up to this size are built on the stack.
const KEY_ON_STACK: usize = 256;
/// New rows up to this size are built on the stack.
const ROW_ON_STACK: usize = 64;

/// The stack layout, in bytes from the frame pointer.
mod frame {
    /// Intermediate results that wait for the other operand.
    pub(super) const SPILLS: i16 = -64;
    /// Buffer for a number that a helper reads.
    pub(super) const CELL: i16 = -72;
    /// Index of an array element.
    pub(super) const INDEX: i16 = -80;
    pub(super) const COMM: i16 = -96;
    pub(super) const ROW: i16 = -160;
    /// The key. Programs with variables have their key in the scratch memory.
    pub(super) const KEY: i16 = -416;
    /// Address of the scratch memory, in programs with variables.
    pub(super) const MEMORY: i16 = -416;
    /// The record, the row and the stored variables of each nesting level.
    pub(super) const LEVELS: i16 = -408;
    /// A record that the program builds.
    pub(super) const RECORD: i16 = -504;
    /// Nanoseconds since the first event of a pair.
    pub(super) const LATENCY: i16 = -424;
    /// The key that a pair of events has in common. The key overlaps [`RECORD`], because programs
    /// that build a record have no pairs.
    pub(super) const PAIR: i16 = -512;
    /// Address of the scratch memory that the program holds. The address overlaps [`PAIR`], which
    /// is no longer needed at that point.
    pub(super) const HELD: i16 = -512;
}

/// Maximum size in bytes of the key of a pair.
pub(crate) const MAX_PAIR_KEY: usize = 88;

/// Number of instances of a program that can run nested on one CPU, each with its own scratch
/// memory. A deeper instance only counts its hit as dropped. This applies to programs that can
/// interrupt themselves.
pub(crate) const MEMORIES: u32 = 8;

/// Maximum number of intermediate results on the stack.
const SPILLS: usize = 8;

/// Compiles a program.
///
/// # Errors
///
/// See [`EmitError`].
pub fn emit(program: &Program) -> Result<Emitted, EmitError> {
    emit_for(program, true)
}

/// Like [`emit`], for a kernel that may lack atomic exchange (before Linux 5.12). Without atomic
/// exchange, two CPUs can both read a read-once variable, as in the kernel's own histograms.
///
/// # Errors
///
/// See [`EmitError`].
pub fn emit_for(program: &Program, has_atomics: bool) -> Result<Emitted, EmitError> {
    emit_as(program, has_atomics, program.probe)
}

/// Compiles the program with the protection against interruption that `probe` needs.
fn emit_as(program: &Program, has_atomics: bool, probe: Probe) -> Result<Emitted, EmitError> {
    let layout = layout(program);
    let is_linked = !program.linked.is_empty();
    let mut memory_size = filter_text_size(program);
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
    if largest > MAX_VALUE_SIZE || layout.pair_size > MAX_PAIR_KEY {
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
    if emitter.memory_size > MAX_VALUE_SIZE {
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

/// Returns the layout of the program's maps, without instructions.
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

/// Returns the row size of the program's table in bytes.
fn value_size(program: &Program) -> usize {
    let kept = program.values.iter().map(|kept| size_of_kept(kept.what));
    8 + kept.sum::<usize>()
}

/// Returns the bytes of text that the filter of the program needs, including nested programs.
fn filter_text_size(program: &Program) -> usize {
    let own = program.filter.as_ref().map_or(0, text_memory);
    let emits = program.linked.actions.iter().filter_map(Action::emit);
    let inner = emits.flat_map(|emit| &emit.programs).map(filter_text_size);
    inner.max().unwrap_or(0).max(own)
}

/// Returns the bytes of a row that an aggregate needs.
pub fn size_of_kept(what: Aggregate) -> usize {
    match what {
        Aggregate::Buckets => 8 * buckets::COUNT,
        Aggregate::Saved { words, .. } => 8 * words,
        Aggregate::Sum | Aggregate::Minimum { .. } | Aggregate::Maximum { .. } => 8,
    }
}

/// Returns the bytes of text that must be copied to evaluate the condition, a multiple of eight.
fn text_memory(condition: &Condition) -> usize {
    match &condition.kind {
        ConditionKind::Equals(text, _) if text.is_compared_in_place() => 0,
        // Room for the NUL, and for one more byte that shows whether the text continues.
        ConditionKind::Equals(_, value) => (value.len() + 2).next_multiple_of(8),
        ConditionKind::Matches(..) => TEXT_ROOM,
        ConditionKind::Not(inner) => text_memory(inner),
        ConditionKind::All(all) | ConditionKind::Any(all) => {
            all.iter().map(text_memory).max().unwrap_or(0)
        }
        ConditionKind::Compare { .. } | ConditionKind::AnyBit(..) | ConditionKind::OneOf(..) => 0,
    }
}

/// A writable memory location.
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
    /// Number of the first map of the program's table.
    first_map: u32,
    /// Bytes of scratch memory in use.
    memory_size: usize,
    /// A word that is not 0 while a program holds the scratch memory.
    busy: Option<Place>,
    has_atomics: bool,
    is_interrupted: bool,
    atomic: bool,
    /// Nesting level, used by programs with variables.
    level: linked::Level,
}

impl Emitter {
    /// Creates an emitter for an event whose table has this number.
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
                self.store_first(key, end)?;
                return Ok(());
            }
            Pair::Second(key) => self.take_first(key, end)?,
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

    /// Leaves the scratch memory in R9, if the program uses it. Returns the label to jump to when
    /// the program ends: a label that releases the memory if that is necessary, otherwise `end`.
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

    /// Counts events that pass the filter. Expects the scratch memory in R9, if the program uses
    /// it.
    fn body(&mut self, program: &Program, value_size: usize, end: Label) -> Result<(), EmitError> {
        if let Some(filter) = &program.filter {
            self.branch(filter, false, end)?;
        }
        self.asm.set_origin(None);
        self.key(&program.keys)?;
        self.row(program.keys.is_empty(), value_size, end)?;
        self.count(&program.values)
    }

    /// Loads the address of a map.
    fn map(&mut self, dst: Reg, map: MapUse) {
        // Scratch memory and patterns belong to the program, and the gate belongs to the whole
        // command.
        let first = match map {
            MapUse::Memory | MapUse::Globs | MapUse::Gate => 0,
            _ => self.first_map,
        };
        self.asm.map(dst, first + map as u32);
    }

    /// Loads the address of a place.
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

    /// Looks up the entry whose key is at this place. Leaves the address of the entry in R0, or 0.
    fn lookup(&mut self, map: MapUse, key: Place) {
        self.map(Reg::R1, map);
        self.address(Reg::R2, key);
        self.asm.call(Helper::MapLookup);
    }

    /// Adds to the word at `base` plus `offset`.
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

    /// Emits a jump that is always taken. `goto` could leave unreachable instructions after it,
    /// which the verifier rejects. The verifier removes the dead branch of a conditional jump
    /// instead.
    fn always(&mut self, label: Label) {
        self.always_with(Reg::R1, label);
    }

    /// Like [`Self::always`], but clobbers the given register instead of R1.
    fn always_with(&mut self, lost: Reg, label: Label) {
        self.asm.mov(lost, 0);
        self.asm.jump(Jump::Eq, lost, 0, label);
    }

    /// Jumps if R0 is null.
    fn unless_found(&mut self, label: Label) {
        self.asm.jump(Jump::Eq, Reg::R0, 0, label);
    }
}

/// Returns the number of the first map of a table.
fn first_map(table: usize) -> u32 {
    u32::try_from(table * MAPS).unwrap_or(u32::MAX)
}
