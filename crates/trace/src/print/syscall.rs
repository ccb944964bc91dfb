//! Formats events of system calls, for which the kernel does not use the event's print format.

use std::fmt::Write as _;

use crate::format::{EventFormat, FieldKind};

use super::eval;
use super::value::Value;

/// Appends the text that the kernel's trace file has for an event of the system `syscalls` since
/// Linux 5.16: `sys_dup2(oldfd: 0xb, newfd: 1)` or `sys_dup2 -> 0x1`. This text replaces both the
/// name and the text of the event.
///
/// Returns false and appends nothing for any other event.
pub fn syscall(event: &EventFormat, record: &[u8], out: &mut String) -> bool {
    if event.field("__syscall_nr").is_none() {
        return false;
    }
    if let Some(name) = event.name.strip_prefix("sys_exit_") {
        let _ = write!(out, "sys_{name} -> ");
        let result = event.field("ret").map(|ret| eval::field(ret, record));
        match result.and_then(|value| value.int()) {
            Some(int) => {
                // Writing to a `String` cannot fail.
                let _ = write!(out, "{:#x}", int.bits);
            }
            None => out.push('?'),
        }
        return true;
    }
    let Some(name) = event.name.strip_prefix("sys_enter_") else {
        return false;
    };
    let _ = write!(out, "sys_{name}(");
    // On later kernels, copies of argument data also have names that start with `__`.
    let arguments = event
        .fields
        .iter()
        .filter(|field| !field.name.starts_with("__"));
    for (index, field) in arguments.enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        let _ = write!(out, "{comma}{}: ", field.name);
        match (field.kind, eval::field(field, record)) {
            (FieldKind::Number | FieldKind::TextPointer, Value::Int(int)) => {
                let prefix = if int.bits < 10 { "" } else { "0x" };
                let _ = write!(out, "{prefix}{:x}", int.bits);
            }
            _ => out.push('?'),
        }
    }
    out.push(')');
    true
}
