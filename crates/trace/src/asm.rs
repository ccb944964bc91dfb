//! BPF instructions with labels, each with the source location from which it was generated.

pub(crate) mod listing;

use crate::source::Span;

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    /// The frame pointer: points to the end of the stack. Read-only.
    R10,
}

/// One instruction in the kernel's format (`struct bpf_insn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Insn {
    /// Class, operation, and source or size.
    pub code: u8,
    /// Destination register; for a store, the base address.
    pub dst: u8,
    /// Source register, or the meaning of `imm` (`BPF_PSEUDO_*`).
    pub src: u8,
    /// Jump distance in instructions, or memory offset in bytes.
    pub offset: i16,
    pub imm: i32,
}

impl Insn {
    /// Encodes the instruction in this machine's byte order.
    pub fn bytes(self) -> [u8; 8] {
        let registers = if cfg!(target_endian = "little") {
            self.src << 4 | self.dst
        } else {
            self.dst << 4 | self.src
        };
        let [o0, o1] = self.offset.to_ne_bytes();
        let [i0, i1, i2, i3] = self.imm.to_ne_bytes();
        [self.code, registers, o0, o1, i0, i1, i2, i3]
    }
}

/// Size of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// One byte.
    B1,
    /// Two bytes.
    B2,
    /// Four bytes.
    B4,
    /// Eight bytes.
    B8,
}

impl Width {
    /// Returns the width for a number of bytes.
    pub fn of(bytes: u32) -> Option<Self> {
        Some(match bytes {
            1 => Self::B1,
            2 => Self::B2,
            4 => Self::B4,
            8 => Self::B8,
            _ => return None,
        })
    }

    /// Returns the number of bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::B1 => 1,
            Self::B2 => 2,
            Self::B4 => 4,
            Self::B8 => 8,
        }
    }

    const fn code(self) -> u8 {
        match self {
            Self::B1 => 0x10,
            Self::B2 => 0x08,
            Self::B4 => 0x00,
            Self::B8 => 0x18,
        }
    }
}

/// A 64-bit ALU operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Div = 0x30,
    Or = 0x40,
    And = 0x50,
    Lsh = 0x60,
    Rsh = 0x70,
    Mod = 0x90,
    Xor = 0xa0,
    Mov = 0xb0,
    Arsh = 0xc0,
}

/// A jump condition. Variants without an `S` prefix compare unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Jump {
    Eq = 0x10,
    Gt = 0x20,
    Ge = 0x30,
    Set = 0x40,
    Ne = 0x50,
    Sgt = 0x60,
    Sge = 0x70,
    Lt = 0xa0,
    Le = 0xb0,
    Slt = 0xc0,
    Sle = 0xd0,
}

/// Kernel helper functions, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    KtimeGetNs = 5,
    SmpProcessorId = 8,
    CurrentPidTgid = 14,
    CurrentComm = 16,
    SkbLoadBytes = 26,
    CurrentTask = 35,
    GetStack = 67,
    CurrentCgroupId = 80,
    SkbLoadBytesRelative = 68,
    ProbeReadKernel = 113,
    ProbeReadUserStr = 114,
    ProbeReadKernelStr = 115,
    RingbufOutput = 130,
    RingbufQuery = 134,
    GetTaskStack = 141,
    CurrentTaskBtf = 158,
}

/// The second operand of an instruction: a register or a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    Reg(Reg),
    /// A sign-extended constant.
    Imm(i32),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Self {
        Self::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(imm: i32) -> Self {
        Self::Imm(imm)
    }
}

/// A jump target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(usize);

/// Instructions that are complete except for the descriptors of their maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    pub insns: Vec<Insn>,
    /// The source location of each instruction.
    pub origins: Vec<Option<Span>>,
    /// Map loads: the index of the first of the two instructions, and the number of the map.
    pub maps: Vec<(usize, u32)>,
}

/// The error that a jump spans more than 32,767 instructions, or that its label was never bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFar;

/// Collects instructions.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    code: Code,
    origin: Option<Span>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

