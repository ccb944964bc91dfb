//! Implements the conversions of the kernel's `vsnprintf`. These conversions differ from C: zero
//! padding applies even if a precision is given, and `%#x` also prints its prefix for 0.

use super::template::{Conversion, Spec};
use super::value::{Int, Kind};

/// Maximum padding of a conversion, so that a hostile format cannot exhaust memory. The kernel
/// limits the output of an event to 8 KiB.
const MAX_PADDING: usize = 1024;

/// A conversion whose width and precision are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) spec: Spec,
    /// Minimum number of characters.
    pub(super) width: Option<usize>,
    /// Minimum number of digits, or maximum number of characters of text.
    pub(super) precision: Option<usize>,
}

impl Layout {
    /// Returns the width to which the conversion is padded.
    fn padded_width(&self) -> usize {
        self.width.unwrap_or(0).min(MAX_PADDING)
    }
}

/// Appends bytes, padded with spaces to the width.
pub(super) fn padded(layout: Layout, bytes: &[u8], out: &mut String) {
    let missing = layout.padded_width().saturating_sub(bytes.len());
    let spaces = || std::iter::repeat_n(' ', missing);
    if !layout.spec.left {
        out.extend(spaces());
    }
    out.push_str(&String::from_utf8_lossy(bytes));
    if layout.spec.left {
        out.extend(spaces());
    }
}

/// Appends a number, truncated to the size of the conversion.
pub(super) fn number(layout: Layout, int: Int, out: &mut String) {
    let spec = layout.spec;
    let signed = spec.conversion == Conversion::Signed;
    let bits = Kind::new(spec.size, signed).extend(int.bits);
    let negative = signed && bits.cast_signed() < 0;
    let magnitude = if negative { bits.wrapping_neg() } else { bits };
    let digits = match spec.conversion {
        Conversion::LowerHex => format!("{magnitude:x}"),
        Conversion::UpperHex => format!("{magnitude:X}"),
        Conversion::Octal => format!("{magnitude:o}"),
        _ => magnitude.to_string(),
    };
    let sign = match (negative, signed && spec.plus, signed && spec.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (.., true) => " ",
        _ => "",
    };
    let prefix = match spec.conversion {
        Conversion::LowerHex if spec.alternative => "0x",
        Conversion::UpperHex if spec.alternative => "0X",
        Conversion::Octal if spec.alternative && magnitude != 0 => "0",
        _ => "",
    };
    let precision = layout
        .precision
        .unwrap_or(0)
        .min(MAX_PADDING)
        .max(digits.len());
    let used = sign.len() + prefix.len() + precision;
    let missing = layout.padded_width().saturating_sub(used);
    let zeros = if spec.zero && !spec.left { missing } else { 0 };
    let spaces = missing - zeros;
    let repeat = std::iter::repeat_n;
    if !spec.left {
        out.extend(repeat(' ', spaces));
    }
    out.push_str(sign);
    out.push_str(prefix);
    out.extend(repeat('0', zeros + precision - digits.len()));
    out.push_str(&digits);
    if spec.left {
        out.extend(repeat(' ', spaces));
    }
}
