//! Tests the order of rows.

use super::Node;
use super::{
    Figure, KeyShow, Random, Row, SortColumn, SortKey, Table, ValueShow, key, row, sort, text,
    value,
};

/// Returns the first number of each key in the table's order.
fn order(table: &Table, rows: &[Row]) -> Vec<u64> {
    let sorted = table.sorted(rows, &Node);
    sorted
        .iter()
        .map(|row| super::super::key::number(&row.key))
        .collect()
}

fn table(sort: Vec<SortKey>) -> Table {
    Table {
        keys: vec![key("a", KeyShow::Number), key("b", KeyShow::Number)],
        values: vec![
            value("v", Figure::Kept(0), ValueShow::Number),
            value("w", Figure::Kept(0), ValueShow::Signed),
        ],
        sort,
        ..Table::default()
    }
}

#[test]
fn rows_are_sorted_by_hits_by_default() {
    let minus = u64::MAX;
    let rows = [
        row(&[1, 9], 5, &[2]),
        row(&[2, 7], 1, &[minus]),
        row(&[3, 8], 5, &[0]),
        row(&[4, 7], 3, &[2]),
    ];
    let (up, down) = (false, true);
    let cases = [
        (vec![], [2, 4, 1, 3]),
        (vec![sort(SortColumn::Hits, down)], [1, 3, 4, 2]),
        (vec![sort(SortColumn::Key(1), up)], [2, 4, 3, 1]),
        (vec![sort(SortColumn::Value(0), up)], [3, 1, 4, 2]),
        (vec![sort(SortColumn::Value(1), up)], [2, 3, 1, 4]),
        (
            vec![sort(SortColumn::Key(1), down), sort(SortColumn::Hits, down)],
            [1, 3, 4, 2],
        ),
        (
            vec![sort(SortColumn::Hits, down), sort(SortColumn::Value(0), up)],
            [3, 1, 4, 2],
        ),
        // The column does not exist.
        (vec![sort(SortColumn::Key(9), down)], [1, 2, 3, 4]),
        (vec![sort(SortColumn::Value(9), up)], [1, 2, 3, 4]),
    ];
    for (sort, expected) in cases {
        assert_eq!(order(&table(sort.clone()), &rows), expected, "{sort:?}");
    }
}

#[test]
fn key_numbers_sort_by_their_fields_sign() {
    let minus = u64::MAX;
    let rows = [row(&[minus], 1, &[]), row(&[0], 1, &[]), row(&[5], 1, &[])];
    let mut table = Table {
        keys: vec![key("a", KeyShow::Number)],
        sort: vec![sort(SortColumn::Key(0), false)],
        ..Table::default()
    };
    assert_eq!(order(&table, &rows), [0, 5, minus]);
    table.keys[0].signed = true;
    assert_eq!(order(&table, &rows), [minus, 0, 5]);
}

#[test]
fn text_sorts_by_bytes_up_to_the_nul() {
    let table = Table {
        keys: vec![key("comm", KeyShow::Text)],
        sort: vec![sort(SortColumn::Key(0), true)],
        ..Table::default()
    };
    let names: [&[u8]; 5] = [b"b", b"a\0z", b"\xff", b"ab", b""];
    let rows = names.map(|name| Row {
        key: text(name),
        ..Row::default()
    });
    let sorted = table.sorted(&rows, &Node);
    let sorted = sorted.iter().map(|row| super::super::key::text(&row.key));
    let expected: [&[u8]; 5] = [b"\xff", b"b", b"ab", b"a", b""];
    assert_eq!(sorted.collect::<Vec<_>>(), expected);
}

#[test]
fn sorting_ignores_the_input_order() {
    let mut random = Random(3);
    let stack = key("common_stacktrace", KeyShow::Stack);
    let table = Table {
        keys: vec![key("a", KeyShow::Number), stack],
        sort: vec![sort(SortColumn::Key(1), true)],
        ..Table::default()
    };
    let new = |random: &mut Random| row(&[random.next() % 4, random.next() % 40], 1, &[]);
    let mut rows: Vec<Row> = (0..60).map(|_| new(&mut random)).collect();
    rows.sort_by(|left, right| left.key.cmp(&right.key));
    rows.dedup();
    let first: Vec<Row> = table.sorted(&rows, &Node).into_iter().cloned().collect();
    for _ in 0..20 {
        let at = random.next() as usize % rows.len();
        rows.rotate_left(at);
        rows.swap(0, at);
        let again: Vec<Row> = table.sorted(&rows, &Node).into_iter().cloned().collect();
        assert_eq!(again, first);
    }
}
