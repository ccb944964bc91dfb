//! Implements the kernel's functions that format a value: names, and bytes in several forms.

use std::fmt::Write as _;

use super::Print;
use super::program::Function;
use super::table;
use super::value::{Value, number};

/// Appends the text of a call. Returns `None` if an argument has the wrong type.
pub(super) fn write(
    print: &Print,
    function: Function,
    arguments: &[Value<'_>],
    out: &mut String,
) -> Option<()> {
    match function {
        Function::Names(index) => {
            let table = print.tables.get(index)?;
            let value = arguments.first()?.int()?.bits;
            let entries = table.entries.iter();
            let entries = entries.map(|(mask, name)| (*mask, name.as_str()));
            match &table.delimiter {
                Some(delimiter) => table::flags(entries, delimiter, value, out),
                None => table::symbol(entries, value, out),
            }
        }
        Function::Hex { spaced } => hex(limited(arguments)?, if spaced { " " } else { "" }, out),
        Function::Array => array(arguments, out)?,
        Function::Bitmask => bitmap(bytes_of(arguments.first()?)?, None, out)?,
        Function::HexDump => hex_dump(arguments, out)?,
        Function::Seconds | Function::Nanoseconds | Function::Swap(_) => return None,
    }
    Some(())
}

fn bytes_of<'a>(value: &Value<'a>) -> Option<&'a [u8]> {
    match value {
        Value::Bytes(view) => Some(view.bytes),
        _ => None,
    }
}

/// Returns the bytes of a pointer and a count. As in the kernel's loop, a negative count means no
/// bytes.
fn limited<'a>(arguments: &[Value<'a>]) -> Option<&'a [u8]> {
    let [bytes, count] = arguments else {
        return None;
    };
    let count = i64::from(count.int()?.bits.cast_signed() as i32).max(0);
    bytes_of(bytes)?.get(..usize::try_from(count).ok()?)
}

