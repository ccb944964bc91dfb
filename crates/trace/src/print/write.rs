//! Implements the conversions of the kernel's `vsnprintf`. These conversions differ from C: zero
//! padding applies even if a precision is given, and `%#x` also prints its prefix for 0.

use std::borrow::Cow;

use super::eval::Machine;
use super::pointer;
use super::template::{Conversion, Count, Piece, Spec};
use super::value::{Int, Kind, Value};
use super::{Print, Symbols};

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

/// Appends the text of a record.
pub(super) fn record(print: &Print, record: &[u8], symbols: &dyn Symbols, out: &mut String) {
    let mut writer = Writer {
        machine: Machine::new(print, record),
        next: 0,
        symbols,
    };
    for piece in &print.pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Spec(spec) => writer.conversion(*spec, out),
        }
    }
}

struct Writer<'a> {
    machine: Machine<'a>,
    next: usize,
    symbols: &'a dyn Symbols,
}

impl<'a> Writer<'a> {
    fn argument(&mut self) -> Value<'a> {
        let index = self.next;
        self.next += 1;
        self.machine.argument(index)
    }

    /// Evaluates a width or precision, which can be negative if it is an argument.
    fn count(&mut self, count: Count) -> Option<i32> {
        match count {
            Count::None => None,
            Count::Fixed(number) => i32::try_from(number).ok(),
            Count::Next => {
                let int = self.argument().int()?;
                Some(Kind::I32.extend(int.bits).cast_signed() as i32)
            }
        }
    }

    fn conversion(&mut self, mut spec: Spec, out: &mut String) {
        let width = self.count(spec.width);
        spec.left |= width.is_some_and(|width| width < 0);
        let precision = self.count(spec.precision);
        let value = self.argument();
        let layout = Layout {
            spec,
            width: width.and_then(|width| usize::try_from(width.unsigned_abs()).ok()),
            precision: precision.and_then(|count| usize::try_from(count).ok()),
        };
        self.value(layout, &value, out);
    }

    fn value(&self, layout: Layout, value: &Value<'a>, out: &mut String) {
        match (layout.spec.conversion, value) {
            (_, Value::Missing) => out.push('?'),
            (_, Value::Unknown(name)) => {
                out.push('?');
                out.push_str(name);
                out.push('?');
            }
            (Conversion::Text, value) => self.text(layout, value, out),
            (Conversion::Pointer(letters), value) => {
                let letters = letters.as_slice();
                pointer::write(layout, letters, value, self.symbols, out);
            }
            (Conversion::Character, value) => match value.int() {
                Some(int) => padded(layout, &[int.bits.to_le_bytes()[0]], out),
                None => out.push('?'),
            },
            (Conversion::Other, _) => out.push('?'),
            (_, value) => match value.int() {
                Some(int) => number(layout, int, out),
                None => out.push('?'),
            },
        }
    }

    fn text(&self, layout: Layout, value: &Value<'a>, out: &mut String) {
        let bytes: Cow<'_, [u8]> = match value {
            Value::Text(text) => Cow::Borrowed(text.as_bytes()),
            Value::Made(range) => Cow::Borrowed(self.machine.made(range.clone()).as_bytes()),
            Value::Bytes(view) => Cow::Borrowed(view.text()),
            value => match value.int().map(|int| int.bits) {
                None => return out.push('?'),
                Some(0) => Cow::Borrowed(b"(null)"),
                Some(address) => match self.symbols.text(address) {
                    Some(text) => Cow::Owned(text.into_owned().into_bytes()),
                    None => Cow::Owned(format!("{address:#x}").into_bytes()),
                },
            },
        };
        let most = layout.precision.unwrap_or(bytes.len()).min(bytes.len());
        padded(layout, &bytes[..most], out);
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
