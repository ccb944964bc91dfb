//! Tests values in the kernel's text. The widths of `.percent` and `.graph` are from the kernel
//! changes that added them in Linux 6.3.

use super::{
    Figure, KeyShow, Merged, Row, SortColumn, Table, ValueShow, key, lines, row, sort, value,
};
use crate::buckets;

#[test]
fn formats_values_of_a_row() {
    let cases = [
        (ValueShow::Number, 176, "v:        176"),
        (ValueShow::Number, u64::MAX, "v: 18446744073709551615"),
        (ValueShow::Signed, u64::MAX, "v:         -1"),
        (ValueShow::Hex, 0x1f00, "v:       1f00"),
        (ValueShow::Percent, 7, "v (%): 100.00"),
        (ValueShow::Percent, 0, "v (%):   0.00"),
        (ValueShow::Graph, 7, "v: ####################"),
        (ValueShow::Graph, 0, "v:                     "),
    ];
    for (show, number, expected) in cases {
        let mut table = Table {
            keys: vec![key("k", KeyShow::Hex)],
            values: vec![value("v", Figure::Kept(0), show)],
            ..Table::default()
        };
        let rows = [row(&[1], 2, &[number])];
        let with = format!("{{ k: 1 }} hitcount:          2  {expected}\n");
        assert_eq!(lines(&table, &rows), with);
        table.nohitcount = true;
        let without = format!("{{ k: 1 }}  {expected}\n");
        assert_eq!(lines(&table, &rows), without);
    }
}

/// The example of the kernel change that added `.graph`: hits in percent and as bars, sorted by
/// key.
#[test]
fn formats_shares_of_all_rows() {
    let table = Table {
        keys: vec![key("pid", KeyShow::Number)],
        values: vec![
            value("hitcount", Figure::Hits, ValueShow::Percent),
            value("hitcount", Figure::Hits, ValueShow::Graph),
        ],
        sort: vec![sort(SortColumn::Key(0), false)],
        ..Table::default()
    };
    let hits = [
        (14, 3),
        (16, 11),
        (57, 5),
        (61, 20),
        (77, 1),
        (145, 12),
        (152, 12),
    ];
    let rows = hits.map(|(pid, hits)| row(&[pid], hits, &[]));
    let expected = [
        "{ pid:         14 } hitcount:          3  hitcount (%):   4.68  hitcount: ###                 ",
        "{ pid:         16 } hitcount:         11  hitcount (%):  17.18  hitcount: ###########         ",
        "{ pid:         57 } hitcount:          5  hitcount (%):   7.81  hitcount: #####               ",
        "{ pid:         61 } hitcount:         20  hitcount (%):  31.25  hitcount: ####################",
        "{ pid:         77 } hitcount:          1  hitcount (%):   1.56  hitcount: #                   ",
        "{ pid:        145 } hitcount:         12  hitcount (%):  18.75  hitcount: ############        ",
        "{ pid:        152 } hitcount:         12  hitcount (%):  18.75  hitcount: ############        ",
        "",
    ];
    assert_eq!(lines(&table, &rows), expected.join("\n"));
}

#[test]
fn shares_of_an_overflowed_sum_are_errors() {
    let table = Table {
        keys: vec![key("k", KeyShow::Hex)],
        values: vec![value("v", Figure::Kept(0), ValueShow::Percent)],
        nohitcount: true,
        ..Table::default()
    };
    let half = 1 << 63;
    let rows = [row(&[1], 1, &[half]), row(&[2], 2, &[half])];
    assert_eq!(
        lines(&table, &rows),
        "{ k: 1 }  v (%):[ERROR]\n{ k: 2 }  v (%):[ERROR]\n"
    );
    let rows = [row(&[1], 1, &[half - 1]), row(&[2], 2, &[half])];
    assert_eq!(
        lines(&table, &rows),
        "{ k: 1 }  v (%):  50.00\n{ k: 2 }  v (%):  50.00\n"
    );
}

#[test]
fn formats_averages_and_percentiles() {
    let numbers = [10_u64, 10, 10, 1000];
    let mut counts = vec![0; buckets::COUNT];
    for number in numbers {
        counts[buckets::index(number)] += 1;
    }
    let row = Row {
        key: 1_u64.to_ne_bytes().to_vec(),
        hits: 4,
        kept: vec![Merged::Number(1030), Merged::Buckets(counts)],
    };
    let average = Figure::Average {
        kept: 0,
        signed: false,
    };
    let percentile = |thousandths| Figure::Percentile {
        kept: 1,
        thousandths,
        signed: false,
    };
    let table = Table {
        keys: vec![key("k", KeyShow::Hex)],
        values: vec![
            value("len.avg", average, ValueShow::Number),
            value("len.p50", percentile(500), ValueShow::Number),
            value("len.p99", percentile(990), ValueShow::Number),
        ],
        ..Table::default()
    };
    let expected = "{ k: 1 } hitcount:          4  len.avg:        257  len.p50:         10  \
                    len.p99:        991\n";
    assert_eq!(lines(&table, &[row]), expected);
}
