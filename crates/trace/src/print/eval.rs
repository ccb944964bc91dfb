//! Evaluates the arguments of a print format on a record.

use std::ops::Range;

use crate::format::{Field, FieldKind};

use super::Print;
use super::dump;
use super::program::{Cast, Function, Op};
use super::value::{Binary, Int, Kind, Value, View, number};

/// A stack machine with variables and a buffer for the text of the kernel's functions.
pub(super) struct Machine<'a> {
    print: &'a Print,
    record: &'a [u8],
    stack: Vec<Value<'a>>,
    variables: Vec<Value<'a>>,
    /// Buffer that [`Value::Made`] refers to.
    scratch: String,
}

impl<'a> Machine<'a> {
    pub(super) fn new(print: &'a Print, record: &'a [u8]) -> Self {
        Self {
            print,
            record,
            stack: Vec::new(),
            variables: vec![Value::Missing; print.variables],
            scratch: String::new(),
        }
    }

    /// Returns the text of [`Value::Made`].
    pub(super) fn made(&self, range: Range<usize>) -> &str {
        &self.scratch[range]
    }

    /// Evaluates an argument of the format.
    pub(super) fn argument(&mut self, index: usize) -> Value<'a> {
        let Some(range) = self.print.arguments.get(index) else {
            return Value::Missing;
        };
        self.stack.clear();
        let mut at = range.start;
        while at < range.end {
            at = self.step(at);
        }
        self.pop()
    }

    fn pop(&mut self) -> Value<'a> {
        self.stack.pop().unwrap_or(Value::Missing)
    }

    /// Executes the operation at this index and returns the index of the next one.
    fn step(&mut self, at: usize) -> usize {
        let print = self.print;
        let value = match &print.ops[at] {
            Op::Int(int) => Value::Int(*int),
            Op::Text(index) => Value::Text(&print.texts[*index]),
            Op::Field(index) => field(&print.fields[*index], self.record),
            Op::Dynamic(index) => dynamic(&print.fields[*index], self.record),
            Op::DynamicLength(index) => length(&print.fields[*index], self.record),
            Op::Unknown(index) => Value::Unknown(&print.unresolved[*index]),
            Op::Member(index) => match self.pop() {
                lost @ (Value::Missing | Value::Unknown(_)) => lost,
                _ => Value::Unknown(&print.unresolved[*index]),
            },
            Op::Load(slot) => self.variables[*slot].clone(),
            Op::Store(slot) => {
                self.variables[*slot] = self.pop();
                return at + 1;
            }
            Op::Cast(to) => cast(self.pop(), *to),
            Op::Unary(op) => match self.pop() {
                value @ (Value::Missing | Value::Unknown(_)) => value,
                value => value
                    .int()
                    .map_or(Value::Missing, |int| Value::Int(int.unary(*op))),
            },
            Op::Binary(op) => {
                let right = self.pop();
                binary(self.pop(), *op, right)
            }
            Op::Index => {
                let index = self.pop();
                element(&self.pop(), &index)
            }
            Op::Truth => {
                let value = self.pop();
                value
                    .truth()
                    .map_or(value, |truth| Value::Int(Int::truth(truth)))
            }
            Op::Call(function) => self.call(*function),
            Op::Jump(to) => return *to,
            Op::AndThen(to) => return self.shortcut(false, at, *to),
            Op::OrElse(to) => return self.shortcut(true, at, *to),
            Op::Branch { otherwise, end } => return self.branch(at, *otherwise, *end),
        };
        self.stack.push(value);
        at + 1
    }

    /// Jumps if the left value alone determines the result, or if the left value is missing.
    fn shortcut(&mut self, decides: bool, at: usize, to: usize) -> usize {
        let value = self.pop();
        match value.truth() {
            Some(truth) if truth != decides => return at + 1,
            Some(truth) => self.stack.push(Value::Int(Int::truth(truth))),
            None => self.stack.push(value),
        }
        to
    }

    fn branch(&mut self, at: usize, otherwise: usize, end: usize) -> usize {
        let value = self.pop();
        match value.truth() {
            Some(true) => at + 1,
            Some(false) => otherwise,
            None => {
                self.stack.push(value);
                end
            }
        }
    }

    /// Calls a function. If the value of an argument is missing, the result is also missing.
    fn call(&mut self, function: Function) -> Value<'a> {
        let first = self.stack.len().saturating_sub(function.arity());
        let arguments = self.stack.split_off(first);
        let lost = arguments.iter().find(|value| value.truth().is_none());
        if let Some(lost) = lost {
            return lost.clone();
        }
        if let Some(value) = call_numeric(function, &arguments) {
            return value;
        }
        let start = self.scratch.len();
        match dump::write(self.print, function, &arguments, &mut self.scratch) {
            Some(()) => Value::Made(start..self.scratch.len()),
            None => {
                self.scratch.truncate(start);
                Value::Missing
            }
        }
    }
}

/// Evaluates the functions that return a number.
fn call_numeric<'a>(function: Function, arguments: &[Value<'a>]) -> Option<Value<'a>> {
    const SECOND: u64 = 1_000_000_000;
    let int = arguments.first().and_then(Value::int);
    let made = match function {
        Function::Seconds => int.map(|int| Int::new(int.bits / SECOND, Kind::U64)),
        Function::Nanoseconds => int.map(|int| Int::new(int.bits % SECOND, Kind::U32)),
        Function::Swap(size) => int.map(|int| int.swapped(size)),
        _ => return None,
    };
    Some(made.map_or(Value::Missing, Value::Int))
}

