//! The arguments of a print format as a program for a stack machine. Evaluation does not recurse,
//! and all jumps go forward, so that a program always terminates.

use std::ops::Range;

use super::value::{Binary, Int, Kind, Unary};

/// An operation. Jump targets are indices of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// Pushes a number.
    Int(Int),
    /// Pushes a string literal, by index.
    Text(usize),
    /// Pushes a field, by index.
    Field(usize),
    /// Pushes the data of a dynamic field.
    Dynamic(usize),
    /// Pushes the length of a dynamic field's data in bytes.
    DynamicLength(usize),
    /// Pushes the placeholder of an unresolved name, by index.
    Unknown(usize),
    /// Converts the top of the stack.
    Cast(Cast),
    /// Applies an operator to the top of the stack.
    Unary(Unary),
    /// Applies an operator to the top two values.
    Binary(Binary),
    /// Replaces a pointer and an index with the element.
    Index,
    /// Replaces the structure on top of the stack with the placeholder of one of its members.
    Member(usize),
    /// Pops a value into a variable of a statement expression.
    Store(usize),
    /// Pushes a variable of a statement expression.
    Load(usize),
    /// Pops a value; if it is false, pushes 0 and jumps.
    AndThen(usize),
    /// Pops a value; if it is true, pushes 1 and jumps.
    OrElse(usize),
    /// Converts the top to 0 or 1.
    Truth,
    /// Pops a value; if it is false, jumps to `otherwise`. If it is missing, pushes it back and
    /// jumps to `end`.
    Branch {
        /// Start of the part after the colon.
        otherwise: usize,
        /// End of the conditional expression.
        end: usize,
    },
    Jump(usize),
    /// Pops the arguments of a kernel function and pushes its result.
    Call(Function),
}

/// The target of a cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cast {
    /// A number of this type.
    Int(Kind),
    /// 0 or 1.
    Bool,
    /// A pointer to numbers of this type.
    Pointer(Kind),
    /// A pointer to a value of unknown size.
    Opaque,
}

/// A function of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    /// `__print_flags` or `__print_symbolic`, for one value. The table with this index contains the
    /// names.
    Names(usize),
    /// `__print_hex` or `__print_hex_str`: bytes and their number.
    Hex {
        /// Whether to print spaces between bytes.
        spaced: bool,
    },
    /// `__print_array`: bytes, the number of elements, and the size of an element.
    Array,
    /// `__print_hex_dump`: prefix, kind of prefix, bytes per row, bytes per group, bytes, their
    /// number, and whether to append characters.
    HexDump,
    /// `__get_bitmask`, `__get_cpumask`: bytes.
    Bitmask,
    /// `__print_ns_to_secs`.
    Seconds,
    /// `__print_ns_without_secs`.
    Nanoseconds,
    /// Swaps this number of bytes.
    Swap(u8),
}

impl Function {
    /// Returns the number of arguments on the stack.
    pub(super) fn arity(self) -> usize {
        match self {
            Self::Names(_) | Self::Bitmask | Self::Seconds | Self::Nanoseconds | Self::Swap(_) => 1,
            Self::Hex { .. } => 2,
            Self::Array => 3,
            Self::HexDump => 7,
        }
    }
}

/// The names of one `__print_flags` or `__print_symbolic` call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// Range of the table's first argument in the program; the call follows.
    pub(super) argument: Range<usize>,
    /// Separator of names; `None` for `__print_symbolic`.
    pub(super) delimiter: Option<String>,
    /// Numbers and names in the kernel's order.
    pub(super) entries: Vec<(u64, String)>,
    /// Whether the number of every entry is known.
    pub(super) complete: bool,
}
