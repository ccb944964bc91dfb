//! Tests random bytes in keys and rows: every format must handle them and escape control
//! characters.

use super::{
    Figure, KeyShow, Merged, Node, Random, Row, Snapshot, SortColumn, Table, ValueShow, key, sort,
    value,
};
use crate::buckets;
use crate::print::{FieldTable, TableKind};
use crate::table::{Area, Cell};

fn shows() -> Vec<KeyShow> {
    let flags = FieldTable {
        field: "k".to_owned(),
        mask: u64::MAX,
        kind: TableKind::Flags {
            delimiter: "\n".to_owned(),
        },
        zero: None,
        entries: vec![(1, "a\x1b".to_owned()), (2, String::new())],
        complete: false,
    };
    vec![
        KeyShow::Number,
        KeyShow::Signed,
        KeyShow::Hex,
        KeyShow::Symbol,
        KeyShow::SymbolOffset,
        KeyShow::ExecName,
        KeyShow::Syscall,
        KeyShow::Log2,
        KeyShow::Buckets(0),
        KeyShow::Buckets(7),
        KeyShow::Buckets(u64::MAX),
        KeyShow::Microseconds,
        KeyShow::Text,
        KeyShow::Stack,
        KeyShow::Flags(flags),
    ]
}

/// Generates a random table, whose indices can be out of range.
fn table(random: &mut Random) -> Table {
    let shows = shows();
    let mut any = |end: usize| (random.next() >> 33) as usize % end;
    let keys = 0..any(4);
    let keys = keys.map(|_| {
        let mut column = key("k", shows[any(shows.len())].clone());
        column.size = [0, 4, 8, 8, 8, 16, usize::MAX][any(7)];
        column.signed = any(2) == 1;
        column
    });
    let keys = keys.collect();
    let values = (0..any(4)).map(|_| {
        let kept = any(4);
        let figure = match any(4) {
            0 => Figure::Hits,
            1 => Figure::Kept(kept),
            2 => Figure::Average {
                kept,
                signed: any(2) == 1,
            },
            _ => Figure::Percentile {
                kept,
                thousandths: any(1 << 16) as u16,
                signed: any(2) == 1,
            },
        };
        let shows = [
            ValueShow::Number,
            ValueShow::Signed,
            ValueShow::Hex,
            ValueShow::Percent,
            ValueShow::Graph,
        ];
        value("v", figure, shows[any(shows.len())])
    });
    let values = values.collect();
    let columns = [
        SortColumn::Hits,
        SortColumn::Key(any(5)),
        SortColumn::Value(any(5)),
    ];
    let order = (0..any(3)).map(|_| sort(columns[any(3)], any(2) == 1));
    Table {
        keys,
        values,
        sort: order.collect(),
        nohitcount: any(2) == 1,
        ..Table::default()
    }
}

fn any_row(random: &mut Random) -> Row {
    let length = random.next() as usize % 40;
    let small = random.next().is_multiple_of(3);
    let byte = |random: &mut Random| random.next() as u8 & if small { 1 } else { 0xff };
    let mut counts: Vec<u64> = Vec::new();
    counts.resize_with(random.next() as usize % (buckets::COUNT + 9), || {
        random.number()
    });
    Row {
        key: (0..length).map(|_| byte(random)).collect(),
        hits: random.number(),
        kept: vec![
            Merged::Number(random.number()),
            Merged::Buckets(counts),
            Merged::Number(random.next()),
        ],
    }
}

fn is_safe(text: &str) -> bool {
    text.chars().all(|c| c == '\n' || !c.is_control())
}

#[test]
fn random_bytes_are_shown_without_control_characters() {
    let mut random = Random(17);
    for _ in 0..1500 {
        let table = table(&mut random);
        let rows = random.next() % 12;
        let rows: Vec<Row> = (0..rows).map(|_| any_row(&mut random)).collect();
        let now = Snapshot {
            rows: &rows,
            dropped: random.next() % 3,
            skipped: 0,
            counted_part: None,
            paused: false,
        };
        let text = table.kernel_text(&now, &Node);
        assert!(is_safe(&text), "{text:?}");
        assert!(text.contains(&format!("    Entries: {}\n", rows.len())));
        let titles = table.titles();
        for row in table.cells(&now, &Node) {
            assert_eq!(row.len(), titles.len());
            for cell in row {
                let texts = match cell {
                    Cell::Text(text) => vec![text],
                    Cell::Named { name, .. } => name.into_iter().collect(),
                    Cell::Stack(Some(frames)) => {
                        frames.into_iter().map(|frame| frame.symbol).collect()
                    }
                    _ => Vec::new(),
                };
                let has_control = |text: &String| text.contains(char::is_control);
                assert!(!texts.iter().any(has_control), "{texts:?}");
            }
        }
        let width = random.next() as usize % 120;
        let drawn = table.draw(&now, &Node, Area { width, rows: 6 });
        assert!(is_safe(&drawn), "{drawn:?}");
        assert!(drawn.lines().all(|line| line.chars().count() <= width));
        assert!(drawn.lines().count() <= 8);
        let graph = table.graph(&now, &Node, width).unwrap_or_default();
        assert!(is_safe(&graph), "{graph:?}");
    }
}
