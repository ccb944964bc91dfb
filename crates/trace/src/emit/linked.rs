//! Variables, and the actions of an event other than counting.
//!
//! The scratch memory holds the key, the variables and the records of synthetic events. The address
//! of that memory is kept on the stack. A synthetic event is counted inside the program of the
//! event that triggers it, one nesting level deeper. The record, the row and the stored variables
//! of each level are also kept on the stack.
//!
//! A stored number of 0 means that the variable is not set: see [`SET`].

use super::{EmitError, Emitter, MapUse, Place, first_map, frame, size_of_kept, value_size};
use crate::asm::{Alu, Helper, Jump, Label, Reg, Width};
use crate::probe::Probe;
use crate::program::{Action, Emit, Linked, Number, Program, Read, Set, Source, Text, Track, When};

/// Stored numbers are XORed with this value, so that 0 can mean "not set". This value itself
/// therefore cannot be stored.
const SET: u64 = u64::from_be_bytes(*b"\xfenoctule");
/// `BPF_NOEXIST`.
const NO_EXIST: i32 = 1;
/// Maximum nesting of synthetic events, including the event that triggers the first.
const LEVELS: i16 = 4;
/// Maximum number of attempts to store a new maximum while other CPUs write the same row.
pub(super) const TRIES: usize = 8;

/// State of an event that must survive the code of a nested event.
#[derive(Clone, Debug)]
pub(super) struct Level {
    /// Probe of the outermost event.
    probe: Probe,
    number: i16,
    /// Offsets in the scratch memory: of each variable that was read, and of each of the event's
    /// own variables.
    reads: Vec<usize>,
    sets: Vec<usize>,
}

impl Level {
    pub(super) const fn outermost(probe: Probe) -> Self {
        Self {
            probe,
            number: 0,
            reads: Vec::new(),
            sets: Vec::new(),
        }
    }

    const fn slot(&self, which: i16) -> i16 {
        frame::LEVELS + 8 * (3 * self.number + which)
    }

    const fn record(&self) -> i16 {
        self.slot(0)
    }

    const fn row(&self) -> i16 {
        self.slot(1)
    }

    const fn stored(&self) -> i16 {
        self.slot(2)
    }
}

impl Emitter {
    /// Compiles everything after the lookup of the scratch memory, which R9 points to.
    pub(super) fn linked(
        &mut self,
        program: &Program,
        value_size: usize,
        end: Label,
    ) -> Result<(), EmitError> {
        self.asm.store(Width::B8, Reg::R10, frame::MEMORY, Reg::R9);
        self.emit_level(program, value_size, end)
    }

    /// Compiles one nesting level. Expects the record in R6 and the scratch memory in R9.
    fn emit_level(
        &mut self,
        program: &Program,
        value_size: usize,
        end: Label,
    ) -> Result<(), EmitError> {
        let linked = &program.linked;
        let record = self.level.record();
        self.asm.store(Width::B8, Reg::R10, record, Reg::R6);
        if let Some(filter) = &program.filter {
            self.branch(filter, false, end)?;
        }
        self.asm.set_origin(None);
        self.key(&program.keys)?;
        self.reads(&linked.reads, end)?;
        for set in &linked.sets {
            let at = self.allocate(8);
            if let Source::Number(number) = &set.value {
                let reg = self.number(number)?;
                let place = Place::memory(at)?;
                self.asm.store(Width::B8, place.base, place.offset, reg);
            }
            self.level.sets.push(at);
        }
        if linked.kept > 0 {
            self.stored(linked, end)?;
        }
        self.row(program.keys.is_empty(), value_size, end)?;
        let row = self.level.row();
        self.asm.store(Width::B8, Reg::R10, row, Reg::R9);
        self.count(&program.values)?;
        for action in &linked.actions {
            match action {
                Action::Emit(emit) => self.emit_event(emit)?,
                Action::Track(track) => self.track(track, program)?,
            }
        }
        Ok(())
    }

    /// Reserves bytes of the scratch memory and returns their offset.
    fn allocate(&mut self, bytes: usize) -> usize {
        let at = self.memory_size;
        self.memory_size += bytes;
        at
    }

