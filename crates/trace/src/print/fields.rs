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
