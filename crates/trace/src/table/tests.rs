//! Tests tables against known output.

mod cells;
mod draw;
mod graph;
mod hostile;
mod kernel;
mod order;
mod rows;
mod values;

use std::borrow::Cow;

use super::{Figure, KeyColumn, KeyShow, Merged, NodeNames, Row, Snapshot, Table, ValueColumn};
use super::{SortColumn, SortKey, ValueShow};
use crate::identity::Identity;
use crate::print::{Symbol, Symbols};

/// A deterministic random number generator (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number of random length.
    fn number(&mut self) -> u64 {
        let shift = self.next() >> 58;
        self.next() >> shift
    }
}

/// A node with a kernel function, a module function, two threads and two system calls.
struct Node;

impl Symbols for Node {
    fn symbol(&self, address: u64) -> Option<Symbol<'_>> {
        let symbols = [
            (0xffff_ffff_8100_0000, 0x1b0, "kmalloc_leaf", None),
            (0xffff_ffff_a000_0000, 0x40, "probe_one", Some("hid")),
        ];
        let found = symbols
            .into_iter()
            .find(|(start, size, ..)| (*start..*start + *size).contains(&address));
        found.map(|(start, size, name, module)| Symbol {
            name: name.into(),
            module: module.map(Cow::from),
            offset: address - start,
            size,
        })
    }
}

impl NodeNames for Node {
    fn thread(&self, id: u64) -> Option<Cow<'_, [u8]>> {
        match id {
            1 => Some(b"systemd".into()),
            2 => Some(b"a\x1b[31m\xff".into()),
            _ => None,
        }
    }

    fn syscall(&self, number: u64) -> Option<Cow<'_, str>> {
        match number {
            0 => Some("sys_read".into()),
            257 => Some("sys_openat".into()),
            _ => None,
        }
    }

    fn stack(&self, number: u64) -> Option<Cow<'_, [u64]>> {
        let frames: &[u64] = &[0xffff_ffff_8100_0010, 0xffff_ffff_a000_0004, 0x1234];
        match number {
            1 => Some(frames.into()),
            2 => Some(frames[..1].into()),
            _ => None,
        }
    }

    fn owner(&self, identity: Identity, cgroup: u64) -> String {
        format!("{identity} of {cgroup}")
    }

    fn escape(&self, bytes: &[u8]) -> String {
        let safe = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
        let escaped = bytes.iter().map(|byte| match byte {
            byte if safe(*byte) => char::from(*byte).to_string(),
            byte => format!("\\x{byte:02x}"),
        });
        escaped.collect()
    }
}

fn key(name: &str, show: KeyShow) -> KeyColumn {
    let size = if show == KeyShow::Text { 16 } else { 8 };
    KeyColumn {
        name: name.to_owned(),
        signed: show == KeyShow::Signed,
        show,
        size,
    }
}

fn value(name: &str, figure: Figure, show: ValueShow) -> ValueColumn {
    ValueColumn {
        name: name.to_owned(),
        figure,
        show,
    }
}

fn sort(column: SortColumn, descending: bool) -> SortKey {
    SortKey { column, descending }
}

/// Creates a row from numbers of the key, hits and aggregates.
fn row(key: &[u64], hits: u64, kept: &[u64]) -> Row {
    Row {
        key: key.iter().flat_map(|number| number.to_ne_bytes()).collect(),
        hits,
        kept: kept.iter().copied().map(Merged::Number).collect(),
    }
}

/// Creates a 16-byte text key.
fn text(text: &[u8]) -> Vec<u8> {
    let mut key = text.to_vec();
    key.resize(16, 0);
    key
}

/// Returns the kernel's text of the rows, without header and totals.
fn lines(table: &Table, rows: &[Row]) -> String {
    let now = Snapshot {
        rows,
        ..Snapshot::default()
    };
    let text = table.kernel_text(&now, &Node);
    let (_, behind) = text.split_once("]\n#\n\n").unwrap();
    let (lines, _) = behind.split_once("\nTotals:\n").unwrap();
    lines.to_owned()
}
