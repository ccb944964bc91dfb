//! Classic BPF: what tcpdump compiles its filters to, and what a socket takes by `SO_ATTACH_FILTER`.
//!
//! A filter has two registers of 32 bits, A and X, and sixteen cells of memory. A load from behind the
//! packet's end, and a division by zero, end it: the packet does not pass.

mod check;
mod text;

use std::fmt;

/// An instruction (`struct sock_filter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClassicInsn {
    /// Class, size, mode or operation.
    pub code: u16,
    /// Instructions to pass over where a condition holds.
    pub jt: u8,
    /// Instructions to pass over where it does not.
    pub jf: u8,
    /// A constant.
    pub k: u32,
}

/// A filter whose instructions have been checked: it ends, and reads nothing that it has not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classic {
    insns: Vec<ClassicInsn>,
}

/// Why instructions are no filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicError {
    /// Which instruction, from 0.
    pub at: usize,
    /// What is wrong.
    pub problem: &'static str,
}

impl fmt::Display for ClassicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "instruction {}: {}", self.at, self.problem)
    }
}

impl std::error::Error for ClassicError {}

impl Classic {
    /// The instructions.
    pub fn insns(&self) -> &[ClassicInsn] {
        &self.insns
    }
}

/// What an instruction does. Jumps pass over so many instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A = so many bytes of the packet, at the constant, or behind X.
    LoadPacket { size: u8, at: u32, behind_x: bool },
    /// A = what the kernel knows of the packet.
    LoadAncillary(Ancillary),
    /// A or X = the constant.
    LoadConstant(Register, u32),
    /// A or X = the packet's length.
    LoadLength(Register),
    /// A or X = a cell.
    LoadCell(Register, u8),
    /// X = four times the low half of a byte of the packet: the length of an IPv4 header.
    LoadHeaderLength(u32),
    /// A cell = A or X.
    Store(Register, u8),
    /// A = A and the operand.
    Alu(AluOp, Source),
    /// A = -A.
    Negate,
    /// Passes over so many.
    Jump(u32),
    /// Compares A with the operand.
    Branch(Test, Source, u8, u8),
    /// X = A.
    AToX,
    /// A = X.
    XToA,
    /// The packet passes if this is not 0.
    Return(Source),
    /// The packet passes if A is not 0.
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

/// What a filter of Linux can ask of the kernel (`SKF_AD_*`).
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
