//! Tests each feature of a print format with a handmade record.

use std::borrow::Cow;

use super::{NoSymbols, Print, Symbol, Symbols, TableKind, fields};
use crate::format::EventFormat;

/// Lines of a format file, for a record that [`record`] builds.
const FIELDS: [&str; 19] = [
    "unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;",
    "s8 a;\toffset:8;\tsize:1;\tsigned:1;",
    "u8 b;\toffset:9;\tsize:1;\tsigned:0;",
    "u16 port;\toffset:10;\tsize:2;\tsigned:0;",
    "int i;\toffset:12;\tsize:4;\tsigned:1;",
    "unsigned long flags;\toffset:16;\tsize:8;\tsigned:0;",
    "const char * where;\toffset:24;\tsize:8;\tsigned:0;",
    "void * ip;\toffset:32;\tsize:8;\tsigned:0;",
    "char comm[8];\toffset:40;\tsize:8;\tsigned:1;",
    "u16 three[3];\toffset:48;\tsize:6;\tsigned:0;",
    "__data_loc char[] name;\toffset:56;\tsize:4;\tsigned:1;",
    "__rel_loc char[] other;\toffset:60;\tsize:4;\tsigned:1;",
    "__data_loc u32[] numbers;\toffset:64;\tsize:4;\tsigned:0;",
    "__data_loc cpumask_t cpus;\toffset:68;\tsize:4;\tsigned:0;",
    "__u8 uuid[16];\toffset:72;\tsize:16;\tsigned:0;",
    "struct odd pair;\toffset:88;\tsize:3;\tsigned:0;",
    "xfs_ino_t ino;\toffset:96;\tsize:8;\tsigned:0;",
    "bool yes;\toffset:104;\tsize:1;\tsigned:0;",
    "int late;\toffset:4000;\tsize:4;\tsigned:1;",
];

fn event(print: &str) -> EventFormat {
    let fields: String = FIELDS
        .iter()
        .map(|field| format!("\tfield:{field}\n"))
        .collect();
    EventFormat::parse(&format!("name: e\nID: 1\n{fields}print fmt: {print}\n")).unwrap()
}

fn record() -> Vec<u8> {
    let mut record = vec![0; 112];
    let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
    put(8, &[0xfe, 0xfe]);
    put(10, &8080_u16.to_be_bytes());
    put(12, &(-5_i32).to_ne_bytes());
    put(16, &0x8000_0000_0000_0013_u64.to_ne_bytes());
    put(24, &0xffff_ffff_8100_0000_u64.to_ne_bytes());
    put(32, &0xffff_ffff_8200_0010_u64.to_ne_bytes());
    put(40, b"bash\0old");
    put(48, &[1, 0, 2, 0, 0xff, 0xff]);
    put(56, &(112_u32 | 6 << 16).to_ne_bytes());
    put(60, &(54_u32 | 3 << 16).to_ne_bytes());
    put(64, &(121_u32 | 8 << 16).to_ne_bytes());
    put(68, &(129_u32 | 8 << 16).to_ne_bytes());
    put(
        72,
        &std::array::from_fn::<u8, 16, _>(|index| index as u8 + 1),
    );
    put(88, &[0xaa, 0xbb, 0xcc]);
    put(96, &9_u64.to_ne_bytes());
    put(104, &[1]);
    record.extend(b"world\0hi\0");
    record.extend([1, 0, 0, 0, 0xff, 0, 0, 0]);
    record.extend([0x0f, 0, 0, 0, 1, 0, 0, 0]);
    record
}

/// Knows one function, one module and one string.
struct KnownSymbols;

impl Symbols for KnownSymbols {
    fn symbol(&self, address: u64) -> Option<Symbol<'_>> {
        let offset = address.checked_sub(0xffff_ffff_8200_0000)?;
        Some(Symbol {
            name: Cow::Borrowed("do_it"),
            module: (offset > 0x100).then_some(Cow::Borrowed("mod")),
            offset,
            size: 0x1000,
        })
    }

    fn text(&self, address: u64) -> Option<Cow<'_, str>> {
        (address == 0xffff_ffff_8100_0000).then_some(Cow::Borrowed("Start"))
    }
}

fn shown(print: &str) -> String {
    let event = event(print);
    let mut out = String::new();
    match Print::parse(&event) {
        Ok(print) => print.render(&record(), &KnownSymbols, &mut out),
        Err(problem) => out = problem.show(&event.print),
    }
    out
}

fn check(cases: &[(&str, &str)]) {
    for (print, expected) in cases {
        assert_eq!(shown(print), *expected, "{print}");
    }
}

