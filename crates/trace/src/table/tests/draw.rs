//! Tests the table for a terminal.

use super::{
    Figure, KeyShow, Node, Row, Snapshot, SortColumn, Table, ValueShow, key, row, sort, text, value,
};
use crate::table::Area;

fn drawn(table: &Table, rows: &[Row], dropped: u64, area: Area) -> String {
    let now = Snapshot {
        rows,
        dropped,
        skipped: 0,
        counted_part: None,
        paused: false,
    };
    table.draw(&now, &Node, area)
}

const WIDE: Area = Area {
    width: 80,
    rows: 10,
};

#[test]
fn rows_with_most_hits_come_first() {
    let mut table = Table {
        keys: vec![
            key("common_pid", KeyShow::ExecName),
            key("size", KeyShow::Log2),
            key("ptr", KeyShow::Hex),
        ],
        values: vec![
            value("len", Figure::Kept(0), ValueShow::Number),
            value("len", Figure::Kept(0), ValueShow::Percent),
            value("len", Figure::Kept(0), ValueShow::Graph),
        ],
        ..Table::default()
    };
    let rows = [
        row(&[1, 3, 255], 2, &[30]),
        row(&[77, 11, 16], 40, &[10]),
        row(&[0, 0, 0], 1, &[0]),
    ];
    let expected = "\
common_pid       size  ptr  hitcount  len  len (%)  len 2
<...> (77)   (1K, 2K]   10        40   10    25.00  ######
systemd (1)    (4, 8]   ff         2   30    75.00  ####################
<idle> (0)     [0, 1]    0         1    0     0.00
";
    assert_eq!(drawn(&table, &rows, 0, WIDE), expected);
    table.sort = vec![sort(SortColumn::Key(0), false)];
    table.nohitcount = true;
    table.values.truncate(1);
    let expected = "\
common_pid     size  ptr  len
<idle> (0)   [0, 1]    0    0
systemd (1)  (4, 8]   ff   30
1 more row; 7 hits dropped: the table is full
";
    assert_eq!(drawn(&table, &rows, 7, Area { rows: 2, ..WIDE }), expected);
}

#[test]
fn text_columns_are_truncated_before_numbers() {
    let table = Table {
        keys: vec![
            key("comm", KeyShow::Text),
            key("common_stacktrace", KeyShow::Stack),
        ],
        ..Table::default()
    };
    let rows = [Row {
        key: [text(b"a-long-command"), 1_u64.to_ne_bytes().to_vec()].concat(),
        hits: 123_456,
        kept: Vec::new(),
    }];
    let cases = [
        (
            80,
            "comm            common_stacktrace                        hitcount\n\
             a-long-command  kmalloc_leaf < probe_one [hid] < 0x1234    123456\n",
        ),
        (
            50,
            "comm            common_stacktrace         hitcount\n\
             a-long-command  kmalloc_leaf < probe_on…    123456\n",
        ),
        (
            20,
            "comm      common_… …\n\
             a-long-…  kmalloc… …\n",
        ),
        (1, "…\n…\n"),
        (0, "\n\n"),
    ];
    for (width, expected) in cases {
        let drawn = drawn(&table, &rows, 0, Area { width, rows: 5 });
        assert_eq!(drawn, expected, "{width}");
        assert!(drawn.lines().all(|line| line.chars().count() <= width));
    }
}

#[test]
fn an_empty_table_has_only_a_header() {
    let table = Table {
        keys: vec![key("comm", KeyShow::Text)],
        ..Table::default()
    };
    assert_eq!(drawn(&table, &[], 0, WIDE), "comm  hitcount\n");
    let full = "comm  hitcount\n1 hit dropped: the table is full\n";
    assert_eq!(drawn(&table, &[], 1, WIDE), full);
    assert_eq!(drawn(&Table::default(), &[], 0, WIDE), "hitcount\n");
}
