//! C integers on a 64-bit kernel, and the values of expressions in a print format.

use std::ops::Range;

/// Width and signedness of an integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// Size in bytes: 1, 2, 4 or 8.
    pub(super) size: u8,
    pub(super) signed: bool,
}

impl Kind {
    /// `char`, which is signed as on x86.
    pub(super) const CHAR: Self = Self::new(1, true);
    /// `u8`.
    pub(super) const U8: Self = Self::new(1, false);
    /// `int`.
    pub(super) const I32: Self = Self::new(4, true);
    /// `unsigned int`.
    pub(super) const U32: Self = Self::new(4, false);
    /// `long`.
    pub(super) const I64: Self = Self::new(8, true);
    /// `unsigned long`.
    pub(super) const U64: Self = Self::new(8, false);

    /// Creates a type of this size.
    pub(super) const fn new(size: u8, signed: bool) -> Self {
        Self { size, signed }
    }

    /// Creates a type of this size, if C has one.
    pub(super) fn of_size(size: u32, signed: bool) -> Option<Self> {
        match size {
            1 => Some(Self::new(1, signed)),
            2 => Some(Self::new(2, signed)),
            4 => Some(Self::new(4, signed)),
            8 => Some(Self::new(8, signed)),
            _ => None,
        }
    }

    /// Truncates the bits to the type and extends them to 64 bits according to its sign.
    pub(super) fn extend(self, bits: u64) -> u64 {
        let unused = 64 - 8 * u32::from(self.size);
        if self.signed {
            (((bits << unused).cast_signed()) >> unused).cast_unsigned()
        } else {
            (bits << unused) >> unused
        }
    }

    /// C's integer promotion.
    fn promoted(self) -> Self {
        if self.size < 4 { Self::I32 } else { self }
    }

    /// C's usual arithmetic conversions.
    fn common(self, other: Self) -> Self {
        let (a, b) = (self.promoted(), other.promoted());
        match a.size.cmp(&b.size) {
            std::cmp::Ordering::Less => b,
            std::cmp::Ordering::Greater => a,
            std::cmp::Ordering::Equal => Self::new(a.size, a.signed && b.signed),
        }
    }
}

/// A number with its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Int {
    /// The number, extended to 64 bits.
    pub(super) bits: u64,
    pub(super) kind: Kind,
}

impl Int {
    /// Creates a number that is truncated to the type.
    pub(super) fn new(bits: u64, kind: Kind) -> Self {
        let bits = kind.extend(bits);
        Self { bits, kind }
    }

    /// Creates an `int` of 0 or 1, the result of comparisons.
    pub(super) fn truth(truth: bool) -> Self {
        Self::new(u64::from(truth), Kind::I32)
    }

    /// Creates the value of an enumerator, an `int` if it fits.
    pub(super) fn constant(value: i64) -> Self {
        let kind = if i32::try_from(value).is_ok() {
            Kind::I32
        } else if u32::try_from(value).is_ok() {
            Kind::U32
        } else {
            Kind::I64
        };
        Self::new(value.cast_unsigned(), kind)
    }

    /// Applies a unary operator.
    pub(super) fn unary(self, op: Unary) -> Self {
        let kind = self.kind.promoted();
        match op {
            Unary::Not => Self::truth(self.bits == 0),
            Unary::Complement => Self::new(!self.bits, kind),
            Unary::Minus => Self::new(self.bits.wrapping_neg(), kind),
            Unary::Plus => Self::new(self.bits, kind),
        }
    }