/// Returns the bytes of a field, or `None` if the record does not contain all of them.
pub(super) fn bytes<'a>(field: &Field, record: &'a [u8]) -> Option<&'a [u8]> {
    let start = usize::try_from(field.offset).ok()?;
    let end = start.checked_add(usize::try_from(field.size).ok()?)?;
    record.get(start..end)
}

/// Evaluates `REC->field`.
pub(super) fn field<'a>(field: &Field, record: &'a [u8]) -> Value<'a> {
    let Some(bytes) = bytes(field, record) else {
        return Value::Missing;
    };
    let view = |element| Value::Bytes(View { bytes, element });
    match field.kind {
        FieldKind::Text => view(Kind::new(1, field.signed)),
        FieldKind::Array { element } => {
            view(Kind::of_size(element, field.signed).unwrap_or(Kind::U8))
        }
        FieldKind::Bytes | FieldKind::Address => view(Kind::U8),
        FieldKind::Number
        | FieldKind::TextPointer
        | FieldKind::DynamicText { .. }
        | FieldKind::CpuMask { .. }
        | FieldKind::DynamicArray { .. } => {
            let kind = Kind::of_size(field.size, field.signed);
            let found = kind.and_then(|kind| Some((number(bytes, bytes.len())?, kind)));
            found.map_or(Value::Missing, |(bits, kind)| {
                Value::Int(Int::new(bits, kind))
            })
        }
    }
}

/// Evaluates `__get_dynamic_array(field)`. The data of a field that is not dynamic is the field
/// itself.
pub(super) fn dynamic<'a>(of: &Field, record: &'a [u8]) -> Value<'a> {
    let (element, relative) = match of.kind {
        FieldKind::DynamicText { relative } => (Kind::CHAR, relative),
        FieldKind::CpuMask { relative } => (Kind::U8, relative),
        FieldKind::DynamicArray { element, relative } => (
            Kind::of_size(element, of.signed).unwrap_or(Kind::U8),
            relative,
        ),
        _ => return field(of, record),
    };
    let behind = of.offset.saturating_add(of.size);
    let found = word(of, record).and_then(|(offset, length)| {
        let start = if relative {
            offset.checked_add(behind)?
        } else {
            offset
        };
        let start = usize::try_from(start).ok()?;
        record.get(start..start.checked_add(length)?)
    });
    found.map_or(Value::Missing, |bytes| {
        Value::Bytes(View { bytes, element })
    })
}

/// Evaluates `__get_dynamic_array_len(field)`.
fn length<'a>(of: &Field, record: &[u8]) -> Value<'a> {
    let found = word(of, record);
    found.map_or(Value::Missing, |(_, length)| {
        Value::Int(Int::new(length as u64, Kind::I32))
    })
}

/// Returns the offset (low half) and the length (high half) from the word of a dynamic field.
fn word(field: &Field, record: &[u8]) -> Option<(u32, usize)> {
    let word = u32::from_ne_bytes(bytes(field, record)?.try_into().ok()?);
    Some((word & 0xffff, usize::try_from(word >> 16).ok()?))
}

fn cast(value: Value<'_>, to: Cast) -> Value<'_> {
    match (value, to) {
        (value @ (Value::Missing | Value::Unknown(_)), _) => value,
        (value, Cast::Bool) => value.truth().map_or(Value::Missing, |truth| {
            Value::Int(Int::new(u64::from(truth), Kind::U8))
        }),
        (Value::Bytes(view), Cast::Pointer(element)) => Value::Bytes(View { element, ..view }),
        (Value::Int(int), Cast::Pointer(kind)) if kind.size == 1 => {
            Value::Int(Int::new(int.bits, Kind::U64))
        }
        (Value::Int(int), Cast::Pointer(_) | Cast::Opaque) => Value::Address(int.bits),
        (value, Cast::Pointer(_) | Cast::Opaque) => value,
        // The record's address in kernel memory is unknown.
        (value, Cast::Int(kind)) => {
            let int = value.int();
            int.map_or(Value::Missing, |int| Value::Int(Int::new(int.bits, kind)))
        }
    }
}

fn binary<'a>(left: Value<'a>, op: Binary, right: Value<'a>) -> Value<'a> {
    let moves = matches!(op, Binary::Add | Binary::Subtract);
    match (left, right) {
        (lost @ (Value::Missing | Value::Unknown(_)), _) => lost,
        (_, lost @ (Value::Missing | Value::Unknown(_))) => lost,
        (Value::Bytes(view), Value::Int(by)) | (Value::Int(by), Value::Bytes(view))
            if op == Binary::Add =>
        {
            view.skip(by).map_or(Value::Missing, Value::Bytes)
        }
        // The element size of such a pointer is unknown, so pointer arithmetic is impossible.
        (Value::Address(_), _) | (_, Value::Address(_)) if moves => Value::Missing,
        (left, right) => {
            let result = left.int().zip(right.int());
            let result = result.and_then(|(left, right)| left.binary(op, right));
            result.map_or(Value::Missing, Value::Int)
        }
    }
}

fn element<'a>(array: &Value<'a>, index: &Value<'a>) -> Value<'a> {
    match (array, index) {
        (lost @ (Value::Missing | Value::Unknown(_)), _) => lost.clone(),
        (_, lost @ (Value::Missing | Value::Unknown(_))) => lost.clone(),
        (Value::Bytes(view), Value::Int(index)) => {
            view.element(*index).map_or(Value::Missing, Value::Int)
        }
        _ => Value::Missing,
    }
}
