//! `name=value` for each field: where an event has no print format that can be rendered.

use std::fmt::Write as _;

use crate::format::{EventFormat, Field, FieldKind};

use super::dump;
use super::eval;
use super::value::{Int, Kind, Value, View};

/// Appends `name=value` of all fields but the common ones, with spaces between them.
///
/// Numbers are decimal, pointers and bytes hexadecimal, arrays `{1,2}`, sets of CPUs lists (`0-3,7`).
/// A field that is not wholly in the record is `?`. Text stands as it is in the record, so that the
/// caller has to make control characters harmless.
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

/// What a field of a record has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// A number that cannot be below zero; an address too.
    Unsigned(u64),
    /// A number that can.
    Signed(i64),
    /// Text, up to its first NUL.
    Text(Vec<u8>),
    /// A list of CPUs, such as `0-3,7`.
    Cpus(String),
    /// The elements of an array.
    List(Vec<FieldValue>),
    /// Anything else.
    Bytes(Vec<u8>),
}

/// The value of a field; `None` if it is not wholly in the record.
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
            // Writing to a string does not fail.
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
