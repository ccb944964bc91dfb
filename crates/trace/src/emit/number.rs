//! Compiles numbers: fields, context values and operators.

use super::{EmitError, Emitter, MAX_RECORD_SIZE, SPILLS, frame};
use crate::asm::{Alu, Helper, Jump, Reg, Width};
use crate::probe::SHIFT;
use crate::program::{Context, FieldRead, Number, Operator};

/// Bits of a dynamic field's word that hold the offset. The upper bits hold the length.
const OFFSET_MASK: i32 = 0xffff;

impl Emitter {
    /// Computes a number in R7.
    pub(super) fn number(&mut self, number: &Number) -> Result<Reg, EmitError> {
        self.compute(number, Reg::R7, 0)?;
        Ok(Reg::R7)
    }

    /// Computes two numbers, in R7 and R8.
    pub(super) fn pair(&mut self, left: &Number, right: &Number) -> Result<(), EmitError> {
        self.compute(left, Reg::R7, 0)?;
        self.compute(right, Reg::R8, 0)
    }

    /// Computes a number in R7 or R8; preserves R7 if `dst` is R8. `spilled` is the number of
    /// intermediate results on the stack.
    fn compute(&mut self, number: &Number, dst: Reg, spilled: usize) -> Result<(), EmitError> {
        match number {
            Number::Binary(op, left, right) => self.binary(*op, left, right, dst, spilled)?,
            Number::Log2(inner) => {
                self.compute(inner, dst, spilled)?;
                self.log2(dst);
            }
            Number::Bucket { number, width } => {
                self.compute(number, dst, spilled)?;
                self.asm.constant(Reg::R1, *width);
                self.asm.alu(Alu::Div, dst, Reg::R1);
                self.asm.alu(Alu::Mul, dst, Reg::R1);
            }
            Number::Constant(value) => self.asm.constant(dst, *value),
            Number::Field(field) => self.field(field, dst)?,
            Number::DynamicField { .. } => self.dynamic(number, dst)?,
            Number::Context(what) => self.context(*what, dst),
            Number::OfThread(offsets) => self.task_field(offsets, dst)?,
            Number::Read(_) | Number::Own(_) => self.variable(number, dst)?,
        }
        Ok(())
    }

    fn binary(
        &mut self,
        op: Operator,
        left: &Number,
        right: &Number,
        dst: Reg,
        spilled: usize,
    ) -> Result<(), EmitError> {
        self.compute(left, dst, spilled)?;
        if let Number::Constant(value) = right {
            self.asm.constant(Reg::R1, *value);
        } else if dst == Reg::R7 {
            self.compute(right, Reg::R8, spilled)?;
            self.asm.mov(Reg::R1, Reg::R8);
        } else {
            if spilled == SPILLS {
                return Err(EmitError::TooDeep);
            }
            let slot = frame::SPILLS + 8 * i16::try_from(spilled).unwrap_or(0);
            self.asm.store(Width::B8, Reg::R10, slot, dst);
            self.compute(right, dst, spilled + 1)?;
            self.asm.mov(Reg::R1, dst);
            self.asm.load(Width::B8, dst, Reg::R10, slot);
        }
        self.operate(op, dst);
        Ok(())
    }

    /// Applies the operator to `dst` and R1.
    fn operate(&mut self, op: Operator, dst: Reg) {
        let alu = match op {
            Operator::Plus => Alu::Add,
            Operator::Minus => Alu::Sub,
            Operator::Times => Alu::Mul,
            Operator::And => Alu::And,
            Operator::Or => Alu::Or,
            Operator::Xor => Alu::Xor,
            Operator::Divided => return self.divide(Alu::Div, false, dst),
            Operator::Remainder => return self.divide(Alu::Mod, false, dst),
            Operator::SignedDivided => return self.divide(Alu::Div, true, dst),
            Operator::SignedRemainder => return self.divide(Alu::Mod, true, dst),
            Operator::ShiftLeft => Alu::Lsh,
            Operator::ShiftRight => Alu::Rsh,
            Operator::SignedShiftRight => Alu::Arsh,
        };
        if matches!(alu, Alu::Lsh | Alu::Rsh | Alu::Arsh) {
            self.asm.alu(Alu::And, Reg::R1, 63);
        }
        self.asm.alu(alu, dst, Reg::R1);
    }

