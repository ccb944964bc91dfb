//! Tests each format of a key in the kernel's text. The widths are from the kernel's documentation
//! (Documentation/trace/histogram.rst).

use super::{Figure, KeyShow, Node, Row, Snapshot, Table, ValueShow, key, lines, row, text, value};
use crate::print::{FieldTable, TableKind};

const LEAF: u64 = 0xffff_ffff_8100_0010;
const MODULE: u64 = 0xffff_ffff_a000_0004;

#[test]
fn formats_the_whole_table() {
    let table = Table {
        info: "hist:keys=common_pid:vals=hitcount,bytes_req:sort=hitcount:size=2048".to_owned(),
        keys: vec![key("common_pid", KeyShow::Number)],
        values: vec![value("bytes_req", Figure::Kept(0), ValueShow::Number)],
        size: 2048,
        ..Table::default()
    };
    let rows = [row(&[1234], 5, &[320]), row(&[7], 1, &[12_345_678_901])];
    let now = Snapshot {
        rows: &rows,
        dropped: 3,
        skipped: 0,
        counted_part: None,
        paused: false,
    };
    let expected = "\
# event histogram
#
# trigger info: hist:keys=common_pid:vals=hitcount,bytes_req:sort=hitcount:size=2048 [active]
#

{ common_pid:          7 } hitcount:          1  bytes_req: 12345678901
{ common_pid:       1234 } hitcount:          5  bytes_req:        320

Totals:
    Hits: 6
    Entries: 2
    Dropped: 3
";
    assert_eq!(table.kernel_text(&now, &Node), expected);
    let multiplexed = Snapshot {
        counted_part: Some(0.634),
        ..now
    };
    let expected = format!("{expected}    Counted: 63.4% of the time\n");
    assert_eq!(table.kernel_text(&multiplexed, &Node), expected);
    let paused = Snapshot {
        paused: true,
        ..Snapshot::default()
    };
    let expected = "\
# event histogram
#
# trigger info: hist:keys=common_pid:vals=hitcount,bytes_req:sort=hitcount:size=2048 [paused]
#


Totals:
    Hits: 0
    Entries: 0
    Dropped: 0
";
    assert_eq!(table.kernel_text(&paused, &Node), expected);
}

/// Shows `gfp_flags` with the names of two bits.
fn flags() -> KeyShow {
    KeyShow::Flags(FieldTable {
        field: "gfp_flags".to_owned(),
        mask: u64::MAX,
        kind: TableKind::Flags {
            delimiter: "|".to_owned(),
        },
        zero: Some("none".to_owned()),
        entries: vec![(1, "GFP_DMA".to_owned()), (2, "GFP_HIGH".to_owned())],
        complete: true,
    })
}

#[test]
fn formats_numbers_of_a_key() {
    let cases = [
        (KeyShow::Number, 1234, "k:       1234"),
        (KeyShow::Number, u64::MAX, "k: 18446744073709551615"),
        (KeyShow::Signed, u64::MAX, "k:         -1"),
        (KeyShow::Microseconds, 17, "k:         17"),
        (KeyShow::Hex, 0xffff_ffff_a026_b291, "k: ffffffffa026b291"),
        (KeyShow::Hex, 0, "k: 0"),
        (KeyShow::Log2, 4, "k: ~ 2^4 "),
        (KeyShow::Log2, 12, "k: ~ 2^12"),
        (KeyShow::Buckets(32), 64, "k: ~ 64-95"),
        (KeyShow::Buckets(0), 0, "k: ~ 0-18446744073709551615"),
        (
            KeyShow::Syscall,
            0,
            "k: sys_read                      [  0]",
        ),
        (
            KeyShow::Syscall,
            257,
            "k: sys_openat                    [257]",
        ),
        (
            KeyShow::Syscall,
            58,
            "k: unknown_syscall               [ 58]",
        ),
        (KeyShow::ExecName, 1, "k: systemd         [         1]"),
        (KeyShow::ExecName, 0, "k: <idle>          [         0]"),
        (KeyShow::ExecName, 9, "k: <...>           [         9]"),
        (KeyShow::ExecName, 2, "k: a\\x1b[31m\\xff   [         2]"),
    ];
    for (show, number, expected) in cases {
        let table = Table {
            keys: vec![key("k", show)],
            ..Table::default()
        };
        let expected = format!("{{ {expected} }} hitcount:          1\n");
        assert_eq!(lines(&table, &[row(&[number], 1, &[])]), expected);
    }
}

