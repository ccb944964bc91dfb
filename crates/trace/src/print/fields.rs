//! Prints `name=value` for each field, for events whose print format cannot be rendered.

use std::fmt::Write as _;

use crate::format::{EventFormat, Field, FieldKind};

use super::dump;
use super::eval;
use super::value::{Int, Kind, Value, View};

/// Appends `name=value` for all fields except the common ones, separated by spaces.
///
/// Numbers are decimal, pointers and bytes hexadecimal, arrays `{1,2}`, CPU sets lists (`0-3,7`). A
/// field that is not fully in the record is `?`. Text is not escaped: the caller must handle
/// control characters.
pub fn fields(event: &EventFormat, record: &[u8], out: &mut String) {
    for (index, field) in event.fields.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        out.push_str(&field.name);
        out.push('=');
        let start = out.len();
        if value(field, record, out).is_none() {
            out.truncate(start);
            out.push('?');
        }
    }
}

/// The value of a field in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// An unsigned number or an address.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// Text, up to its first NUL.
    Text(Vec<u8>),
    /// A CPU list such as `0-3,7`.
    Cpus(String),
    /// The elements of an array.
    List(Vec<FieldValue>),
    /// Bytes of any other type.
    Bytes(Vec<u8>),
}

/// Returns the value of a field, or `None` if it is not fully in the record.
pub fn field_value(field: &Field, record: &[u8]) -> Option<FieldValue> {
    let number = |int: Int| match int.kind.signed {
        true => FieldValue::Signed(int.bits.cast_signed()),
        false => FieldValue::Unsigned(int.bits),
    };
    Some(match (field.kind, eval::dynamic(field, record)) {
        (FieldKind::Number, Value::Int(int)) => number(int),
        (FieldKind::TextPointer, Value::Int(int)) => FieldValue::Unsigned(int.bits),
        (FieldKind::Text | FieldKind::DynamicText { .. }, Value::Bytes(view)) => {
            FieldValue::Text(view.text().to_vec())
        }
        (FieldKind::CpuMask { .. }, Value::Bytes(view)) => {
            let mut list = String::new();
            dump::bitmap_list(view.bytes, None, &mut list)?;
            FieldValue::Cpus(list)
        }
        (FieldKind::Array { .. } | FieldKind::DynamicArray { .. }, Value::Bytes(view)) => {
            let elements = (0..).map_while(|index| view.element(Int::new(index, Kind::U64)));
            FieldValue::List(elements.map(number).collect())
        }
        (FieldKind::Bytes, Value::Bytes(view)) => FieldValue::Bytes(view.bytes.to_vec()),
        _ => return None,
    })
}

fn value(field: &Field, record: &[u8], out: &mut String) -> Option<()> {
    match (field.kind, eval::dynamic(field, record)) {
        (FieldKind::Number, Value::Int(int)) if field.declared.ends_with('*') => {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "{:#x}", int.bits);
        }
        (FieldKind::TextPointer, Value::Int(int)) => {
            let _ = write!(out, "{:#x}", int.bits);
        }
        (FieldKind::Number, Value::Int(int)) => decimal(int, out),
        (FieldKind::Text | FieldKind::DynamicText { .. }, Value::Bytes(view)) => {
            out.push_str(&String::from_utf8_lossy(view.text()));
        }
        (FieldKind::CpuMask { .. }, Value::Bytes(view)) => {
            dump::bitmap_list(view.bytes, None, out)?;
        }
        (FieldKind::Array { .. } | FieldKind::DynamicArray { .. }, Value::Bytes(view)) => {
            array(view, out);
        }
        (FieldKind::Bytes | FieldKind::Address, Value::Bytes(view)) => {
            dump::hex(view.bytes, "", out);
        }
        _ => return None,
    }
    Some(())
}

fn decimal(int: Int, out: &mut String) {
    let _ = if int.kind.signed {
        write!(out, "{}", int.bits.cast_signed())
    } else {
        write!(out, "{}", int.bits)
    };
}

fn array(view: View<'_>, out: &mut String) {
    out.push('{');
    let elements = (0..).map_while(|index| view.element(Int::new(index, Kind::U64)));
    for (index, element) in elements.enumerate() {
        if index > 0 {
            out.push(',');
        }
        decimal(element, out);
    }
    out.push('}');
}
