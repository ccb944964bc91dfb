//! Tests rows as typed cells.

use super::{Figure, KeyShow, Node, Row, Snapshot, Table, ValueShow, key, row, text, value};
use crate::print::{FieldTable, TableKind};
use crate::table::{Cell, Frame};

/// Returns the cells of a row whose key is one number.
fn cells(show: KeyShow, number: u64) -> Vec<Cell> {
    let table = Table {
        keys: vec![key("k", show)],
        ..Table::default()
    };
    let rows = [row(&[number], 7, &[])];
    let now = Snapshot {
        rows: &rows,
        ..Snapshot::default()
    };
    table.cells(&now, &Node).remove(0)
}

fn named(number: u64, name: Option<&str>) -> Cell {
    Cell::Named {
        number,
        name: name.map(str::to_owned),
    }
}

#[test]
fn numbers_keep_their_type_and_name() {
    let address = 0xffff_ffff_a000_0004;
    let colours = KeyShow::Flags(FieldTable {
        field: "k".to_owned(),
        mask: u64::MAX,
        kind: TableKind::Symbols,
        zero: None,
        entries: vec![(1, "re\x1bd".to_owned())],
        complete: true,
    });
    let range = |first, last| Cell::Range { first, last };
    let cases = [
        (KeyShow::Number, u64::MAX, Cell::Number(u64::MAX)),
        (KeyShow::Signed, u64::MAX, Cell::Signed(-1)),
        (KeyShow::Hex, 16, Cell::Number(16)),
        (KeyShow::Microseconds, 16, Cell::Number(16)),
        (
            KeyShow::Symbol,
            address,
            named(address, Some("probe_one [hid]")),
        ),
        (
            KeyShow::SymbolOffset,
            address,
            named(address, Some("probe_one+0x4/0x40 [hid]")),
        ),
        (KeyShow::Symbol, 3, named(3, None)),
        (KeyShow::ExecName, 1, named(1, Some("systemd"))),
        (KeyShow::ExecName, 2, named(2, Some("a\\x1b[31m\\xff"))),
        (KeyShow::ExecName, 3, named(3, None)),
        (KeyShow::Syscall, 257, named(257, Some("sys_openat"))),
        (KeyShow::Syscall, 1, named(1, None)),
        (KeyShow::Log2, 3, range(5, 8)),
        (KeyShow::Buckets(10), 20, range(20, 29)),
        (colours.clone(), 1, named(1, Some("re\\x1bd"))),
        (colours, 2, named(2, Some("0x2"))),
        (KeyShow::Stack, 9, Cell::Stack(None)),
    ];
    for (show, number, expected) in cases {
        assert_eq!(cells(show, number), [expected, Cell::Number(7)]);
    }
}

#[test]
fn stacks_have_addresses_and_symbols() {
    let frame = |address, symbol: &str| Frame {
        address,
        symbol: symbol.to_owned(),
    };
    let frames = vec![
        frame(0xffff_ffff_8100_0010, "kmalloc_leaf+0x10/0x1b0"),
        frame(0xffff_ffff_a000_0004, "probe_one+0x4/0x40 [hid]"),
        frame(0x1234, "0x1234"),
    ];
    assert_eq!(cells(KeyShow::Stack, 1)[0], Cell::Stack(Some(frames)));
}

#[test]
fn every_row_has_a_cell_per_title() {
    let mut table = Table {
        keys: vec![key("comm", KeyShow::Text)],
        values: vec![
            value("hitcount", Figure::Hits, ValueShow::Percent),
            value("hitcount", Figure::Hits, ValueShow::Graph),
            value("delta", Figure::Kept(0), ValueShow::Signed),
            value("comm", Figure::Kept(0), ValueShow::Hex),
        ],
        ..Table::default()
    };
    let row = |name: &[u8], hits| Row {
        key: text(name),
        hits,
        kept: row(&[], 0, &[u64::MAX]).kept,
    };
    let rows = [row(b"b\0x", 3), row(b"a\n", 1)];
    let now = Snapshot {
        rows: &rows,
        ..Snapshot::default()
    };
    let titles = [
        "comm",
        "hitcount",
        "hitcount (%)",
        "hitcount 2",
        "delta",
        "comm 2",
    ];
    assert_eq!(table.titles(), titles);
    let line = |name: &str, hits, part| {
        [
            Cell::Text(name.to_owned()),
            Cell::Number(hits),
            Cell::Percent(Some(part)),
            Cell::Number(hits),
            Cell::Signed(-1),
            Cell::Number(u64::MAX),
        ]
    };
    let expected = [line("a\\x0a", 1, 2500), line("b", 3, 7500)];
    assert_eq!(table.cells(&now, &Node), expected);
    table.nohitcount = true;
    let titles = ["comm", "hitcount (%)", "hitcount", "delta", "comm 2"];
    assert_eq!(table.titles(), titles);
    let cells = table.cells(&now, &Node);
    assert!(cells.iter().all(|row| row.len() == titles.len()));
}