const CLASS_LD: u8 = 0x00;
const CLASS_LDX: u8 = 0x01;
const CLASS_ST: u8 = 0x02;
const CLASS_STX: u8 = 0x03;
const CLASS_ALU: u8 = 0x04;
const CLASS_JMP: u8 = 0x05;
const CLASS_ALU64: u8 = 0x07;
const MODE_MEM: u8 = 0x60;
const MODE_ATOMIC: u8 = 0xc0;
const EXCHANGE: i32 = 0xe1;
const COMPARE_EXCHANGE: i32 = 0xf1;
const SOURCE_REG: u8 = 0x08;
const END: u8 = 0xd0;
const NEGATE: u8 = 0x80;
const PSEUDO_MAP_FD: u8 = 1;

impl Assembler {
    /// Sets the source location of the instructions that follow.
    pub(crate) fn set_origin(&mut self, origin: Option<Span>) {
        self.origin = origin;
    }

    /// Returns a new label that is not bound yet.
    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Binds the label to the next instruction.
    pub(crate) fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.insns.len());
    }

    pub(crate) fn alu(&mut self, op: Alu, dst: Reg, operand: impl Into<Operand>) {
        let op = op as u8 | CLASS_ALU64;
        match operand.into() {
            Operand::Reg(src) => self.push(op | SOURCE_REG, dst, src as u8, 0, 0),
            Operand::Imm(imm) => self.push(op, dst, 0, 0, imm),
        }
    }

    pub(crate) fn mov(&mut self, dst: Reg, operand: impl Into<Operand>) {
        let operand = operand.into();
        if operand != Operand::Reg(dst) {
            self.alu(Alu::Mov, dst, operand);
        }
    }

    /// Converts the lowest 16 bits from network to host byte order and clears the upper bits.
    pub(crate) fn network_16(&mut self, dst: Reg) {
        self.push(CLASS_ALU | END | SOURCE_REG, dst, 0, 0, 16);
    }

    /// Converts the lowest 32 bits from network to host byte order and clears the upper bits.
    pub(crate) fn network_32(&mut self, dst: Reg) {
        self.push(CLASS_ALU | END | SOURCE_REG, dst, 0, 0, 32);
    }

    /// Operates on the lower 32 bits and clears the upper bits.
    pub(crate) fn alu_32(&mut self, op: Alu, dst: Reg, operand: impl Into<Operand>) {
        let op = op as u8 | CLASS_ALU;
        match operand.into() {
            Operand::Reg(src) => self.push(op | SOURCE_REG, dst, src as u8, 0, 0),
            Operand::Imm(imm) => self.push(op, dst, 0, 0, imm),
        }
    }

    /// Negates the lower 32 bits and clears the upper bits.
    pub(crate) fn negate_32(&mut self, dst: Reg) {
        self.push(CLASS_ALU | NEGATE, dst, 0, 0, 0);
    }

    /// Loads a constant, with one instruction if the value fits in a sign-extended 32-bit
    /// immediate.
    pub(crate) fn constant(&mut self, dst: Reg, value: u64) {
        if let Ok(imm) = i32::try_from(value.cast_signed()) {
            self.mov(dst, imm);
            return;
        }
        self.push(CLASS_LD | Width::B8.code(), dst, 0, 0, value as i32);
        self.push(0, Reg::R0, 0, 0, (value >> 32) as i32);
    }

    /// Loads the address of a map.
    pub(crate) fn map(&mut self, dst: Reg, number: u32) {
        self.code.maps.push((self.code.insns.len(), number));
        self.push(CLASS_LD | Width::B8.code(), dst, PSEUDO_MAP_FD, 0, 0);
        self.push(0, Reg::R0, 0, 0, 0);
    }

    pub(crate) fn load(&mut self, width: Width, dst: Reg, base: Reg, offset: i16) {
        let code = CLASS_LDX | MODE_MEM | width.code();
        self.push(code, dst, base as u8, offset, 0);
    }

    pub(crate) fn store(
        &mut self,
        width: Width,
        base: Reg,
        offset: i16,
        value: impl Into<Operand>,
    ) {
        let code = MODE_MEM | width.code();
        match value.into() {
            Operand::Reg(src) => self.push(code | CLASS_STX, base, src as u8, offset, 0),
            Operand::Imm(imm) => self.push(code | CLASS_ST, base, 0, offset, imm),
        }
    }

    /// Adds `src` to the word in memory atomically.
    pub(crate) fn atomic_add(&mut self, base: Reg, offset: i16, src: Reg) {
        let code = CLASS_STX | MODE_ATOMIC | Width::B8.code();
        self.push(code, base, src as u8, offset, 0);
    }

    /// Exchanges `src` with the word in memory atomically (Linux 5.12).
    pub(crate) fn exchange(&mut self, base: Reg, offset: i16, src: Reg) {
        let code = CLASS_STX | MODE_ATOMIC | Width::B8.code();
        self.push(code, base, src as u8, offset, EXCHANGE);
    }

    /// Stores `src` if the word in memory equals R0. R0 receives the old value (Linux 5.12).
    pub(crate) fn compare_exchange(&mut self, base: Reg, offset: i16, src: Reg) {
        let code = CLASS_STX | MODE_ATOMIC | Width::B8.code();
        self.push(code, base, src as u8, offset, COMPARE_EXCHANGE);
    }

    pub(crate) fn call(&mut self, helper: Helper) {
        self.push(CLASS_JMP | 0x80, Reg::R0, 0, 0, helper as i32);
    }

    pub(crate) fn exit(&mut self) {
        self.push(CLASS_JMP | 0x90, Reg::R0, 0, 0, 0);
    }

    pub(crate) fn goto(&mut self, label: Label) {
        self.jumps.push((self.code.insns.len(), label));
        self.push(CLASS_JMP, Reg::R0, 0, 0, 0);
    }

    pub(crate) fn jump(&mut self, when: Jump, left: Reg, right: impl Into<Operand>, label: Label) {
        self.jumps.push((self.code.insns.len(), label));
        let code = when as u8 | CLASS_JMP;
        match right.into() {
            Operand::Reg(src) => self.push(code | SOURCE_REG, left, src as u8, 0, 0),
            Operand::Imm(imm) => self.push(code, left, 0, 0, imm),
        }
    }

    fn push(&mut self, code: u8, dst: Reg, src: u8, offset: i16, imm: i32) {
        let insn = Insn {
            code,
            dst: dst as u8,
            src,
            offset,
            imm,
        };
        self.code.insns.push(insn);
        self.code.origins.push(self.origin);
    }

    /// Resolves the jumps.
    pub(crate) fn finish(mut self) -> Result<Code, TooFar> {
        for (at, label) in self.jumps {
            let to = self.labels[label.0].ok_or(TooFar)?;
            let distance = to.cast_signed() - at.cast_signed() - 1;
            self.code.insns[at].offset = i16::try_from(distance).map_err(|_| TooFar)?;
        }
        Ok(self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_have_the_kernels_encoding() {
        let mut asm = Assembler::default();
        let end = asm.label();
        asm.load(Width::B4, Reg::R7, Reg::R6, 24);
        asm.jump(Jump::Sgt, Reg::R7, -1, end);
        asm.store(Width::B8, Reg::R10, -8, Reg::R7);
        asm.constant(Reg::R1, 0x1_0000_0002);
        asm.map(Reg::R1, 3);
        asm.call(Helper::MapLookup);
        asm.bind(end);
        asm.mov(Reg::R0, 0);
        asm.exit();
        let code = asm.finish().unwrap();
        let text: Vec<_> = code
            .insns
            .iter()
            .map(|i| {
                format!(
                    "{:02x} r{} r{} {} {}",
                    i.code, i.dst, i.src, i.offset, i.imm
                )
            })
            .collect();
        let expected = [
            "61 r7 r6 24 0",
            "65 r7 r0 6 -1",
            "7b r10 r7 -8 0",
            "18 r1 r0 0 2",
            "00 r0 r0 0 1",
            "18 r1 r1 0 0",
            "00 r0 r0 0 0",
            "85 r0 r0 0 1",
            "b7 r0 r0 0 0",
            "95 r0 r0 0 0",
        ];
        assert_eq!(text, expected);
        assert_eq!(code.maps, [(5, 3)]);
        assert_eq!(code.insns[0].bytes(), [0x61, 0x67, 24, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_jump_to_an_unbound_label_fails() {
        let mut asm = Assembler::default();
        let label = asm.label();
        asm.goto(label);
        assert_eq!(asm.finish(), Err(TooFar));
    }
}
