//! Decodes the bytes of a map to named values, according to the layout in the object's BTF.

use std::fmt::{self, Write as _};

use noctule_kernel::{Member, Shape};

/// A decoded value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer.
    Number(i128),
    /// A floating-point number.
    Float(f64),
    Bool(bool),
    /// Text up to its NUL, with invalid UTF-8 as `\xHH`.
    Text(String),
    /// A number of an enumeration.
    Named {
        value: i128,
        /// Name of the enumerator, if there is one.
        name: Option<String>,
    },
    /// An address.
    Pointer(u64),
    /// The elements of an array.
    List(Vec<Value>),
    /// The named members of a struct, in order.
    Record(Vec<(String, Value)>),
    /// Bytes of unknown layout.
    Bytes(Vec<u8>),
}

/// Decodes a value. Missing bytes count as zero.
pub fn decode(shape: &Shape, bytes: &[u8]) -> Value {
    match shape {
        Shape::Number { size, signed } => Value::Number(number(bytes, *size, *signed)),
        Shape::Char => text(&bytes[..bytes.len().min(1)]),
        Shape::Bool { size } => Value::Bool(number(bytes, *size, false) != 0),
        Shape::Float { size } => Value::Float(float(bytes, *size)),
        Shape::Pointer => Value::Pointer(number(bytes, 8, false) as u64),
        Shape::Enum {
            size,
            signed,
            names,
        } => named(number(bytes, *size, *signed), names),
        Shape::Array { element, .. } if **element == Shape::Char => text(bytes),
        Shape::Array { element, count } => {
            let size = element.size();
            let part =
                |index: usize| decode(element, rest(bytes, index.saturating_mul(size), size));
            // The layout may claim more elements than there are bytes.
            let available = bytes.len().div_ceil(size.max(1));
            Value::List((0..*count.min(&available)).map(part).collect())
        }
        Shape::Struct { members, .. } => {
            let mut record = Vec::new();
            members
                .iter()
                .for_each(|member| add_member(member, bytes, &mut record));
            Value::Record(record)
        }
        // Values of maps without BTF are mostly numbers.
        Shape::Bytes {
            size: size @ (1 | 2 | 4 | 8),
        } => Value::Number(number(bytes, *size, false)),
        Shape::Bytes { .. } => Value::Bytes(bytes.to_vec()),
    }
}

/// Decodes a member. The members of an anonymous struct are added to the enclosing one.
fn add_member(member: &Member, bytes: &[u8], record: &mut Vec<(String, Value)>) {
    let value = match member.bits {
        Some(bits) => bit_field(member, bytes, bits),
        None => {
            let from = member.offset as usize / 8;
            decode(&member.shape, rest(bytes, from, member.shape.size()))
        }
    };
    match value {
        Value::Record(inner) if member.name.is_empty() => record.extend(inner),
        value => record.push((member.name.clone(), value)),
    }
}

fn bit_field(member: &Member, bytes: &[u8], bits: u8) -> Value {
    let from = member.offset as usize;
    let bit = |index: usize| {
        let at = if cfg!(target_endian = "little") {
            from + index
        } else {
            from + usize::from(bits) - 1 - index
        };
        let byte = bytes.get(at / 8).copied().unwrap_or(0);
        let shift = if cfg!(target_endian = "little") {
            at % 8
        } else {
            7 - at % 8
        };
        i128::from(byte >> shift & 1)
    };
    let bits = usize::from(bits.min(64));
    let mut value: i128 = (0..bits).map(|index| bit(index) << index).sum();
    let signed = matches!(
        member.shape,
        Shape::Number { signed: true, .. } | Shape::Enum { signed: true, .. }
    );
    if signed && bits > 0 && value >> (bits - 1) & 1 == 1 {
        value -= 1 << bits;
    }
    match &member.shape {
        Shape::Bool { .. } => Value::Bool(value != 0),
        Shape::Enum { names, .. } => named(value, names),
        _ => Value::Number(value),
    }
}

fn rest(bytes: &[u8], from: usize, size: usize) -> &[u8] {
    let rest = bytes.get(from..).unwrap_or_default();
    &rest[..rest.len().min(size)]
}

fn named(value: i128, names: &[(i64, String)]) -> Value {
    let name = names
        .iter()
        .find(|(number, _)| i128::from(*number) == value);
    Value::Named {
        value,
        name: name.map(|(_, name)| name.clone()),
    }
}