#[test]
fn formats_numbers() {
    check(&[
        (
            r#""%d %u %x", REC->a, REC->a, REC->a"#,
            "-2 4294967294 fffffffe",
        ),
        (r#""%d %hhd %hx", REC->b, REC->b, REC->i"#, "254 -2 fffb"),
        (
            r#""%ld %lu %llx", (long)REC->i, (unsigned long)REC->i, (u64)REC->i"#,
            "-5 18446744073709551611 fffffffffffffffb",
        ),
        (r#""%lx", (unsigned int)REC->i"#, "fffffffb"),
        (
            r#""[%5d|%-5d|%05d|%+d|% d]", 42, 42, -42, 42, 42"#,
            "[   42|42   |-0042|+42| 42]",
        ),
        (r#""%#x %#o %#X %o", 255, 8, 0, 8"#, "0xff 010 0X0 10"),
        (
            r#""%#010x|%#08x|%.3d|%08.3d|%.0d", 255, 0, 7, 7, 0"#,
            "0x000000ff|0x000000|007|00000007|0",
        ),
        (r#""%*d|%-*d|%*d", 4, 1, 4, 2, -4, 3"#, "   1|2   |3   "),
        (
            r#""%zu %zd %Lu %c%c|%3c", 1UL, -1L, 5ULL, 'a', 66, 'x'"#,
            "1 -1 5 aB|  x",
        ),
        (r#""100%% %d", 1"#, "100% 1"),
        (r#""%d %d", REC->i"#, "-5 ?"),
    ]);
}

#[test]
fn evaluates_expressions() {
    check(&[
        (r#""%d", 2 + 3 * 4 - -1"#, "15"),
        (r#""%d", (1 | 6 & 3 ^ 1) << 1 == 6"#, "1"),
        (r#""%d", REC->i < 0 && REC->b > 1 || 1 / 0"#, "1"),
        (r#""%d %d", 1 / 0, REC->i % (REC->i + 5)"#, "? ?"),
        (r#""%d", REC->i >= 0 ? 1 : REC->b ? 2 : 3"#, "2"),
        (r#""%s", REC->i ? "yes" : "no""#, "yes"),
        (
            r#""%d", (int)sizeof(u64) + sizeof(unsigned int) + sizeof(void *)"#,
            "20",
        ),
        (
            r#""%d", REC->three[1] + REC->three[2] + (REC)->three[0]"#,
            "65538",
        ),
        (r#""%d %d", REC->three[3], REC->three[-1]"#, "? ?"),
        (r#""%d", ((u8 *)__get_dynamic_array(numbers))[4]"#, "255"),
        (r#""%d", *(u32 *)(__get_dynamic_array(numbers) + 1)"#, "255"),
        (
            r#""%d", __get_dynamic_array_len(numbers) / sizeof(u32)"#,
            "2",
        ),
        (r#""%d %d", !!REC->flags, ~REC->b"#, "1 -255"),
        (r#""%x", (u8)(REC->flags >> 60)"#, "8"),
        (
            r#""%d", ({ int x = (REC->i); int y = (3); ((x) < (y) ? (x) : (y)); })"#,
            "-5",
        ),
        (r#""%d", __builtin_expect(!!(REC->b), 0) ? 3 : 4"#, "3"),
        (
            r#""%u", __builtin_bswap16((__u16)(__be16)(REC->port))"#,
            "8080",
        ),
        (
            r#""%llu.%09u", __print_ns_to_secs(1500000000), __print_ns_without_secs(1500000000)"#,
            "1.500000000",
        ),
        (r#""%d", (xfs_ino_t)REC->i == -5"#, "1"),
        (r#""%d %d", (bool)REC->flags, REC->yes == true"#, "1 1"),
        (r#""%s", __get_str(name)[0] ? "some" : "none""#, "some"),
        (r#""%lx", (struct page *)REC->flags + 1"#, "?"),
    ]);
}

#[test]
fn formats_text() {
    check(&[
        (
            "\"%s|%6s|%-6s|%.2s\", REC->comm, REC->comm, REC->comm, REC->comm",
            "bash|  bash|bash  |ba",
        ),
        (
            r#""%s %s" " %.*s", __get_str(name), __get_rel_str(other), 3, __get_str(name)"#,
            "world hi wor",
        ),
        (
            r#""%s %s %s", (void *)0, REC->where, REC->ip"#,
            "(null) Start 0xffffffff82000010",
        ),
        (r#""%s", REC->i ? __get_str(name) : ((void *)0)"#, "world"),
        (r#""%s", __print_hex(REC->uuid, 3)"#, "01 02 03"),
        (r#""%s", __print_hex_str(REC->uuid, REC->three[1])"#, "0102"),
        (r#""%s", __print_hex(REC->uuid, 17)"#, "?"),
        (
            r#""%s", __print_array(__get_dynamic_array(numbers), __get_dynamic_array_len(numbers) / 4, 4)"#,
            "{0x1,0xff}",
        ),
        (
            r#""%s", __print_dynamic_array(numbers, sizeof(u32))"#,
            "{0x1,0xff}",
        ),
        (r#""%s", __get_cpumask(cpus)"#, "00000001,0000000f"),
        (
            r#""%s", __print_hex_dump("> ", 2, 16, 1, REC->uuid, 4, true)"#,
            "\n> 00000000: 01 02 03 04                                      ....\n",
        ),
    ]);
}

#[test]
fn formats_pointers() {
    check(&[
        (
            r#""%p %p %px %20p", REC->ip, 0, REC->ip, REC->ip"#,
            "ffffffff82000010 0000000000000000 ffffffff82000010     ffffffff82000010",
        ),
        (
            r#""%pS %ps %pF %pf", REC->ip, REC->ip, REC->ip, (void *)REC->ip"#,
            "do_it+0x10/0x1000 do_it do_it+0x10/0x1000 do_it",
        ),
        (
            r#""%pS %pB", REC->ip + 0x100, REC->ip"#,
            "do_it+0x110/0x1000 [mod] do_it+0x10/0x1000",
        ),
        (r#""%pS", REC->where"#, "0xffffffff81000000"),
        (
            r#""%pI4 %pi4 %pI4l", REC->uuid, REC->uuid, REC->uuid"#,
            "1.2.3.4 001.002.003.004 4.3.2.1",
        ),
        (
            r#""%pI6 %pi6", REC->uuid, REC->uuid"#,
            "0102:0304:0506:0708:090a:0b0c:0d0e:0f10 0102030405060708090a0b0c0d0e0f10",
        ),
        (r#""%pI6c", REC->uuid"#, "102:304:506:708:90a:b0c:d0e:f10"),
        (
            r#""%pM %pMF %pm %pMR", REC->uuid, REC->uuid, REC->uuid, REC->uuid"#,
            "01:02:03:04:05:06 01-02-03-04-05-06 010203040506 06:05:04:03:02:01",
        ),
        (
            r#""%pU", REC->uuid"#,
            "01020304-0506-0708-090a-0b0c0d0e0f10",
        ),
        (
            r#""%pUL", REC->uuid"#,
            "04030201-0605-0807-090A-0B0C0D0E0F10",
        ),
        (
            r#""%*ph %3phC %4phN", 2, REC->uuid, REC->uuid, REC->uuid"#,
            "01 02 01:02:03 01020304",
        ),
        (
            r#""%*pbl %*pb", 64, __get_dynamic_array(cpus), 34, __get_dynamic_array(cpus)"#,
            "0-3,32 1,0000000f",
        ),
        (
            r#""%pISpc %pd", REC->ip, REC->ip"#,
            "0xffffffff82000010 0xffffffff82000010",
        ),
        (r#""%pU %pI6c", REC->comm, REC->three"#, "? ?"),
    ]);
}

#[test]
fn formats_names_of_values() {
    let flags = r#"{ 1, "A" }, { 2, "B" }, { (1UL << 63), "TOP" }"#;
    check(&[
        (
            &format!(r#""%s", __print_flags(REC->flags, "|", {flags})"#),
            "A|B|TOP|0x10",
        ),
        (
            &format!(r#""%s", __print_flags(REC->flags & 3, "", {flags})"#),
            "AB",
        ),
        (
            r#""%s", __print_symbolic(REC->i, { -5, "minus" "five" }, { 0, "zero" })"#,
            "minusfive",
        ),
        (
            r#""%s", __print_symbolic(REC->b, { 1, "one" }, { 254, ((void *)0) }, { 254, "no" })"#,
            "0xfe",
        ),
        (r#""%s", __print_symbolic(REC->b, { })"#, "0xfe"),
        (
            r#""%s", __print_symbolic(REC->b, { OPEN, "open" }, { 254, "b" })"#,
            "b",
        ),
    ]);
}

#[test]
fn unresolved_names_are_marked() {
    check(&[
        (
            r#""%d %s %lx", jiffies - 1, f(g(1), {2}), (unsigned long)x.y"#,
            "?jiffies? ?f? ?x?",
        ),
        (r#""%d %d", REC->none, REC->late"#, "?none? ?"),
        (r#""%d %d", REC->i ? 1 : open, open ? 1 : 2"#, "1 ?open?"),
        (r#""%d", REC->comm.x"#, "?x?"),
        (r#""%d", sizeof(struct page)"#, "?sizeof(struct page)?"),
    ]);
    let open = event(r#""%d", a + b + a + jiffies_to_msecs(REC->flags & 3)"#);
    let print = Print::parse(&open).unwrap();
    assert_eq!(print.unresolved(), ["a", "b", "jiffies_to_msecs"]);
    let names = |name: &str| Some(if name == "HZ" { 250 } else { 1 });
    let print = Print::parse_with(&open, &names).unwrap();
    let mut out = String::new();
    print.render(&record(), &NoSymbols, &mut out);
    assert_eq!((out.as_str(), print.unresolved().len()), ("15", 0));
}

#[test]
fn parse_errors_have_their_position() {
    let cases = [
        ("", 0, "the format does not start with a string"),
        ("REC->i", 0, "the format does not start with a string"),
        (r#""%d", "#, 5, "a value is missing here"),
        (r#""%d", (1"#, 8, "`)` is missing here"),
        (r#""%d", 1 2"#, 8, "unexpected text after the expression"),
        (r#""%d", 1 ? 2"#, 11, "`:` is missing here"),
        (r#""%d", REC->"#, 11, "a name is missing here"),
        (
            r#""%s", __print_flags(1, x, {1, "a"})"#,
            23,
            "the delimiter is missing here",
        ),
        (
            r#""%s", __print_symbolic(1, {1, x})"#,
            31,
            "the preceding name is not a string",
        ),
        (r#""%s", f((1)"#, 11, "a bracket is not closed"),
        (
            r#""%s", (struct a)REC->i"#,
            6,
            "casts to a structure are not supported",
        ),
    ];
    for (print, at, text) in cases {
        let problem = Print::parse(&event(print)).unwrap_err();
        assert_eq!(
            (problem.span.start, problem.text.as_str()),
            (at, text),
            "{print}"
        );
    }
}

#[test]
fn tables_are_assigned_to_fields() {
    let print = concat!(
        r#""%s %s %s %s %s", (REC->flags) ? __print_flags(REC->flags, "|", { 1, "A" }) : "none", "#,
        r#"__print_flags((u8)REC->flags & 3, "", { 2, "B" }, { OPEN, "C" }), "#,
        r#"__print_symbolic(REC->i & 0xffff, { 1, "one" }), __print_symbolic(REC->i + 1, { 1, "x" }), "#,
        r#"__print_flags(REC->flags, "|", { 1, "A" })"#,
    );
    let tables = Print::parse(&event(print)).unwrap().tables();
    let found: Vec<_> = tables
        .iter()
        .map(|table| (table.field.as_str(), table.mask))
        .collect();
    assert_eq!(found, [("flags", u64::MAX), ("flags", 3), ("i", 0xffff)]);
    let flags = |delimiter: &str| TableKind::Flags {
        delimiter: delimiter.to_owned(),
    };
    assert_eq!(
        (&tables[0].kind, &tables[1].kind),
        (&flags("|"), &flags(""))
    );
    assert_eq!(tables[2].kind, TableKind::Symbols);
    assert_eq!(tables[1].entries, [(2, "B".to_owned())]);
    assert_eq!(
        tables
            .iter()
            .map(|table| table.complete)
            .collect::<Vec<_>>(),
        [true, false, true]
    );
    let cases = [
        (0, 0, "none"),
        (0, 5, "A|0x4"),
        (1, 0, ""),
        (1, 0xf6, "B"),
        (2, 0xff_0001, "one"),
        (2, u64::MAX, "0xffff"),
    ];
    for (table, value, expected) in cases {
        assert_eq!(
            tables[table].render_value(value),
            expected,
            "{table} {value}"
        );
    }
}

#[test]
fn prints_fields_of_every_kind() {
    let mut out = String::new();
    fields(&event("nothing"), &record(), &mut out);
    let expected = "a=-2 b=254 port=36895 i=-5 flags=9223372036854775827 where=0xffffffff81000000 \
        ip=0xffffffff82000010 comm=bash three={1,2,65535} name=world other=hi numbers={1,255} \
        cpus=0-3,32 uuid={1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16} pair=aabbcc ino=9 yes=1 late=?";
    assert_eq!(out, expected);
}
