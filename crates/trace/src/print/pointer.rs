//! Formats the kernel's `%p` conversions.

use std::fmt::Write as _;

use super::Symbols;
use super::dump;
use super::layout::{Layout, number, padded};
use super::network;
use super::value::{Int, Kind, Value};

/// Appends a pointer in the form that the letters after `%p` select. Only memory in the record can
/// be read; any other pointer is printed as its address.
pub(super) fn write(
    layout: Layout,
    letters: &[u8],
    value: &Value<'_>,
    symbols: &dyn Symbols,
    out: &mut String,
) {
    let bytes = match value {
        Value::Bytes(view) => view.bytes,
        value => {
            return match value.int() {
                Some(int) => address(layout, letters, int.bits, symbols, out),
                None => out.push('?'),
            };
        }
    };
    let start = out.len();
    if pointee(layout, letters, bytes, out).is_none() {
        out.truncate(start);
        out.push('?');
    }
}

/// Appends a pointer that does not point into the record.
fn address(layout: Layout, letters: &[u8], address: u64, symbols: &dyn Symbols, out: &mut String) {
    match letters {
        [b'S' | b'F' | b'B', ..] => symbol(layout, address, true, letters[0] == b'B', symbols, out),
        // `%pfw` prints a firmware node, not a symbol.
        [b's', ..] | [b'f', 0, ..] => symbol(layout, address, false, false, symbols, out),
        [0 | b'x' | b'K', ..] => full_address(layout, address, out),
        _ => {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "{address:#x}");
        }
    }
}

/// Appends all digits of the address, like `%px`. By default the kernel's trace file shows a hash
/// instead (option `hash-ptr`), which cannot be computed in user space.
fn full_address(layout: Layout, address: u64, out: &mut String) {
    let mut layout = layout;
    if layout.width.is_none() {
        layout.width = Some(16);
        layout.spec.zero = true;
    }
    layout.spec.conversion = super::template::Conversion::LowerHex;
    layout.spec.size = 8;
    number(layout, Int::new(address, Kind::U64), out);
}

/// Appends [`symbol_text`] padded to the width of the conversion.
fn symbol(
    layout: Layout,
    address: u64,
    with_offset: bool,
    is_return: bool,
    symbols: &dyn Symbols,
    out: &mut String,
) {
    // The return address of a call may be the start of the next function.
    let back = u64::from(is_return);
    let text = symbol_text(address, with_offset, back, symbols);
    padded(layout, text.as_bytes(), out);
}

/// Returns `name+0x10/0x20 [module]`, or the address in hex if no symbol contains it. Looks up the
/// symbol that is `back` bytes before the address.
pub fn symbol_text(address: u64, with_offset: bool, back: u64, symbols: &dyn Symbols) -> String {
    let Some(found) = symbols.symbol(address.wrapping_sub(back)) else {
        return format!("{address:#x}");
    };
    let mut text = found.name.into_owned();
    // Writing to a `String` cannot fail.
    if with_offset {
        let offset = found.offset.wrapping_add(back);
        let _ = write!(text, "+{offset:#x}/{:#x}", found.size);
    }
    if let Some(module) = &found.module {
        let _ = write!(text, " [{module}]");
    }
    text
}

/// Formats bytes of the record. Returns `None` if there are too few.
fn pointee(layout: Layout, letters: &[u8], bytes: &[u8], out: &mut String) -> Option<()> {
    match letters {
        [b'I', b'4', ..] => network::v4(bytes.get(..4)?, letters, out),
        [b'i', b'4', ..] => network::v4_with_zeros(bytes.get(..4)?, letters, out),
        [b'I', b'6', b'c', ..] => network::v6_short(bytes.get(..16)?.try_into().ok()?, out),
        [b'I' | b'i', b'6', ..] => {
            let colons = letters[0] == b'I';
            network::v6(bytes.get(..16)?.try_into().ok()?, colons, out);
        }
        [b'I' | b'i', b'S', ..] => network::socket(bytes, &letters[2..], out)?,
        [b'M' | b'm', ..] => mac(bytes.get(..6)?, letters, out),
        [b'U', form, ..] => uuid(bytes.get(..16)?.try_into().ok()?, *form, out),
        [b'h', separator, ..] => {
            let count = layout.width.unwrap_or(1).min(64);
            let between = match separator {
                b'C' => ":",
                b'D' => "-",
                b'N' => "",
                _ => " ",
            };
            dump::hex(bytes.get(..count)?, between, out);
        }
        [b'b', b'l', ..] => dump::bitmap_list(bytes, Some(layout.width.unwrap_or(0)), out)?,
        [b'b', ..] => dump::bitmap(bytes, Some(layout.width.unwrap_or(0)), out)?,
        [b'a', ..] => {
            let address = super::value::number(bytes, 8)?;
            let _ = write!(out, "{address:#018x}");
        }
        _ => return None,
    }
    Some(())
}

fn mac(bytes: &[u8], letters: &[u8], out: &mut String) {
    let mut address = bytes.to_vec();
    if letters[1] == b'R' {
        address.reverse();
    }
    let between = match letters {
        [b'm', ..] => "",
        [_, b'F', ..] => "-",
        _ => ":",
    };
    dump::hex(&address, between, out);
}

/// Appends a UUID. `b` and `l` select the byte order; capital letters print capital digits.
fn uuid(bytes: [u8; 16], form: u8, out: &mut String) {
    let big = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    let little = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let order: [usize; 16] = if matches!(form, b'l' | b'L') {
        little
    } else {
        big
    };
    for (place, index) in order.into_iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        let byte = bytes[index];
        let _ = match form {
            b'L' | b'B' => write!(out, "{byte:02X}"),
            _ => write!(out, "{byte:02x}"),
        };
    }
}
