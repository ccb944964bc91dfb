//! Classic BPF: the output of tcpdump's filter compiler and the input of `SO_ATTACH_FILTER`.
//!
//! A filter has two 32-bit registers, A and X, and sixteen memory cells. A load past the end of the
//! packet or a division by zero ends the filter, and the packet is rejected.

mod check;
mod text;

/// An instruction (`struct sock_filter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClassicInsn {
    /// Class, size, mode or operation.
    pub code: u16,
    /// Instructions to skip if the condition holds.
    pub jt: u8,
    /// Instructions to skip if the condition does not hold.
    pub jf: u8,
    /// A constant.
    pub k: u32,
}

/// A validated filter: it terminates and reads no memory cell before writing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classic {
    insns: Vec<ClassicInsn>,
}

/// The reason why a filter is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("instruction {at}: {problem}")]
pub struct ClassicError {
    /// Index of the instruction, from 0.
    pub at: usize,
    pub problem: &'static str,
}

impl Classic {
    /// Returns the instructions.
    pub fn insns(&self) -> &[ClassicInsn] {
        &self.insns
    }
}

/// The effect of an instruction. A jump distance is the number of instructions to skip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A = `size` bytes of the packet at offset `at`, plus X if `plus_x`.
    LoadPacket { size: u8, at: u32, plus_x: bool },
    /// A = a property of the packet that the kernel provides.
    LoadAncillary(Ancillary),
    /// A or X = the constant.
    LoadConstant(Register, u32),
    /// A or X = the packet's length.
    LoadLength(Register),
    /// A or X = a memory cell.
    LoadCell(Register, u8),
    /// X = four times the low nibble of a packet byte: the length of an IPv4 header.
    LoadHeaderLength(u32),
    /// A memory cell = A or X.
    Store(Register, u8),
    /// A = A op operand.
    Alu(AluOp, Source),
    /// A = -A.
    Negate,
    /// Skips a number of instructions.
    Jump(u32),
    /// Compares A with the operand and skips instructions depending on the result.
    Branch(Test, Source, u8, u8),
    /// X = A.
    AToX,
    /// A = X.
    XToA,
    /// Accepts the packet if the value is not 0.
    Return(Source),
    /// Accepts the packet if A is not 0.
    ReturnA,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Register {
    A,
    X,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Constant(u32),
    X,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AluOp {
    Add,
    Sub,
    Mul,
    Div,
    Or,
    And,
    Lsh,
    Rsh,
    Mod,
    Xor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Equal,
    Greater,
    GreaterOrEqual,
    AnyBit,
}

/// Packet properties that a filter can load from the Linux kernel (`SKF_AD_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ancillary {
    Protocol,
    PacketType,
    Interface,
    Mark,
    Queue,
    Hash,
    Cpu,
    VlanTag,
    VlanTagPresent,
    VlanProtocol,
}
