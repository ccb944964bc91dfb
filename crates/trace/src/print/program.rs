//! The arguments of a print format as a program for a machine with a stack: no recursion at run time,
//! and only forward jumps, so that it always ends.

use std::ops::Range;

use super::value::{Binary, Int, Kind, Unary};

/// One step. Places (`usize` of jumps) are indices of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// Pushes a number.
    Int(Int),
    /// Pushes text of the format, by its index.
    Text(usize),
    /// Pushes a field, by its index.
    Field(usize),
    /// Pushes the bytes that the word of a field points to.
    Dynamic(usize),
    /// Pushes how many bytes these are.
    DynamicLength(usize),
    /// Pushes the mark of a name that the format does not resolve, by its index.
    Unknown(usize),
    /// Converts the top.
    Cast(Cast),
    /// Applies an operator to the top.
    Unary(Unary),
    /// Applies an operator to the top two.
    Binary(Binary),
    /// Replaces a pointer and an index by the element.
    Index,
    /// Replaces the top by the mark of a member of a structure, which no format resolves.
    Member(usize),
    /// Pops into a variable of a statement expression.
    Store(usize),
    /// Pushes such a variable.
    Load(usize),
    /// Pops; if false, pushes 0 and jumps.
    AndThen(usize),
    /// Pops; if true, pushes 1 and jumps.
    OrElse(usize),
    /// Makes the top 0 or 1.
    Truth,
    /// Pops; if false, jumps to `otherwise`. Without a value, pushes that and jumps to `end`.
    Branch {
        /// The part behind the colon.
        otherwise: usize,
        /// Behind both parts.
        end: usize,
    },
    /// Goes on there.
    Jump(usize),
    /// Pops the arguments and pushes what the kernel's function makes of them.
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
    /// A pointer to something whose size is unknown.
    Opaque,
}

/// The kernel's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    /// `__print_flags`, `__print_symbolic`: the value. The rest stands in the table of this index.
    Names(usize),
    /// `__print_hex`, `__print_hex_str`: bytes and how many.
    Hex {
        /// A space between bytes.
        spaced: bool,
    },
    /// `__print_array`: bytes, how many elements, bytes of one.
    Array,
    /// `__print_hex_dump`: prefix, kind of prefix, bytes of a row, bytes of a group, bytes, how many,
    /// whether characters follow.
    HexDump,
    /// `__get_bitmask`, `__get_cpumask`: bytes.
    Bitmask,
    /// `__print_ns_to_secs`.
    Seconds,
    /// `__print_ns_without_secs`.
    Nanoseconds,
    /// Reverses so many bytes.
    Swap(u8),
}

impl Function {
    /// The number of values that it pops.
    pub(super) fn arity(self) -> usize {
        match self {
            Self::Names(_) | Self::Bitmask | Self::Seconds | Self::Nanoseconds | Self::Swap(_) => 1,
            Self::Hex { .. } => 2,
            Self::Array => 3,
            Self::HexDump => 7,
        }
    }
}

/// The names of one `__print_flags` or `__print_symbolic`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// The place of its first argument in the program; the call follows.
    pub(super) argument: Range<usize>,
    /// Text between names; `None` for `__print_symbolic`.
    pub(super) delimiter: Option<String>,
    /// Numbers and names in the kernel's order.
    pub(super) entries: Vec<(u64, String)>,
    /// The number of every entry is known.
    pub(super) complete: bool,
}