    /// Reloads a value from its stack slot.
    fn reload(&mut self, dst: Reg, slot: i16) {
        self.asm.load(Width::B8, dst, Reg::R10, slot);
    }

    /// Loads the context of the outermost program while a synthetic event is counted.
    pub(super) fn outermost_context(&mut self, dst: Reg) {
        self.reload(dst, frame::LEVELS);
        if matches!(self.level.probe, Probe::Packet(_) | Probe::PerfEvent) {
            self.asm.load(Width::B8, dst, dst, 0);
        }
    }

    /// Copies variables of other tables to the scratch memory. Jumps to `end` if one of them is not
    /// set.
    fn reads(&mut self, reads: &[Read], end: Label) -> Result<(), EmitError> {
        let mut looked_up = None;
        for read in reads {
            if looked_up != Some(read.table) {
                self.asm
                    .map(Reg::R1, first_map(read.table) + MapUse::Variables as u32);
                self.address(Reg::R2, self.key);
                self.asm.call(Helper::MapLookup);
                self.unless_found(end);
                looked_up = Some(read.table);
            }
            let at = offset(read.at)?;
            let slot = self.allocate(read.text.unwrap_or(8));
            self.level.reads.push(slot);
            let place = Place::memory(slot)?;
            if let Some(room) = read.text {
                self.asm.load(Width::B8, Reg::R1, Reg::R0, at);
                self.asm.jump(Jump::Eq, Reg::R1, 0, end);
                self.copy_words(Reg::R0, at + 8, place, room)?;
                continue;
            }
            if read.once {
                self.asm.mov(Reg::R7, 0);
                self.exchange(Reg::R0, at, Reg::R7);
            } else {
                self.asm.load(Width::B8, Reg::R7, Reg::R0, at);
            }
            self.asm.jump(Jump::Eq, Reg::R7, 0, end);
            self.asm.constant(Reg::R1, SET);
            self.asm.alu(Alu::Xor, Reg::R7, Reg::R1);
            self.asm.store(Width::B8, place.base, place.offset, Reg::R7);
        }
        Ok(())
    }

    /// Exchanges `src` with the word in memory. Clobbers R1.
    fn exchange(&mut self, base: Reg, at: i16, src: Reg) {
        self.atomic = true;
        if self.has_atomics {
            return self.asm.exchange(base, at, src);
        }
        self.asm.load(Width::B8, Reg::R1, base, at);
        self.asm.store(Width::B8, base, at, src);
        self.asm.mov(src, Reg::R1);
    }

    /// Copies whole words. Clobbers R1.
    fn copy_words(&mut self, from: Reg, at: i16, to: Place, bytes: usize) -> Result<(), EmitError> {
        for word in (0..bytes).step_by(8) {
            let from_at = at.checked_add(offset(word)?).ok_or(EmitError::TooLarge)?;
            let to = to.plus(word)?;
            self.asm.load(Width::B8, Reg::R1, from, from_at);
            self.asm.store(Width::B8, to.base, to.offset, Reg::R1);
        }
        Ok(())
    }

    /// Stores the event's own variables for its key. Creates the entry if there is none; if the map
    /// is full, the event counts as dropped.
    fn stored(&mut self, linked: &Linked, end: Label) -> Result<(), EmitError> {
        let found = self.asm.label();
        // This area is never written and stays zero.
        let zeros = Place::memory(self.allocate(linked.kept))?;
        self.lookup(MapUse::Variables, self.key);
        self.asm.jump(Jump::Ne, Reg::R0, 0, found);
        self.map(Reg::R1, MapUse::Variables);
        self.address(Reg::R2, self.key);
        self.address(Reg::R3, zeros);
        self.asm.mov(Reg::R4, NO_EXIST);
        self.asm.call(Helper::MapUpdate);
        self.lookup(MapUse::Variables, self.key);
        self.asm.jump(Jump::Ne, Reg::R0, 0, found);
        self.lookup_first(MapUse::Unkept);
        self.unless_found(end);
        self.add(Reg::R0, 0, 1);
        self.asm.goto(end);
        self.asm.bind(found);
        let slot = self.level.stored();
        self.asm.store(Width::B8, Reg::R10, slot, Reg::R0);
        for (index, set) in linked.sets.iter().enumerate() {
            if let Some(at) = set.at {
                self.store(index, set, at)?;
            }
        }
        Ok(())
    }

