//! The names that a format assigns to numbers: its `__print_flags` and `__print_symbolic` calls.

use std::fmt::Write as _;

use super::Print;
use super::program::{Cast, Op, Table};
use super::value::{Binary, Kind};

/// The names of the values of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTable {
    /// Name of the field.
    pub field: String,
    /// The bits of the field that the table covers. The table covers all bits, unless the format
    /// masks the field or casts it to a narrower type.
    pub mask: u64,
    pub kind: TableKind,
    /// Text for zero, if the format has `field ? __print_flags(field, ...) : "text"`.
    pub zero: Option<String>,
    /// Numbers and names in the kernel's order.
    pub entries: Vec<(u64, String)>,
    /// False if the format has further entries with unresolved constants.
    pub complete: bool,
}

/// How the name of a value is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// Each entry is a set of bits.
    Flags {
        /// Separator of names.
        delimiter: String,
    },
    /// Each entry is one value.
    Symbols,
}

impl FieldTable {
    /// Creates a table with one entry.
    pub fn of_value(field: &str, value: u64, name: &str) -> Self {
        Self {
            field: field.to_owned(),
            mask: u64::MAX,
            kind: TableKind::Symbols,
            zero: None,
            entries: vec![(value, name.to_owned())],
            complete: true,
        }
    }

    /// Returns the text that the kernel prints for this value of the field, sign-extended to 64
    /// bits.
    pub fn render_value(&self, value: u64) -> String {
        let value = value & self.mask;
        if let Some(zero) = self.zero.as_ref().filter(|_| value == 0) {
            return zero.clone();
        }
        let mut out = String::new();
        let entries = self.entries.iter();
        let entries = entries.map(|(mask, name)| (*mask, name.as_str()));
        match &self.kind {
            TableKind::Flags { delimiter } => flags(entries, delimiter, value, &mut out),
            TableKind::Symbols => symbol(entries, value, &mut out),
        }
        out
    }
}

/// Formats flags like the kernel's `trace_print_flags_seq`. Prints the name of each mask whose bits
/// are all set, and clears these bits. Prints the remaining bits as a number.
pub(super) fn flags<'a>(
    entries: impl Iterator<Item = (u64, &'a str)>,
    delimiter: &str,
    mut value: u64,
    out: &mut String,
) {
    let mut between = "";
    for (mask, name) in entries {
        if value == 0 {
            return;
        }
        if value & mask == mask {
            value &= !mask;
            out.push_str(between);
            out.push_str(name);
            between = delimiter;
        }
    }
    if value != 0 {
        // Writing to a `String` cannot fail.
        let _ = write!(out, "{between}0x{value:x}");
    }
}

/// Formats a symbol like the kernel's `trace_print_symbols_seq`: the name of the first equal entry.
/// As in the kernel, an empty name counts as not found, and the number is printed.
pub(super) fn symbol<'a>(
    mut entries: impl Iterator<Item = (u64, &'a str)>,
    value: u64,
    out: &mut String,
) {
    let found = entries.find(|(number, _)| *number == value);
    match found.filter(|(_, name)| !name.is_empty()) {
        Some((_, name)) => out.push_str(name),
        None => {
            let _ = write!(out, "0x{value:x}");
        }
    }
}

/// Returns the tables whose argument is a field, without duplicates.
pub(super) fn field_tables(print: &Print) -> Vec<FieldTable> {
    let mut all: Vec<FieldTable> = Vec::new();
    for table in &print.tables {
        let Some(table) = field_table(print, table) else {
            continue;
        };
        let same = |other: &FieldTable| {
            FieldTable {
                zero: table.zero.clone(),
                ..other.clone()
            } == table
        };
        match all.iter_mut().find(|other| same(other)) {
            Some(other) => other.zero = other.zero.take().or(table.zero),
            None => all.push(table),
        }
    }
    all
}

fn field_table(print: &Print, table: &Table) -> Option<FieldTable> {
    let Source { field, mask } = source(print, print.ops.get(table.argument.clone())?)?;
    let kind = match &table.delimiter {
        Some(delimiter) => TableKind::Flags {
            delimiter: delimiter.clone(),
        },
        None => TableKind::Symbols,
    };
    Some(FieldTable {
        field: print.fields.get(field)?.name.clone(),
        mask,
        kind,
        zero: zero_text(print, table),
        entries: table.entries.clone(),
        complete: table.complete,
    })
}

/// A field, and the bits of it that are used.
#[derive(PartialEq, Eq)]
struct Source {
    field: usize,
    mask: u64,
}

/// Recognizes `REC->field`, possibly cast and masked; returns `None` for any other expression.
fn source(print: &Print, ops: &[Op]) -> Option<Source> {
    let (Op::Field(field), mut rest) = ops.split_first()? else {
        return None;
    };
    let own = print.fields.get(*field)?;
    let own = Kind::of_size(own.size, own.signed)?;
    let mut mask = u64::MAX;
    loop {
        rest = match rest {
            [] => {
                return Some(Source {
                    field: *field,
                    mask,
                });
            }
            [Op::Cast(Cast::Int(kind)), rest @ ..] if kind.size >= 8 || *kind == own => rest,
            [Op::Cast(Cast::Int(kind)), rest @ ..] if !kind.signed => {
                mask &= (1 << (8 * u32::from(kind.size))) - 1;
                rest
            }
            [Op::Int(int), Op::Binary(Binary::And), rest @ ..] => {
                mask &= int.bits;
                rest
            }
            _ => return None,
        };
    }
}

/// Returns the text after the colon of `field ? table : "text"`.
fn zero_text(print: &Print, table: &Table) -> Option<String> {
    let call = table.argument.end;
    let [Op::Jump(behind), Op::Text(text)] = print.ops.get(call + 1..call + 3)? else {
        return None;
    };
    let branch = table.argument.start.checked_sub(1)?;
    let Op::Branch { otherwise, end } = print.ops.get(branch)? else {
        return None;
    };
    if (*behind, *otherwise, *end) != (call + 3, call + 2, call + 3) {
        return None;
    }
    let value = source(print, print.ops.get(table.argument.clone())?);
    let mut conditions = (1..=4).filter_map(|len| print.ops.get(branch.checked_sub(len)?..branch));
    let same = conditions.any(|condition| source(print, condition) == value);
    let text = print.texts.get(*text).filter(|_| same && value.is_some());
    text.cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_matched_in_the_kernels_order() {
        let entries = [(6, "BC"), (1, "A"), (2, "B"), (0, "none"), (8, "")];
        let cases = [
            (0, ""),
            (1, "A"),
            (7, "BC|A"),
            (3, "A|B"),
            (8, "none|"),
            (0x13, "A|B|none|0x10"),
            (u64::MAX, "BC|A|none||0xfffffffffffffff0"),
        ];
        for (value, expected) in cases {
            let mut out = String::new();
            flags(entries.into_iter(), "|", value, &mut out);
            assert_eq!(out, expected, "{value:#x}");
        }
    }

    #[test]
    fn the_first_equal_symbol_wins() {
        let entries = [(1, "a"), (1, "b"), (2, ""), (u64::MAX, "minus one")];
        let cases = [(1, "a"), (2, "0x2"), (3, "0x3"), (u64::MAX, "minus one")];
        for (value, expected) in cases {
            let mut out = String::new();
            symbol(entries.into_iter(), value, &mut out);
            assert_eq!(out, expected);
        }
    }
}
