//! Formats the text of a record.

use std::borrow::Cow;

use super::eval::Machine;
use super::layout::{Layout, number, padded};
use super::pointer;
use super::template::{Conversion, Count, Piece, Spec};
use super::value::{Kind, Value};
use super::{Print, Symbols};

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