    /// Older kernels have no signed division, so this code divides the magnitudes and then restores
    /// the sign.
    fn divide(&mut self, alu: Alu, signed: bool, dst: Reg) {
        let (none, done) = (self.asm.label(), self.asm.label());
        self.asm.jump(Jump::Eq, Reg::R1, 0, none);
        if signed {
            // R2 has the sign of the result.
            self.asm.mov(Reg::R2, dst);
            if alu == Alu::Div {
                self.asm.alu(Alu::Xor, Reg::R2, Reg::R1);
            }
            self.magnitude(dst);
            self.magnitude(Reg::R1);
        }
        self.asm.alu(alu, dst, Reg::R1);
        if signed {
            self.asm.jump(Jump::Sge, Reg::R2, 0, done);
            self.negate(dst);
        }
        self.asm.goto(done);
        self.asm.bind(none);
        self.asm.mov(dst, -1);
        self.asm.bind(done);
    }

    fn magnitude(&mut self, reg: Reg) {
        let positive = self.asm.label();
        self.asm.jump(Jump::Sge, reg, 0, positive);
        self.negate(reg);
        self.asm.bind(positive);
    }

    /// Clobbers R3.
    fn negate(&mut self, reg: Reg) {
        self.asm.mov(Reg::R3, reg);
        self.asm.mov(reg, 0);
        self.asm.alu(Alu::Sub, reg, Reg::R3);
    }

    fn field(&mut self, field: &FieldRead, dst: Reg) -> Result<(), EmitError> {
        let width = Width::of(field.size).ok_or(EmitError::Unreadable)?;
        let mut offset = in_record(field.offset, field.size)?;
        if self.probe.is_function() {
            offset -= SHIFT as i16;
        }
        if field.offset.is_multiple_of(field.size) {
            self.asm.load(width, dst, Reg::R6, offset);
        } else {
            self.asm.mov(Reg::R3, Reg::R6);
            self.asm.alu(Alu::Add, Reg::R3, i32::from(offset));
            self.read_cell(width, dst);
        }
        if field.signed {
            self.sign_extend(width, dst);
        }
        Ok(())
    }

    /// Reads kernel memory at the address in R3. Yields 0 if the address is invalid.
    fn read_cell(&mut self, width: Width, dst: Reg) {
        self.asm.store(Width::B8, Reg::R10, frame::CELL, 0);
        self.asm.mov(Reg::R1, Reg::R10);
        self.asm.alu(Alu::Add, Reg::R1, i32::from(frame::CELL));
        self.asm.mov(Reg::R2, width.bytes().cast_signed());
        self.asm.call(Helper::ProbeReadKernel);
        self.asm.load(width, dst, Reg::R10, frame::CELL);
    }

    fn sign_extend(&mut self, width: Width, dst: Reg) {
        let bits = 64 - 8 * width.bytes().cast_signed();
        if bits > 0 {
            self.asm.alu(Alu::Lsh, dst, bits);
            self.asm.alu(Alu::Arsh, dst, bits);
        }
    }

    /// Loads an element of a dynamic array, or 0 if the array is too short.
    fn dynamic(&mut self, number: &Number, dst: Reg) -> Result<(), EmitError> {
        let Number::DynamicField {
            word,
            relative,
            skip,
            size,
            signed,
        } = *number
        else {
            return Err(EmitError::Unreadable);
        };
        let width = Width::of(size).ok_or(EmitError::Unreadable)?;
        let done = self.asm.label();
        self.word(word, Reg::R3)?;
        self.asm.mov(dst, 0);
        // Array lengths have 16 bits, so no array has an element at this offset.
        if u64::from(skip) + u64::from(size) > 0xffff {
            return Ok(());
        }
        let (skip, size) = (skip.cast_signed(), size.cast_signed());
        self.asm.mov(Reg::R1, Reg::R3);
        self.asm.alu(Alu::Rsh, Reg::R1, 16);
        self.asm.jump(Jump::Lt, Reg::R1, skip + size, done);
        self.locate(word, relative, skip);
        self.read_cell(width, dst);
        if signed {
            self.sign_extend(width, dst);
        }
        self.asm.bind(done);
        Ok(())
    }

    /// Loads the word of a dynamic field, which contains its offset and length.
    pub(super) fn word(&mut self, word: u32, dst: Reg) -> Result<(), EmitError> {
        let at = in_record(word, 4)?;
        if !word.is_multiple_of(4) {
            return Err(EmitError::Unreadable);
        }
        self.asm.load(Width::B4, dst, Reg::R6, at);
        Ok(())
    }