/// Appends two hex digits per byte.
pub(super) fn hex(bytes: &[u8], between: &str, out: &mut String) {
    for (index, byte) in bytes.iter().enumerate() {
        if index > 0 {
            out.push_str(between);
        }
        // Writing to a `String` cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
}

/// Appends `{0x1,0x2}`.
fn array(arguments: &[Value<'_>], out: &mut String) -> Option<()> {
    let [bytes, count, size] = arguments else {
        return None;
    };
    let size = usize::try_from(size.int()?.bits).ok()?;
    let count = i64::from(count.int()?.bits.cast_signed() as i32).max(0);
    let length = usize::try_from(count).ok()?.checked_mul(size)?;
    let bytes = bytes_of(bytes)?.get(..length)?;
    if !matches!(size, 1 | 2 | 4 | 8) {
        return None;
    }
    out.push('{');
    for (index, element) in bytes.chunks_exact(size).enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let _ = write!(out, "{comma}0x{:x}", number(element, size)?);
    }
    out.push('}');
    Some(())
}

/// Returns the 32-bit word with this index in a bitmap of `long`s. Returns `None` if the record
/// does not contain the whole word.
fn word(bytes: &[u8], index: usize) -> Option<u32> {
    let at = index.checked_mul(4)?;
    // On big-endian machines, the halves of a `long` are swapped.
    let at = if cfg!(target_endian = "big") {
        at ^ 4
    } else {
        at
    };
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// Appends a bitmap like `%*pb`: 32-bit words, highest first. Without a count, prints all bits.
pub(super) fn bitmap(bytes: &[u8], bits: Option<usize>, out: &mut String) -> Option<()> {
    let bits = bits.unwrap_or(bytes.len() * 8);
    let words = bits.div_ceil(32);
    for index in (0..words).rev() {
        let valid = if index + 1 == words {
            bits - index * 32
        } else {
            32
        };
        let word = u64::from(word(bytes, index)?) & ((1 << valid) - 1);
        let digits = valid.div_ceil(4);
        let comma = if index + 1 == words { "" } else { "," };
        let _ = write!(out, "{comma}{word:0digits$x}");
    }
    Some(())
}

/// Appends a bitmap like `%*pbl`: `0-3,7`.
pub(super) fn bitmap_list(bytes: &[u8], bits: Option<usize>, out: &mut String) -> Option<()> {
    let bits = bits.unwrap_or(bytes.len() * 8);
    let is_set = |bit: usize| Some(word(bytes, bit / 32)? >> (bit % 32) & 1 == 1);
    let mut first = None;
    let mut comma = "";
    for bit in 0..=bits {
        let set = bit < bits && is_set(bit)?;
        match first {
            None if set => first = Some(bit),
            Some(start) if !set => {
                let _ = write!(out, "{comma}{start}");
                if bit - start > 1 {
                    let _ = write!(out, "-{}", bit - 1);
                }
                comma = ",";
                first = None;
            }
            _ => {}
        }
    }
    Some(())
}

/// The kernel's `DUMP_PREFIX_OFFSET`. `DUMP_PREFIX_ADDRESS` (1) prints none, because the record
/// lacks the address.
const PREFIX_OFFSET: u64 = 2;

/// Appends a hex dump like the kernel's `trace_print_hex_dump_seq`: a newline, then one line per
/// row.
fn hex_dump(arguments: &[Value<'_>], out: &mut String) -> Option<()> {
    let [prefix, kind, row, group, bytes, length, ascii] = arguments else {
        return None;
    };
    let prefix = match prefix {
        Value::Text(text) => text,
        _ => return None,
    };
    let kind = kind.int()?.bits;
    let row = if row.int()?.bits == 32 { 32 } else { 16 };
    let length = usize::try_from(length.int()?.bits).ok()?;
    let bytes = bytes_of(bytes)?.get(..length)?;
    let group = match usize::try_from(group.int()?.bits).ok()? {
        size @ (2 | 4 | 8) => size,
        _ => 1,
    };
    out.push('\n');
    for (index, line) in bytes.chunks(row).enumerate() {
        out.push_str(prefix);
        if kind == PREFIX_OFFSET {
            let _ = write!(out, "{:08x}: ", index * row);
        }
        let start = out.len();
        let group = if line.len().is_multiple_of(group) {
            group
        } else {
            1
        };
        hex_row(line, group, out)?;
        if ascii.truth()? {
            let column = row * 2 + row / group + 1;
            let shown = out.len() - start;
            out.extend(std::iter::repeat_n(' ', column.saturating_sub(shown)));
            let printable = |byte: &u8| matches!(byte, b' '..=b'~');
            out.extend(line.iter().map(|byte| {
                if printable(byte) {
                    char::from(*byte)
                } else {
                    '.'
                }
            }));
        }
        out.push('\n');
    }
    Some(())
}

fn hex_row(line: &[u8], group: usize, out: &mut String) -> Option<()> {
    for (index, bytes) in line.chunks_exact(group).enumerate() {
        let space = if index > 0 { " " } else { "" };
        let digits = group * 2;
        let _ = write!(out, "{space}{:0digits$x}", number(bytes, group)?);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(make: impl Fn(&mut String) -> Option<()>) -> String {
        let mut out = String::new();
        let made = make(&mut out);
        if made.is_some() {
            out
        } else {
            "none".to_owned()
        }
    }

    #[test]
    fn formats_bitmaps_as_words_and_lists() {
        let bytes = [0x8f, 0, 0, 0, 1, 0, 0, 0];
        assert_eq!(shown(|out| bitmap(&bytes, None, out)), "00000001,0000008f");
        assert_eq!(shown(|out| bitmap(&bytes, Some(34), out)), "1,0000008f");
        assert_eq!(shown(|out| bitmap(&bytes, Some(4), out)), "f");
        assert_eq!(shown(|out| bitmap(&bytes, Some(0), out)), "");
        assert_eq!(shown(|out| bitmap(&bytes, Some(65), out)), "none");
        assert_eq!(shown(|out| bitmap_list(&bytes, None, out)), "0-3,7,32");
        assert_eq!(shown(|out| bitmap_list(&bytes, Some(3), out)), "0-2");
        assert_eq!(shown(|out| bitmap_list(&[], None, out)), "");
        assert_eq!(shown(|out| bitmap_list(&[255; 8], None, out)), "0-63");
    }

    #[test]
    fn formats_hex_rows_in_groups() {
        assert_eq!(shown(|out| hex_row(&[1, 2, 3, 4], 4, out)), "04030201");
        assert_eq!(shown(|out| hex_row(&[1, 2, 3], 1, out)), "01 02 03");
    }
}
