//! Tests histograms with text bars.

use super::{Figure, KeyShow, Merged, Node, Row, Snapshot, Table, ValueShow, key, row, value};
use crate::buckets;

fn graph(table: &Table, rows: &[Row], width: usize) -> Option<String> {
    let now = Snapshot {
        rows,
        ..Snapshot::default()
    };
    table.graph(&now, &Node, width)
}

#[test]
fn empty_buckets_are_drawn() {
    let mut table = Table {
        keys: vec![key("bytes", KeyShow::Log2)],
        ..Table::default()
    };
    let rows = [row(&[6], 4, &[]), row(&[3], 1, &[]), row(&[5], 2, &[])];
    let expected = "\
(4, 8]                  1 |@@@@@               |
(8, 16]                 0 |                    |
(16, 32]                2 |@@@@@@@@@@          |
(32, 64]                4 |@@@@@@@@@@@@@@@@@@@@|
";
    assert_eq!(graph(&table, &rows, 48).unwrap(), expected);
    table.keys = vec![key("bytes", KeyShow::Buckets(100))];
    let rows = [
        row(&[0], 10, &[]),
        row(&[200], 5, &[]),
        row(&[90_000], 1, &[]),
    ];
    let expected = "\
[0, 100)               10 |@@@@@@@@|
[100, 200)              0 |        |
[200, 300)              5 |@@@@    |
...
[90000, 90100)          1 |        |
";
    assert_eq!(graph(&table, &rows, 0).unwrap(), expected);
}

#[test]
fn other_key_parts_become_titles() {
    let table = Table {
        keys: vec![
            key("pid", KeyShow::ExecName),
            key("bytes", KeyShow::Log2),
            key("cpu", KeyShow::Number),
        ],
        ..Table::default()
    };
    let rows = [
        row(&[1, 2, 0], 40, &[]),
        row(&[2, 1, 3], 5, &[]),
        row(&[1, 1, 0], 10, &[]),
    ];
    let expected = "\
pid: a\\x1b[31m\\xff (2), cpu: 3
(1, 2]                  5 |@@@@@@@@|

pid: systemd (1), cpu: 0
(1, 2]                 10 |@@      |
(2, 4]                 40 |@@@@@@@@|
";
    assert_eq!(graph(&table, &rows, 36).unwrap(), expected);
}

#[test]
fn a_percentile_is_drawn_as_its_buckets() {
    let mut counts = vec![0; buckets::COUNT];
    for number in [0, 1, 1, 5, 6, 7, 4, 40] {
        counts[buckets::index(number)] += 1;
    }
    let figure = Figure::Percentile {
        kept: 0,
        thousandths: 990,
        signed: false,
    };
    let table = Table {
        keys: vec![key("cpu", KeyShow::Number)],
        values: vec![value("len.p99", figure, ValueShow::Number)],
        ..Table::default()
    };
    let rows = [Row {
        key: 3_u64.to_ne_bytes().to_vec(),
        hits: 8,
        kept: vec![Merged::Buckets(counts)],
    }];
    let expected = "\
cpu: 3
[0, 1)                  1 |@@      |
[1, 2)                  2 |@@@@    |
[2, 4)                  0 |        |
[4, 8)                  4 |@@@@@@@@|
[8, 16)                 0 |        |
[16, 32)                0 |        |
[32, 64)                1 |@@      |
";
    assert_eq!(graph(&table, &rows, 0).unwrap(), expected);
}

#[test]
fn a_table_without_buckets_has_no_graph() {
    let table = Table {
        keys: vec![key("cpu", KeyShow::Number)],
        ..Table::default()
    };
    assert_eq!(graph(&table, &[row(&[1], 1, &[])], 80), None);
}
