//! Compiles the copying, comparing and matching of text.

use super::number::in_record;
use super::{EmitError, Emitter, MapUse, Place, frame};
use crate::asm::{Alu, Helper, Jump, Label, Reg, Width};
use crate::glob::Glob;
use crate::program::{FieldRead, Number, TEXT_ROOM, Text};

impl Text {
    /// Whether the bytes can be compared without a copy.
    pub(super) fn is_compared_in_place(&self) -> bool {
        matches!(self, Self::Field { .. } | Self::Comm)
    }
}

impl Emitter {
    /// Copies the text to the place and adds a NUL. R0 receives the number of copied bytes
    /// including the NUL, or a negative error. For the thread's name, which is copied whole, R0 is
    /// 0.
    ///
    /// A full field has no NUL, and neither does an empty dynamic field. The following bytes belong
    /// to another field. The size passed to the helper is therefore the length of the field plus
    /// one for the NUL.
    pub(super) fn copy_text(
        &mut self,
        text: &Text,
        place: Place,
        room: usize,
    ) -> Result<(), EmitError> {
        let room = i32::try_from(room).map_err(|_| EmitError::TooLarge)?;
        let helper = match text {
            Text::Comm => {
                self.address(Reg::R1, place);
                self.asm.mov(Reg::R2, room);
                self.asm.call(Helper::CurrentComm);
                return Ok(());
            }
            Text::Read { index, room: all } => {
                let room = usize::try_from(room).unwrap_or(0).min(*all);
                return self.copy_variable(*index, place, room);
            }
            Text::Field { offset, size } => {
                let offset = in_record(*offset, *size)?;
                self.asm.mov(Reg::R3, Reg::R6);
                self.asm.alu(Alu::Add, Reg::R3, i32::from(offset));
                self.asm.mov(Reg::R2, room.min(size.cast_signed() + 1));
                Helper::ProbeReadKernelStr
            }
            Text::Dynamic { word, relative } => {
                let fits = self.asm.label();
                self.word(*word, Reg::R3)?;
                self.asm.mov(Reg::R2, Reg::R3);
                self.asm.alu(Alu::Rsh, Reg::R2, 16);
                self.asm.alu(Alu::Add, Reg::R2, 1);
                self.asm.jump(Jump::Le, Reg::R2, room, fits);
                self.asm.mov(Reg::R2, room);
                self.asm.bind(fits);
                self.locate(*word, *relative, 0);
                Helper::ProbeReadKernelStr
            }
            Text::Pointer { field, user } => {
                let reg = self.number(&Number::Field(*field))?;
                self.asm.mov(Reg::R3, reg);
                self.asm.mov(Reg::R2, room);
                if *user {
                    Helper::ProbeReadUserStr
                } else {
                    Helper::ProbeReadKernelStr
                }
            }
        };
        self.address(Reg::R1, place);
        self.asm.call(helper);
        Ok(())
    }

    /// Jumps to `to` if the text equals the value (`when`), or if it differs (not `when`).
    pub(super) fn equals(
        &mut self,
        text: &Text,
        value: &[u8],
        when: bool,
        to: Label,
    ) -> Result<(), EmitError> {
        let differs = self.asm.label();
        let (otherwise, after) = if when {
            (differs, Some(differs))
        } else {
            (to, None)
        };
        if can_equal(text, value) {
            self.compare_text(text, value, otherwise)?;
            if when {
                self.asm.goto(to);
            }
        } else {
            self.always(otherwise);
        }
        if let Some(after) = after {
            self.asm.bind(after);
        }
        Ok(())
    }

    /// Falls through if the text equals the value, otherwise jumps to `differs`.
    fn compare_text(&mut self, text: &Text, value: &[u8], differs: Label) -> Result<(), EmitError> {
        let mut bytes = value.to_vec();
        let place = match text {
            Text::Field { offset, size } => {
                in_record(*offset, *size)?;
                // A full field has no NUL.
                if bytes.len() < *size as usize {
                    bytes.push(0);
                }
                return self.compare_field(*offset, &bytes, differs);
            }
            Text::Comm => {
                let place = Place::stack(frame::COMM);
                self.copy_text(text, place, 16)?;
                bytes.push(0);
                place
            }
            // Filters never compare text of other tables.
            Text::Read { .. } => return Err(EmitError::Unreadable),
            Text::Dynamic { .. } | Text::Pointer { .. } => {
                bytes.push(0);
                let place = Place::memory(0)?;
                // One more byte than the value shows whether the text is longer.
                self.copy_text(text, place, bytes.len() + 1)?;
                let length = i32::try_from(bytes.len()).map_err(|_| EmitError::TooLarge)?;
                self.asm.jump(Jump::Ne, Reg::R0, length, differs);
                place
            }
        };
        for (at, chunk, width) in chunks(&bytes, 0) {
            let at = place.plus(at)?;
            self.asm.load(width, Reg::R1, at.base, at.offset);
            self.asm.constant(Reg::R2, chunk);
            self.asm.jump(Jump::Ne, Reg::R1, Reg::R2, differs);
        }
        Ok(())
    }