    /// Computes `self op other`, or `None` for a division by zero.
    pub(super) fn binary(self, op: Binary, other: Self) -> Option<Self> {
        if matches!(op, Binary::ShiftLeft | Binary::ShiftRight) {
            return Some(self.shift(op, other.bits));
        }
        let kind = self.kind.common(other.kind);
        let (a, b) = (kind.extend(self.bits), kind.extend(other.bits));
        let (sa, sb) = (a.cast_signed(), b.cast_signed());
        let order = if kind.signed { sa.cmp(&sb) } else { a.cmp(&b) };
        let bits = match op {
            Binary::Equal => return Some(Self::truth(order.is_eq())),
            Binary::NotEqual => return Some(Self::truth(order.is_ne())),
            Binary::Less => return Some(Self::truth(order.is_lt())),
            Binary::LessOrEqual => return Some(Self::truth(order.is_le())),
            Binary::Greater => return Some(Self::truth(order.is_gt())),
            Binary::GreaterOrEqual => return Some(Self::truth(order.is_ge())),
            Binary::Add => a.wrapping_add(b),
            Binary::Subtract => a.wrapping_sub(b),
            Binary::Multiply => a.wrapping_mul(b),
            Binary::Divide | Binary::Remainder if b == 0 => return None,
            Binary::Divide if kind.signed => sa.wrapping_div(sb).cast_unsigned(),
            Binary::Divide => a / b,
            Binary::Remainder if kind.signed => sa.wrapping_rem(sb).cast_unsigned(),
            Binary::Remainder => a % b,
            Binary::And => a & b,
            Binary::Or => a | b,
            Binary::Xor => a ^ b,
            Binary::ShiftLeft | Binary::ShiftRight => return None,
        };
        Some(Self::new(bits, kind))
    }

    /// Shifts the number; the result has the type of the left operand. In C, a shift by the width
    /// or more is undefined. Here, as on processors, only the low bits of the shift amount are
    /// used.
    fn shift(self, op: Binary, count: u64) -> Self {
        let kind = self.kind.promoted();
        let bits = kind.extend(self.bits);
        let count = count & (8 * u64::from(kind.size) - 1);
        let shifted = match op {
            Binary::ShiftLeft => bits << count,
            _ if kind.signed => (bits.cast_signed() >> count).cast_unsigned(),
            _ => bits >> count,
        };
        Self::new(shifted, kind)
    }

    /// Reverses the order of the low `size` bytes.
    pub(super) fn swapped(self, size: u8) -> Self {
        let kind = Kind::new(size, false);
        let unused = 64 - 8 * u32::from(size);
        Self::new(self.bits.swap_bytes() >> unused, kind)
    }
}

/// A unary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Not,
    Complement,
    Minus,
    Plus,
}

/// A binary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Multiply,
    Divide,
    Remainder,
    Add,
    Subtract,
    ShiftLeft,
    ShiftRight,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
    And,
    Xor,
    Or,
}

/// Bytes of the record as consecutive numbers of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct View<'a> {
    /// The bytes from the pointer to the end of the field.
    pub(super) bytes: &'a [u8],
    /// Type of an element.
    pub(super) element: Kind,
}

impl<'a> View<'a> {
    /// Returns the element at this index, or `None` outside of the field.
    pub(super) fn element(self, index: Int) -> Option<Int> {
        let bytes = self.skip(index)?.bytes;
        number(bytes, usize::from(self.element.size)).map(|bits| Int::new(bits, self.element))
    }

    /// Returns the view without the first elements.
    pub(super) fn skip(self, elements: Int) -> Option<Self> {
        let elements = usize::try_from(elements.bits).ok()?;
        let start = elements.checked_mul(usize::from(self.element.size))?;
        let bytes = self.bytes.get(start..)?;
        Some(Self { bytes, ..self })
    }

    /// Returns the bytes up to the first NUL.
    pub(super) fn text(self) -> &'a [u8] {
        let end = self.bytes.iter().position(|byte| *byte == 0);
        &self.bytes[..end.unwrap_or(self.bytes.len())]
    }
}

/// Reads the first `size` bytes as a number in host byte order.
pub(super) fn number(bytes: &[u8], size: usize) -> Option<u64> {
    let bytes = bytes.get(..size)?;
    Some(match size {
        1 => u64::from(bytes[0]),
        2 => u64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
        4 => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
        8 => u64::from_ne_bytes(bytes.try_into().ok()?),
        _ => return None,
    })
}