    fn store(&mut self, index: usize, set: &Set, at: usize) -> Result<(), EmitError> {
        let at = offset(at)?;
        let slot = self.level.stored();
        match &set.value {
            Source::Number(_) => {
                let place = Place::memory(self.level.sets[index])?;
                self.asm.load(Width::B8, Reg::R1, place.base, place.offset);
                self.asm.constant(Reg::R2, SET);
                self.asm.alu(Alu::Xor, Reg::R1, Reg::R2);
                self.reload(Reg::R3, slot);
                self.asm.store(Width::B8, Reg::R3, at, Reg::R1);
            }
            Source::Text(text) => {
                let place = Place::memory(self.allocate(text.room()))?;
                self.text_at(text, place)?;
                self.reload(Reg::R3, slot);
                let stored = Place {
                    base: Reg::R3,
                    offset: at + 8,
                };
                self.copy_words(place.base, place.offset, stored, text.room())?;
                self.asm.store(Width::B8, Reg::R3, at, 1);
            }
        }
        Ok(())
    }

    /// Copies text and pads it with zeros.
    fn text_at(&mut self, text: &Text, place: Place) -> Result<(), EmitError> {
        self.clear(place, text.room())?;
        self.copy_text(text, place, text.room())
    }

    fn clear(&mut self, place: Place, bytes: usize) -> Result<(), EmitError> {
        for word in (0..bytes).step_by(8) {
            let at = place.plus(word)?;
            self.asm.store(Width::B8, at.base, at.offset, 0);
        }
        Ok(())
    }

    /// Loads a variable that was read or computed before.
    pub(super) fn variable(&mut self, number: &Number, dst: Reg) -> Result<(), EmitError> {
        let at = match number {
            Number::Read(index) => self.level.reads.get(*index),
            Number::Own(index) => self.level.sets.get(*index),
            _ => None,
        };
        let at = offset(*at.ok_or(EmitError::Unreadable)?)?;
        self.reload(dst, frame::MEMORY);
        self.asm.load(Width::B8, dst, dst, at);
        Ok(())
    }

    /// Copies the text of a variable that was read before. Sets R0 to 0.
    pub(super) fn copy_variable(
        &mut self,
        index: usize,
        place: Place,
        room: usize,
    ) -> Result<(), EmitError> {
        let at = self.level.reads.get(index).ok_or(EmitError::Unreadable)?;
        let at = offset(*at)?;
        self.reload(Reg::R2, frame::MEMORY);
        self.copy_words(Reg::R2, at, place, room)?;
        self.asm.mov(Reg::R0, 0);
        Ok(())
    }

    /// Keeps the number if it is greater than the old one or different, depending on the track, and
    /// then runs the track's actions.
    fn track(&mut self, track: &Track, program: &Program) -> Result<(), EmitError> {
        let skip = self.asm.label();
        let kept = program.values.iter().take(track.saved);
        let at = 8 + kept.map(|kept| size_of_kept(kept.what)).sum::<usize>();
        let at = offset(at)?;
        let slots = (self.level.row(), self.level.stored());
        self.number(&track.number)?;
        match (track.when, track.at) {
            (When::Greater, None) => {
                self.reload(Reg::R9, slots.0);
                self.asm.load(Width::B8, Reg::R1, Reg::R9, at + 8);
                self.asm.jump(Jump::Le, Reg::R7, Reg::R1, skip);
            }
            (When::Greater, Some(shared)) => {
                let won = self.asm.label();
                self.reload(Reg::R9, slots.1);
                for _ in 0..TRIES {
                    self.try_store_greater(offset(shared)?, won, skip);
                }
                // Other CPUs stored a number first in each attempt, so this number is lost.
                self.lookup_first(MapUse::Unkept);
                self.unless_found(skip);
                self.add(Reg::R0, 0, 1);
                self.asm.goto(skip);
                self.asm.bind(won);
            }
            (When::Other, shared) => {
                self.reload(Reg::R9, slots.1);
                self.asm.mov(Reg::R8, Reg::R7);
                let shared = offset(shared.ok_or(EmitError::Unreadable)?)?;
                self.exchange(Reg::R9, shared, Reg::R8);
                self.asm.jump(Jump::Eq, Reg::R8, Reg::R7, skip);
            }
        }
        self.reload(Reg::R9, slots.0);
        self.asm.store(Width::B8, Reg::R9, at + 8, Reg::R7);
        self.asm.call(Helper::KtimeGetNs);
        self.asm.store(Width::B8, Reg::R9, at, Reg::R0);
        let mut place = Place {
            base: Reg::R9,
            offset: at + 16,
        };
        for field in &track.fields {
            self.source_at(field, place)?;
            place = place.plus(field.room())?;
        }
        if let Some(emit) = &track.emit {
            self.emit_event(emit)?;
        }
        self.asm.bind(skip);
        Ok(())
    }