    fn compare_field(&mut self, offset: u32, bytes: &[u8], to: Label) -> Result<(), EmitError> {
        for (at, chunk, width) in chunks(bytes, offset as usize) {
            let at = u32::try_from(at).map_err(|_| EmitError::Unreadable)?;
            let field = Number::Field(FieldRead {
                offset: offset + at,
                size: width.bytes(),
                signed: false,
            });
            let reg = self.number(&field)?;
            self.asm.constant(Reg::R1, chunk);
            self.asm.jump(Jump::Ne, reg, Reg::R1, to);
        }
        Ok(())
    }

    /// Jumps to `to` if the text matches (`when`), or if it does not (not `when`). Unreadable text
    /// does not match.
    pub(super) fn matches(
        &mut self,
        text: &Text,
        glob: &Glob,
        when: bool,
        to: Label,
    ) -> Result<(), EmitError> {
        let place = Place::memory(0)?;
        let fails = self.asm.label();
        let otherwise = if when { fails } else { to };
        self.asm.store(Width::B8, place.base, place.offset, 0);
        let room = match text {
            Text::Field { size, .. } => (*size as usize).saturating_add(1).min(TEXT_ROOM),
            Text::Comm => 16,
            Text::Dynamic { .. } | Text::Pointer { .. } => TEXT_ROOM,
            Text::Read { .. } => return Err(EmitError::Unreadable),
        };
        self.copy_text(text, place, room)?;
        self.asm.jump(Jump::Slt, Reg::R0, 0, otherwise);
        let entry = i32::try_from(self.globs.len()).unwrap_or(i32::MAX);
        self.globs.push(*glob.fits);
        let index = Place::stack(frame::INDEX);
        self.asm.store(Width::B4, index.base, index.offset, entry);
        self.lookup(MapUse::Globs, index);
        self.asm.jump(Jump::Eq, Reg::R0, 0, otherwise);
        self.step_through(glob, room);
        self.asm.constant(Reg::R1, glob.accepts);
        self.asm.alu(Alu::And, Reg::R7, Reg::R1);
        let jump = if when { Jump::Ne } else { Jump::Eq };
        self.asm.jump(jump, Reg::R7, 0, to);
        self.asm.bind(fails);
        Ok(())
    }

    /// Runs the pattern's automaton over the text and leaves its final state in R7. Expects the
    /// transition table in R0.
    fn step_through(&mut self, glob: &Glob, room: usize) {
        let (top, done) = (self.asm.label(), self.asm.label());
        let room = i32::try_from(room).unwrap_or(i32::MAX);
        self.asm.mov(Reg::R7, 1);
        self.asm.mov(Reg::R8, 0);
        self.asm.constant(Reg::R5, glob.stars);
        self.asm.bind(top);
        self.asm.mov(Reg::R2, Reg::R9);
        self.asm.alu(Alu::Add, Reg::R2, Reg::R8);
        self.asm.load(Width::B1, Reg::R2, Reg::R2, 0);
        self.asm.jump(Jump::Eq, Reg::R2, 0, done);
        self.asm.alu(Alu::Lsh, Reg::R2, 3);
        self.asm.mov(Reg::R3, Reg::R0);
        self.asm.alu(Alu::Add, Reg::R3, Reg::R2);
        self.asm.load(Width::B8, Reg::R3, Reg::R3, 0);
        self.asm.alu(Alu::And, Reg::R3, Reg::R7);
        self.asm.alu(Alu::Lsh, Reg::R3, 1);
        self.asm.alu(Alu::And, Reg::R7, Reg::R5);
        self.asm.alu(Alu::Or, Reg::R7, Reg::R3);
        self.asm.alu(Alu::Add, Reg::R8, 1);
        self.asm.jump(Jump::Lt, Reg::R8, room, top);
        self.asm.bind(done);
    }
}

/// Whether the text can equal the value: the value has no NUL and fits in the field.
fn can_equal(text: &Text, value: &[u8]) -> bool {
    let room = match text {
        Text::Field { size, .. } => *size as usize,
        Text::Comm => 15,
        Text::Dynamic { .. } | Text::Pointer { .. } | Text::Read { .. } => usize::MAX,
    };
    value.len() <= room && !value.contains(&0)
}

/// Splits bytes into the widest aligned words, each with its offset.
fn chunks(bytes: &[u8], base: usize) -> Vec<(usize, u64, Width)> {
    let mut chunks = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let fits = |size: &usize| at + size <= bytes.len() && (base + at).is_multiple_of(*size);
        let size = [8, 4, 2].into_iter().find(fits).unwrap_or(1);
        let mut word = [0; 8];
        let chunk = &bytes[at..at + size];
        let (value, width) = match size {
            8 => {
                word.copy_from_slice(chunk);
                (u64::from_ne_bytes(word), Width::B8)
            }
            4 => (
                u64::from(u32::from_ne_bytes([chunk[0], chunk[1], chunk[2], chunk[3]])),
                Width::B4,
            ),
            2 => (
                u64::from(u16::from_ne_bytes([chunk[0], chunk[1]])),
                Width::B2,
            ),
            _ => (u64::from(chunk[0]), Width::B1),
        };
        chunks.push((at, value, width));
        at += size;
    }
    chunks
}
