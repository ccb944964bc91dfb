//! The key, its row and the values of the row.

use super::linked::TRIES;
use super::{EmitError, Emitter, MapUse, Place, ROW_ON_STACK, frame, size_of_kept};
use crate::asm::{Alu, Helper, Jump, Label, Reg, Width};
use crate::buckets;
use crate::program::{Aggregate, FieldRead, Kept, Number, Part};

/// `BPF_NOEXIST`.
const NO_EXIST: i32 = 1;
/// Frames to skip at the top of each stack.
const SKIPPED_FRAMES: i32 = 0;

impl Emitter {
    pub(super) fn key(&mut self, parts: &[Part]) -> Result<(), EmitError> {
        self.key_at(parts, self.key)
    }

    /// Writes the parts of a key to consecutive places.
    pub(super) fn key_at(&mut self, parts: &[Part], mut place: Place) -> Result<(), EmitError> {
        for part in parts {
            match part {
                Part::Number(number) => {
                    let reg = self.number(number)?;
                    self.asm.store(Width::B8, place.base, place.offset, reg);
                }
                Part::Text(text) => {
                    for word in (0..text.room()).step_by(8) {
                        let at = place.plus(word)?;
                        self.asm.store(Width::B8, at.base, at.offset, 0);
                    }
                    self.copy_text(text, place, text.room())?;
                }
                Part::Address { offset } => {
                    let word = |skip| FieldRead {
                        offset: offset + skip,
                        size: 8,
                        signed: false,
                    };
                    for skip in [0, 8] {
                        let reg = self.number(&Number::Field(word(skip)))?;
                        let at = place.plus(skip as usize)?;
                        self.asm.store(Width::B8, at.base, at.offset, reg);
                    }
                }
                Part::Stack => self.stack(place)?,
            }
            place = place.plus(part.size())?;
        }
        Ok(())
    }

    /// Writes the addresses of the stack, or zeros if the kernel has none. `bpf_get_stackid` is not
    /// used: stacks with the same hash replace each other or are lost.
    fn stack(&mut self, place: Place) -> Result<(), EmitError> {
        let size = Part::Stack.size();
        for word in (0..size).step_by(8) {
            let at = place.plus(word)?;
            self.asm.store(Width::B8, at.base, at.offset, 0);
        }
        self.load_context(Reg::R1);
        self.address(Reg::R2, place);
        let size = i32::try_from(size).map_err(|_| EmitError::TooLarge)?;
        self.asm.mov(Reg::R3, size);
        self.asm.mov(Reg::R4, SKIPPED_FRAMES);
        self.asm.call(Helper::GetStack);
        Ok(())
    }

    /// Leaves the row of the key in R9 and creates the row if needed. If the table is full, counts
    /// the hit as dropped. The lookup comes first because an update locks the hash bucket even if
    /// the key exists.
    pub(super) fn row(
        &mut self,
        is_array: bool,
        value_size: usize,
        end: Label,
    ) -> Result<(), EmitError> {
        let (found, dropped) = (self.asm.label(), self.asm.label());
        if is_array {
            self.lookup_first(MapUse::Table);
            self.unless_found(end);
        } else {
            self.lookup(MapUse::Table, self.key);
            self.asm.jump(Jump::Ne, Reg::R0, 0, found);
            self.new_row(value_size, dropped)?;
            // Looks the row up again. The row was created either by the update above or by another
            // CPU.
            self.lookup(MapUse::Table, self.key);
            self.asm.jump(Jump::Ne, Reg::R0, 0, found);
            self.asm.bind(dropped);
            self.lookup_first(MapUse::Dropped);
            self.unless_found(end);
            self.add(Reg::R0, 0, 1);
            self.asm.goto(end);
        }
        self.asm.bind(found);
        self.asm.mov(Reg::R9, Reg::R0);
        Ok(())
    }