fn number(bytes: &[u8], size: usize, signed: bool) -> i128 {
    let size = size.min(16);
    let mut all = [0_u8; 16];
    let given = bytes.len().min(size);
    if cfg!(target_endian = "little") {
        all[..given].copy_from_slice(&bytes[..given]);
    } else {
        all[16 - size..16 - size + given].copy_from_slice(&bytes[..given]);
    }
    let value = i128::from_ne_bytes(all);
    let bits = 128 - 8 * size as u32;
    if signed && bits < 128 {
        value << bits >> bits
    } else {
        value
    }
}

fn float(bytes: &[u8], size: usize) -> f64 {
    match (size, bytes) {
        (4, &[a, b, c, d]) => f32::from_ne_bytes([a, b, c, d]).into(),
        (8, bytes) => bytes.try_into().map_or(f64::NAN, f64::from_ne_bytes),
        _ => f64::NAN,
    }
}

fn text(bytes: &[u8]) -> Value {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    let mut text = String::new();
    for chunk in bytes[..end].utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    Value::Text(text)
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Bool(value) => value.fmt(f),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Named {
                name: Some(name), ..
            } => f.write_str(name),
            Self::Named { value, name: None } => value.fmt(f),
            Self::Pointer(address) => write!(f, "{address:#x}"),
            Self::List(values) => {
                f.write_str("[")?;
                for (index, value) in values.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{value}")?;
                }
                f.write_str("]")
            }
            Self::Record(members) => {
                f.write_str("{")?;
                for (index, (name, value)) in members.iter().enumerate() {
                    let comma = if index == 0 { " " } else { ", " };
                    write!(f, "{comma}{name}: {value}")?;
                }
                f.write_str(" }")
            }
            Self::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, offset: u32, bits: Option<u8>, shape: Shape) -> Member {
        Member {
            name: name.to_owned(),
            offset,
            bits,
            shape,
        }
    }

    fn unsigned(size: usize) -> Shape {
        Shape::Number {
            size,
            signed: false,
        }
    }

    #[test]
    fn structs_are_shown_with_member_names() {
        let inner = Shape::Struct {
            size: 4,
            members: vec![
                member("x", 0, None, unsigned(2)),
                member("y", 16, None, unsigned(2)),
            ],
        };
        let names = vec![(0, "IDLE".to_owned()), (1, "BUSY".to_owned())];
        let state = Shape::Enum {
            size: 4,
            signed: false,
            names,
        };
        let comm = Shape::Array {
            element: Box::new(Shape::Char),
            count: 8,
        };
        let shape = Shape::Struct {
            size: 24,
            members: vec![
                member("comm", 0, None, comm),
                member("", 64, None, inner),
                member("state", 96, None, state),
                member("low", 128, Some(3), unsigned(4)),
                member(
                    "signed",
                    131,
                    Some(2),
                    Shape::Number {
                        size: 4,
                        signed: true,
                    },
                ),
                member(
                    "delta",
                    160,
                    None,
                    Shape::Number {
                        size: 4,
                        signed: true,
                    },
                ),
            ],
        };
        let mut bytes = b"ba\"sh\0zz".to_vec();
        bytes.extend([
            1, 0, 2, 0, 1, 0, 0, 0, 0b11_101, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff,
        ]);
        let shown = decode(&shape, &bytes).to_string();
        let expected =
            r#"{ comm: "ba\"sh", x: 1, y: 2, state: BUSY, low: 5, signed: -1, delta: -2 }"#;
        assert_eq!(shown, expected);
    }

    #[test]
    fn bytes_without_layout_are_numbers_or_hex() {
        assert_eq!(
            decode(&Shape::Bytes { size: 4 }, &[1, 1, 0, 0]).to_string(),
            "257"
        );
        assert_eq!(
            decode(&Shape::Bytes { size: 3 }, &[1, 1, 255]).to_string(),
            "0101ff"
        );
        let list = Shape::Array {
            element: Box::new(unsigned(8)),
            count: 2,
        };
        assert_eq!(
            decode(&list, &[1, 0, 0, 0, 0, 0, 0, 0, 7]).to_string(),
            "[1, 7]"
        );
        assert_eq!(decode(&Shape::Bool { size: 1 }, &[1]).to_string(), "true");
        assert_eq!(
            decode(&Shape::Pointer, &[0x10; 8]).to_string(),
            "0x1010101010101010"
        );
    }
}