    /// Attempts once to replace a smaller number at R9 with R7.
    fn try_store_greater(&mut self, at: i16, won: Label, skip: Label) {
        self.asm.load(Width::B8, Reg::R0, Reg::R9, at);
        self.asm.jump(Jump::Le, Reg::R7, Reg::R0, skip);
        self.atomic = true;
        if self.has_atomics {
            self.asm.mov(Reg::R8, Reg::R0);
            self.asm.compare_exchange(Reg::R9, at, Reg::R7);
            self.asm.jump(Jump::Eq, Reg::R0, Reg::R8, won);
        } else {
            self.asm.store(Width::B8, Reg::R9, at, Reg::R7);
            self.asm.jump(Jump::Ge, Reg::R7, 0, won);
        }
    }

    fn source_at(&mut self, source: &Source, place: Place) -> Result<(), EmitError> {
        match source {
            Source::Number(number) => {
                let reg = self.number(number)?;
                self.asm.store(Width::B8, place.base, place.offset, reg);
                Ok(())
            }
            Source::Text(text) => self.text_at(text, place),
        }
    }

    /// Builds the record of a synthetic event and counts the event.
    fn emit_event(&mut self, emit: &Emit) -> Result<(), EmitError> {
        let at = self.allocate(emit.size);
        self.reload(Reg::R9, frame::MEMORY);
        let record = Place::memory(at)?;
        for field in &emit.fields {
            let place = record.plus(field.offset)?;
            match &field.value {
                Source::Number(number) => {
                    let size = u32::try_from(field.size).ok();
                    let width = size.and_then(Width::of).ok_or(EmitError::Unreadable)?;
                    let reg = self.number(number)?;
                    self.asm.store(width, place.base, place.offset, reg);
                }
                Source::Text(text) => {
                    self.clear(place, field.size)?;
                    self.copy_text(text, place, field.size)?;
                }
            }
        }
        for program in &emit.programs {
            self.count_nested(program, at)?;
        }
        Ok(())
    }

    /// Counts a synthetic event whose record is at this offset of the scratch memory.
    fn count_nested(&mut self, program: &Program, record: usize) -> Result<(), EmitError> {
        let number = self.level.number + 1;
        if number >= LEVELS {
            return Err(EmitError::TooManyLevels);
        }
        let end = self.asm.label();
        let inner = Level {
            number,
            ..Level::outermost(self.level.probe)
        };
        let key_size = program.keys.iter().map(crate::program::Part::size).sum();
        let key = Place::memory(self.allocate(key_size))?;
        let outer = (
            std::mem::replace(&mut self.level, inner),
            std::mem::replace(&mut self.key, key),
            std::mem::replace(&mut self.probe, Probe::Synthetic),
            std::mem::replace(&mut self.first_map, first_map(program.linked.table)),
        );
        self.unless_paused(program, end);
        self.reload(Reg::R9, frame::MEMORY);
        self.address(Reg::R6, Place::memory(record)?);
        self.emit_level(program, value_size(program), end)?;
        self.asm.bind(end);
        (self.level, self.key, self.probe, self.first_map) = outer;
        let slot = self.level.record();
        self.reload(Reg::R6, slot);
        Ok(())
    }
}

fn offset(bytes: usize) -> Result<i16, EmitError> {
    i16::try_from(bytes).map_err(|_| EmitError::TooLarge)
}