    /// Creates a row of zeros.
    fn new_row(&mut self, value_size: usize, failed: Label) -> Result<(), EmitError> {
        if value_size <= ROW_ON_STACK {
            let place = Place::stack(frame::ROW);
            for word in (0..value_size).step_by(8) {
                let at = place.plus(word)?;
                self.asm.store(Width::B8, at.base, at.offset, 0);
            }
            self.address(Reg::R3, place);
        } else {
            self.lookup_first(MapUse::Zero);
            self.unless_found(failed);
            self.asm.mov(Reg::R3, Reg::R0);
        }
        self.map(Reg::R1, MapUse::Table);
        self.address(Reg::R2, self.key);
        self.asm.mov(Reg::R4, NO_EXIST);
        self.asm.call(Helper::MapUpdate);
        Ok(())
    }

    /// Counts a hit in the row at R9.
    pub(super) fn count(&mut self, values: &[Kept]) -> Result<(), EmitError> {
        self.add(Reg::R9, 0, 1);
        let mut offset = 8_usize;
        for kept in values {
            let at = i16::try_from(offset).map_err(|_| EmitError::TooLarge)?;
            offset += size_of_kept(kept.what);
            if matches!(kept.what, Aggregate::Saved { .. }) {
                continue;
            }
            let reg = self.number(&kept.number)?;
            match kept.what {
                Aggregate::Sum => self.add(Reg::R9, at, reg),
                Aggregate::Minimum { signed } => self.extreme(reg, at, signed, true),
                Aggregate::Maximum { signed } => self.extreme(reg, at, signed, false),
                Aggregate::Buckets => self.bucket(reg, at),
                // Saved fields are written by an action, not at each hit.
                Aggregate::Saved { .. } => {}
            }
        }
        Ok(())
    }

    /// Keeps the extreme value. A row begins with zeros, so signed numbers are shifted by 2^63, and
    /// a minimum is stored as its complement. [`crate::table::Row`] undoes both.
    fn extreme(&mut self, reg: Reg, at: i16, signed: bool, least: bool) {
        if signed {
            self.asm.constant(Reg::R1, 1 << 63);
            self.asm.alu(Alu::Xor, reg, Reg::R1);
        }
        if least {
            self.asm.alu(Alu::Xor, reg, -1);
        }
        let keeps = self.asm.label();
        self.atomic |= self.is_interrupted;
        if self.is_interrupted && self.has_atomics {
            for _ in 0..TRIES {
                self.asm.load(Width::B8, Reg::R0, Reg::R9, at);
                self.asm.jump(Jump::Ge, Reg::R0, reg, keeps);
                self.asm.mov(Reg::R1, Reg::R0);
                self.asm.compare_exchange(Reg::R9, at, reg);
                self.asm.jump(Jump::Eq, Reg::R0, Reg::R1, keeps);
            }
        } else {
            self.asm.load(Width::B8, Reg::R1, Reg::R9, at);
            self.asm.jump(Jump::Ge, Reg::R1, reg, keeps);
            self.asm.store(Width::B8, Reg::R9, at, reg);
        }
        self.asm.bind(keeps);
    }

    /// Counts the number in its bucket.
    fn bucket(&mut self, reg: Reg, at: i16) {
        let small = self.asm.label();
        let outside = self.asm.label();
        let bits = buckets::BITS.cast_signed();
        // R2 contains the shift distance, and R3 the bucket.
        self.asm.mov(Reg::R2, 0);
        self.asm.mov(Reg::R3, reg);
        self.asm.jump(Jump::Lt, reg, 2 << bits, small);
        self.asm.mov(Reg::R2, reg);
        self.bit_length(Reg::R2);
        self.asm.alu(Alu::Sub, Reg::R2, bits + 1);
        self.asm.alu(Alu::Rsh, Reg::R3, Reg::R2);
        self.asm.alu(Alu::Lsh, Reg::R2, bits);
        self.asm.alu(Alu::Add, Reg::R3, Reg::R2);
        self.asm.bind(small);
        // The verifier requires this check.
        let count = i32::try_from(buckets::COUNT).unwrap_or(i32::MAX);
        self.asm.jump(Jump::Ge, Reg::R3, count, outside);
        self.asm.alu(Alu::Lsh, Reg::R3, 3);
        self.asm.alu(Alu::Add, Reg::R3, Reg::R9);
        self.add(Reg::R3, at, 1);
        self.asm.bind(outside);
    }
}