    /// Turns the word in R3 into the address of the field's data, plus `skip` bytes.
    pub(super) fn locate(&mut self, word: u32, relative: bool, skip: i32) {
        let base = if relative { word.cast_signed() + 4 } else { 0 };
        self.asm.alu(Alu::And, Reg::R3, OFFSET_MASK);
        self.asm.alu(Alu::Add, Reg::R3, base + skip);
        self.asm.alu(Alu::Add, Reg::R3, Reg::R6);
    }

    fn context(&mut self, what: Context, dst: Reg) {
        match what {
            Context::Latency => {
                return self.asm.load(Width::B8, dst, Reg::R10, frame::LATENCY);
            }
            Context::Pid | Context::Tgid => self.asm.call(Helper::CurrentPidTgid),
            Context::Cpu => self.asm.call(Helper::SmpProcessorId),
            Context::Time => self.asm.call(Helper::KtimeGetNs),
            Context::Cgroup => self.asm.call(Helper::CurrentCgroupId),
        }
        self.asm.mov(dst, Reg::R0);
        match what {
            Context::Pid => {
                // The lower half, signed like the kernel's field.
                self.sign_extend(Width::B4, dst);
            }
            Context::Tgid => self.asm.alu(Alu::Rsh, dst, 32),
            Context::Cpu | Context::Time | Context::Cgroup | Context::Latency => {}
        }
    }

    /// Follows a chain of pointers from the current task and loads the last value.
    fn task_field(&mut self, offsets: &[u32], dst: Reg) -> Result<(), EmitError> {
        self.asm.call(Helper::CurrentTask);
        self.asm.mov(Reg::R3, Reg::R0);
        for (index, offset) in offsets.iter().enumerate() {
            if index > 0 {
                self.asm.mov(Reg::R3, dst);
            }
            let offset = i32::try_from(*offset).map_err(|_| EmitError::Unreadable)?;
            self.asm.alu(Alu::Add, Reg::R3, offset);
            self.read_cell(Width::B8, dst);
        }
        Ok(())
    }

    /// Computes `ceil(log2(x))`, the bit length of `x - 1`.
    fn log2(&mut self, dst: Reg) {
        let done = self.asm.label();
        self.asm.jump(Jump::Eq, dst, 0, done);
        self.asm.alu(Alu::Sub, dst, 1);
        self.bit_length(dst);
        self.asm.bind(done);
    }

    /// Computes the bit length of a number; 0 for 0. Clobbers R4 and R5.
    ///
    /// The code has no jumps, because the verifier follows both branches of each. With six jumps
    /// per number, an expression with several logarithms exceeded the limit of 1,000,000
    /// instructions.
    pub(super) fn bit_length(&mut self, reg: Reg) {
        // Set all bits below the highest one, then count the bits.
        for bits in [1, 2, 4, 8, 16, 32] {
            self.shifted(reg, bits);
            self.asm.alu(Alu::Or, reg, Reg::R4);
        }
        self.shifted(reg, 1);
        self.asm.constant(Reg::R5, 0x5555_5555_5555_5555);
        self.asm.alu(Alu::And, Reg::R4, Reg::R5);
        self.asm.alu(Alu::Sub, reg, Reg::R4);
        self.shifted(reg, 2);
        self.asm.constant(Reg::R5, 0x3333_3333_3333_3333);
        self.asm.alu(Alu::And, Reg::R4, Reg::R5);
        self.asm.alu(Alu::And, reg, Reg::R5);
        self.asm.alu(Alu::Add, reg, Reg::R4);
        self.shifted(reg, 4);
        self.asm.alu(Alu::Add, reg, Reg::R4);
        self.asm.constant(Reg::R5, 0x0f0f_0f0f_0f0f_0f0f);
        self.asm.alu(Alu::And, reg, Reg::R5);
        self.asm.constant(Reg::R5, 0x0101_0101_0101_0101);
        self.asm.alu(Alu::Mul, reg, Reg::R5);
        self.asm.alu(Alu::Rsh, reg, 56);
    }

    /// Copies the number to R4 without its lowest bits.
    fn shifted(&mut self, reg: Reg, bits: i32) {
        self.asm.mov(Reg::R4, reg);
        self.asm.alu(Alu::Rsh, Reg::R4, bits);
    }
}

/// Returns the offset of bytes that a program can read. Programs cannot read the first eight bytes.
pub(super) fn in_record(offset: u32, size: u32) -> Result<i16, EmitError> {
    let end = offset
        .checked_add(size)
        .filter(|end| *end <= MAX_RECORD_SIZE);
    if offset < 8 || size == 0 || end.is_none() {
        return Err(EmitError::Unreadable);
    }
    i16::try_from(offset).map_err(|_| EmitError::Unreadable)
}
