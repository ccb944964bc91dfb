//! Formats a table exactly like the kernel's `hist` file. `.percent` and `.graph` need Linux 6.3;
//! everything else is the same since 6.1.
//!
//! There are two differences: text is escaped, where the kernel prints raw bytes, and a line
//! `Skipped` is added if the count is not 0.

use std::fmt::Write as _;

use super::names::Shown;
use super::{Figure, KeyColumn, KeyShow, NodeNames, Row, Snapshot, Table, ValueColumn, ValueShow};
use super::{key, share};

/// Maximum length of a bar in characters.
const BAR: usize = 20;

impl Table {
    /// Returns the whole text: header, one line per row, totals.
    pub fn kernel_text(&self, now: &Snapshot<'_>, names: &dyn NodeNames) -> String {
        let mut out = String::new();
        let state = if now.paused { "paused" } else { "active" };
        // Writing to a `String` cannot fail.
        out.push_str("# event histogram\n#\n");
        for info in [&self.info].into_iter().chain(&self.more_info) {
            let _ = writeln!(out, "# trigger info: {info} [{state}]");
        }
        out.push_str("#\n\n");
        let whole = share::wholes(self, now.rows);
        for row in self.sorted(now.rows, names) {
            self.key_text(row, Shown(names), &mut out);
            self.values_text(row, &whole, &mut out);
            self.tracked_text(row, Shown(names), &mut out);
            out.push('\n');
        }
        if let Some(taken) = self.taken(now.rows) {
            out.push_str(&self.taken_text(&taken, names));
        }
        let (hits, entries) = (now.hits(), now.rows.len());
        let _ = write!(out, "\nTotals:\n    Hits: {hits}\n    Entries: {entries}");
        let _ = write!(out, "\n    Dropped: {}\n", now.dropped);
        if now.skipped > 0 {
            let _ = writeln!(out, "    Skipped: {}", now.skipped);
        }
        if let Some(part) = now.counted_part {
            let _ = writeln!(out, "    Counted: {:.1}% of the time", 100.0 * part);
        }
        out
    }

    /// Appends `{ key: value, key: value }`.
    pub(super) fn key_text(&self, row: &Row, names: Shown<'_>, out: &mut String) {
        out.push_str("{ ");
        for (index, column) in self.keys.iter().enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            let _ = write!(out, "{}:", column.name);
            part(column, self.part(row, index), names, out);
        }
        let is_multiline = self.keys.iter().any(|key| key.show == KeyShow::Stack);
        out.push_str(if is_multiline { "}" } else { " }" });
    }

    fn values_text(&self, row: &Row, whole: &[u64], out: &mut String) {
        if !self.nohitcount {
            let _ = write!(out, " hitcount: {:10}", row.figure(Figure::Hits));
        }
        for (column, whole) in self.values.iter().zip(whole) {
            out.push_str("  ");
            value(column, row.figure(column.figure), *whole, out);
        }
    }
}

/// Appends a part of the key, after its name and colon.
fn part(column: &KeyColumn, bytes: &[u8], names: Shown<'_>, out: &mut String) {
    let number = key::number(bytes);
    let written = match &column.show {
        KeyShow::Number | KeyShow::Microseconds => write!(out, " {number:10}"),
        KeyShow::Signed => write!(out, " {:10}", number.cast_signed()),
        KeyShow::Hex => write!(out, " {number:x}"),
        KeyShow::Symbol => {
            let _ = write!(out, " [{number:x}] ");
            return padded(&names.symbol(number, false), 45, out);
        }
        KeyShow::SymbolOffset => {
            let _ = write!(out, " [{number:x}] ");
            return padded(&names.symbol(number, true), 55, out);
        }
        KeyShow::ExecName => {
            out.push(' ');
            padded(&names.thread(number), 16, out);
            write!(out, "[{number:10}]")
        }
        KeyShow::Syscall => {
            out.push(' ');
            let name = names.syscall(number);
            padded(name.as_deref().unwrap_or("unknown_syscall"), 30, out);
            write!(out, "[{number:3}]")
        }
        KeyShow::Log2 => write!(out, " ~ 2^{number:<2}"),
        KeyShow::Buckets(width) => {
            let last = number.wrapping_add(*width).wrapping_sub(1);
            write!(out, " ~ {number}-{last}")
        }
        KeyShow::Text => {
            out.push(' ');
            return padded(&names.text(key::text(bytes)), 50, out);
        }
        KeyShow::Owner(identity) => {
            out.push(' ');
            return padded(&names.owner(*identity, number), 50, out);
        }
        KeyShow::Address => match key::address(bytes) {
            // The address is padded to the length of the longest IPv6 address.
            Some(address) => write!(out, " {:39}", address.to_string()),
            None => write!(out, " {:39}", "-"),
        },
        KeyShow::Flags(table) => {
            let _ = write!(out, " [{number:x}] ");
            let flags = table.render_value(number);
            return padded(&names.text(flags.as_bytes()), 45, out);
        }
        KeyShow::Stack => {
            out.push('\n');
            return stack(number, names, out);
        }
    };
    // Writing to a `String` cannot fail.
    let _ = written;
}

/// Appends one line per frame. The kernel's tables never have a stack without frames.
fn stack(number: u64, names: Shown<'_>, out: &mut String) {
    match names.0.stack(number) {
        None => out.push_str("         [no stack]\n"),
        Some(frames) => {
            for frame in frames.iter() {
                let _ = writeln!(out, "         {}", names.symbol(*frame, true));
            }
        }
    }
}

/// Appends the name of a value and the value.
fn value(column: &ValueColumn, number: u64, whole: u64, out: &mut String) {
    let name = &column.name;
    let written = match column.show {
        ValueShow::Number => write!(out, "{name}: {number:10}"),
        ValueShow::Signed => write!(out, "{name}: {:10}", number.cast_signed()),
        ValueShow::Hex => write!(out, "{name}: {number:10x}"),
        ValueShow::Percent => match share::hundredths(number, whole) {
            None => write!(out, "{name} (%):[ERROR]"),
            Some(part) => write!(out, "{name} (%): {:3}.{:02}", part / 100, part % 100),
        },
        ValueShow::Graph => match share::hundredths(number, whole) {
            None => write!(out, "{name}: {:>BAR$}", "[ERROR]"),
            Some(part) => {
                let length = (part as usize * BAR / 10_000).min(BAR);
                write!(out, "{name}: {:BAR$}", "#".repeat(length))
            }
        },
    };
    // Writing to a `String` cannot fail.
    let _ = written;
}

/// Appends text, padded to a width in bytes, as in the kernel.
fn padded(text: &str, width: usize, out: &mut String) {
    out.push_str(text);
    for _ in text.len()..width {
        out.push(' ');
    }
}