#[test]
fn key_names_are_padded() {
    let cases = [
        (
            KeyShow::Symbol,
            LEAF,
            "[ffffffff81000010]",
            "kmalloc_leaf",
            45,
        ),
        (
            KeyShow::Symbol,
            MODULE,
            "[ffffffffa0000004]",
            "probe_one [hid]",
            45,
        ),
        (KeyShow::Symbol, 0x1234, "[1234]", "0x1234", 45),
        (
            KeyShow::SymbolOffset,
            LEAF,
            "[ffffffff81000010]",
            "kmalloc_leaf+0x10/0x1b0",
            55,
        ),
        (
            KeyShow::SymbolOffset,
            MODULE,
            "[ffffffffa0000004]",
            "probe_one+0x4/0x40 [hid]",
            55,
        ),
        (flags(), 3, "[3]", "GFP_DMA|GFP_HIGH", 45),
        (flags(), 0, "[0]", "none", 45),
        (flags(), 18, "[12]", "GFP_HIGH|0x10", 45),
    ];
    for (show, number, bracket, name, width) in cases {
        let table = Table {
            keys: vec![key("call_site", show)],
            ..Table::default()
        };
        let expected = format!("{{ call_site: {bracket} {name:width$} }} hitcount:          1\n");
        assert_eq!(lines(&table, &[row(&[number], 1, &[])]), expected);
    }
}

#[test]
fn key_text_is_escaped_and_padded() {
    let table = Table {
        keys: vec![key("comm", KeyShow::Text), key("cpu", KeyShow::Number)],
        ..Table::default()
    };
    let cases: [(&[u8], &str); 4] = [
        (b"bash", "bash"),
        (b"", ""),
        (b"a\n\x1b]0;x\x07\0garbage", "a\\x0a\\x1b]0;x\\x07"),
        (b"0123456789abcdef", "0123456789abcdef"),
    ];
    for (comm, shown) in cases {
        let row = Row {
            key: [text(comm), 3_u64.to_ne_bytes().to_vec()].concat(),
            hits: 2,
            kept: Vec::new(),
        };
        let expected = format!("{{ comm: {shown:50}, cpu:          3 }} hitcount:          2\n");
        assert_eq!(lines(&table, &[row]), expected);
    }
}

#[test]
fn a_stack_has_one_line_per_frame() {
    let stack = key("common_stacktrace", KeyShow::Stack);
    let mut table = Table {
        keys: vec![stack],
        ..Table::default()
    };
    let expected = "\
{ common_stacktrace:
         kmalloc_leaf+0x10/0x1b0
         probe_one+0x4/0x40 [hid]
         0x1234
} hitcount:          3
";
    assert_eq!(lines(&table, &[row(&[1], 3, &[])]), expected);
    table.keys.push(key("common_pid", KeyShow::Number));
    let expected = "\
{ common_stacktrace:
         kmalloc_leaf+0x10/0x1b0
, common_pid:         12} hitcount:          3
";
    assert_eq!(lines(&table, &[row(&[2, 12], 3, &[])]), expected);
    table.keys.swap(0, 1);
    let expected = "\
{ common_pid:         12, common_stacktrace:
         [no stack]
} hitcount:          3
";
    assert_eq!(
        lines(&table, &[row(&[12, u64::MAX - 13], 3, &[])]),
        expected
    );
}