/// The value of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A number, or a pointer outside of the record.
    Int(Int),
    /// A pointer outside of the record whose element size is unknown, so that pointer arithmetic is
    /// impossible.
    Address(u64),
    /// A pointer into the record.
    Bytes(View<'a>),
    /// A string literal of the format.
    Text(&'a str),
    /// The result of a kernel function: a range of the scratch buffer.
    Made(Range<usize>),
    /// A value outside the record, or an undefined result.
    Missing,
    /// A name that the format does not resolve.
    Unknown(&'a str),
}

impl Value<'_> {
    /// Converts the value to a truth value like C, or returns `None` for a missing value.
    pub(super) fn truth(&self) -> Option<bool> {
        match self {
            Self::Int(int) => Some(int.bits != 0),
            Self::Address(address) => Some(*address != 0),
            Self::Bytes(_) | Self::Text(_) | Self::Made(_) => Some(true),
            Self::Missing | Self::Unknown(_) => None,
        }
    }

    /// Returns the value as a number, if it is one.
    pub(super) fn int(&self) -> Option<Int> {
        match self {
            Self::Int(int) => Some(*int),
            Self::Address(address) => Some(Int::new(*address, Kind::U64)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(value: i64, kind: Kind) -> Int {
        Int::new(value.cast_unsigned(), kind)
    }

    #[test]
    fn arithmetic_follows_c() {
        let (i, u) = (Kind::I32, Kind::U32);
        let cases = [
            (int(-1, i), Binary::Less, int(1, u), int(0, i)),
            (int(-1, i), Binary::Less, int(1, i), int(1, i)),
            (int(-1, i), Binary::Greater, int(1, Kind::U64), int(1, i)),
            (int(-1, i), Binary::Less, int(1, Kind::I64), int(1, i)),
            (
                int(0xffff_ffff, u),
                Binary::Less,
                int(-1, Kind::I64),
                int(0, i),
            ),
            (
                int(0x7fff_ffff, i),
                Binary::Add,
                int(1, i),
                int(-0x8000_0000, i),
            ),
            (int(0xffff_ffff, u), Binary::Add, int(1, i), int(0, u)),
            (
                int(200, Kind::U8),
                Binary::Add,
                int(100, Kind::U8),
                int(300, i),
            ),
            (int(-7, i), Binary::Divide, int(2, i), int(-3, i)),
            (int(-7, i), Binary::Remainder, int(2, i), int(-1, i)),
            (int(-8, i), Binary::ShiftRight, int(1, i), int(-4, i)),
            (
                int(0x8000_0000, u),
                Binary::ShiftRight,
                int(31, i),
                int(1, u),
            ),
            (int(1, i), Binary::ShiftLeft, int(33, i), int(2, i)),
            (
                int(i64::MIN, Kind::I64),
                Binary::Divide,
                int(-1, i),
                int(i64::MIN, Kind::I64),
            ),
        ];
        for (a, op, b, expected) in cases {
            assert_eq!(a.binary(op, b), Some(expected), "{a:?} {op:?} {b:?}");
        }
        assert_eq!(int(1, i).binary(Binary::Divide, int(0, u)), None);
        assert_eq!(int(1, i).binary(Binary::Remainder, int(0, u)), None);
    }

    #[test]
    fn a_view_ends_at_its_field() {
        let view = View {
            bytes: &[1, 0, 2, 0, 3],
            element: Kind::new(2, false),
        };
        assert_eq!(
            view.element(int(1, Kind::I32)),
            Some(int(2, Kind::new(2, false)))
        );
        assert_eq!(view.element(int(2, Kind::I32)), None);
        assert_eq!(view.element(int(-1, Kind::I32)), None);
        assert_eq!(view.element(int(i64::MAX, Kind::I64)), None);
        assert_eq!(int(0x1234, Kind::I32).swapped(2).bits, 0x3412);
    }
}
