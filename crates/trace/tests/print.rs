//! Tests print formats of Linux 6.18: the kernel's own output, hostile formats and hostile records.

#![allow(
    clippy::unwrap_used,
    reason = "clippy does not recognize test helpers as tests"
)]

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use noctule_trace::format::EventFormat;
use noctule_trace::print::{NoSymbols, Print, Symbol, Symbols, fields, syscall};

/// Events whose format refers to names that only the kernel resolves, with the first unresolved
/// name. All other formats of the sample are fully resolved.
const UNRESOLVED: [(&str, &str); 6] = [
    ("block/block_rq_issue", "IOPRIO_CLASS_NONE"),
    ("jbd2/jbd2_run_stats", "jiffies_to_msecs"),
    ("kmem/mm_page_alloc", "vmemmap_base"),
    ("ras/mc_event", "mc_event_error_type"),
    ("timer/hrtimer_start", "HRTIMER_MODE_ABS"),
    ("writeback/writeback_dirty_inode", "I_DIRTY_SYNC"),
];

/// Reads the sample formats by `system/event`.
fn formats() -> BTreeMap<String, EventFormat> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats");
    let mut all = BTreeMap::new();
    for system in fs::read_dir(root).unwrap() {
        let system = system.unwrap();
        for event in fs::read_dir(system.path()).unwrap() {
            let path = event.unwrap().path();
            let parts: Vec<_> = path
                .iter()
                .rev()
                .take(2)
                .filter_map(|part| part.to_str())
                .collect();
            let text = fs::read_to_string(&path).unwrap();
            let format = EventFormat::parse(&text).unwrap();
            all.insert(format!("{}/{}", parts[1], parts[0]), format);
        }
    }
    all
}

/// The content of `tests/records.txt`.
#[derive(Default)]
struct Recorded {
    constants: BTreeMap<String, i64>,
    symbols: BTreeMap<u64, (String, u64, u64)>,
    texts: BTreeMap<u64, String>,
    /// Event, record, text.
    records: Vec<(String, Vec<u8>, String)>,
}

impl Symbols for Recorded {
    fn symbol(&self, address: u64) -> Option<Symbol<'_>> {
        let (name, offset, size) = self.symbols.get(&address)?;
        Some(Symbol {
            name: Cow::Borrowed(name),
            module: None,
            offset: *offset,
            size: *size,
        })
    }

    fn text(&self, address: u64) -> Option<Cow<'_, str>> {
        let text = self.texts.get(&address)?;
        Some(Cow::Borrowed(text))
    }
}

fn recorded() -> Recorded {
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let mut all = Recorded::default();
    let lines = include_str!("records.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        match words[0] {
            "constant" => {
                all.constants
                    .insert(words[1].to_owned(), words[2].parse().unwrap());
            }
            "symbol" => {
                let rest: Vec<&str> = words[2].split(' ').collect();
                let found = (rest[0].to_owned(), hex(rest[1]), hex(rest[2]));
                all.symbols.insert(hex(words[1]), found);
            }
            "text" => {
                all.texts.insert(hex(words[1]), words[2].to_owned());
            }
            event => {
                let bytes = words[1].as_bytes().chunks(2);
                let bytes = bytes.map(|pair| hex(std::str::from_utf8(pair).unwrap()) as u8);
                let text = words[2].replace("\\n", "\n");
                all.records.push((event.to_owned(), bytes.collect(), text));
            }
        }
    }
    all
}

#[test]
fn rendered_text_equals_the_kernels() {
    let formats = formats();
    let all = recorded();
    assert!(all.records.len() > 50);
    for (event, record, expected) in &all.records {
        let format = &formats[event];
        let print = Print::parse_with(format, &|name| all.constants.get(name).copied()).unwrap();
        let mut text = String::new();
        if !syscall(format, record, &mut text) {
            print.render(record, &all, &mut text);
        }
        assert_eq!(&text, expected, "{event}");
    }
}

#[test]
fn only_kernel_names_stay_unresolved() {
    let mut open = Vec::new();
    let mut failed = Vec::new();
    for (event, format) in &formats() {
        match Print::parse(format) {
            Ok(print) => {
                let first = print.unresolved().first();
                open.extend(first.map(|name| (event.clone(), name.clone())));
            }
            Err(problem) => failed.push((event.clone(), problem.text)),
        }
    }
    let open: Vec<(&str, &str)> = open.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert_eq!(open, UNRESOLVED);
    // The kernel prints this event by executing statements.
    let expected = (
        "kvmmmu/kvm_mmu_unsync_page".to_owned(),
        "`;` is missing here".to_owned(),
    );
    assert_eq!(failed, [expected]);
}

#[test]
fn truncated_records_show_question_marks() {
    let formats = formats();
    for (event, record, expected) in &recorded().records {
        let Ok(print) = Print::parse(&formats[event]) else {
            continue;
        };
        for length in 0..record.len() {
            let mut text = String::new();
            print.render(&record[..length], &NoSymbols, &mut text);
            assert!(text.len() <= expected.len() * 4 + 1024, "{event}: {text}");
        }
        let mut text = String::new();
        fields(&formats[event], &[], &mut text);
        assert!(
            text.split(' ').all(|field| field.ends_with("=?")),
            "{event}: {text}"
        );
    }
}

/// A deterministic random number generator.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % limit.max(1)
    }
}

/// Pieces that break or extend formats.
const PIECES: [&str; 24] = [
    "(",
    ")",
    "{",
    "}",
    "\"",
    "'",
    "\\",
    "%",
    "%*.*s",
    "%pISpc",
    "%*pbl",
    "REC->",
    ",",
    "?",
    ":",
    "0",
    "-1",
    "<<",
    "[",
    "]",
    "__get_str(",
    "__print_hex(",
    "({int a=1;a;})",
    "\u{e9}",
];

fn mutate(text: &str, other: &str, numbers: &mut Numbers) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(chars.len() + 1);
        let end = (at + numbers.below(12)).min(chars.len());
        let new: Vec<char> = match numbers.below(4) {
            0 => Vec::new(),
            1 => PIECES[numbers.below(PIECES.len())].chars().collect(),
            2 => other
                .chars()
                .skip(numbers.below(other.len()))
                .take(numbers.below(40))
                .collect(),
            _ => chars[at..end].repeat(numbers.below(5)),
        };
        chars.splice(at..end, new);
    }
    chars.into_iter().collect()
}

#[test]
fn hostile_formats_and_records_never_panic() {
    let all: Vec<EventFormat> = formats().into_values().collect();
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    let (mut parsed, mut failed) = (0, 0);
    for round in 0..6_000 {
        let mut event = all[round % all.len()].clone();
        let other = &all[numbers.below(all.len())].print;
        event.print = mutate(&event.print, other, &mut numbers);
        for field in &mut event.fields {
            if numbers.below(16) == 0 {
                field.offset = u32::try_from(numbers.below(1 << 32)).unwrap();
                field.size = u32::try_from(numbers.below(1 << 32)).unwrap();
            }
        }
        let record: Vec<u8> = (0..numbers.below(256))
            .map(|_| numbers.below(256) as u8)
            .collect();
        let mut text = String::new();
        fields(&event, &record, &mut text);
        syscall(&event, &record, &mut text);
        match Print::parse_with(&event, &|name| (name.len() % 2 == 0).then_some(-7)) {
            Ok(print) => {
                print.render(&record, &NoSymbols, &mut text);
                let tables = print.tables();
                text.extend(tables.iter().map(|table| table.render_value(u64::MAX)));
                parsed += 1;
            }
            Err(problem) => {
                assert!(problem.span.start <= event.print.len());
                failed += 1;
            }
        }
        assert!(text.len() < 1 << 20, "{}", event.print);
    }
    assert!(parsed > 1_000 && failed > 1_000, "{parsed} {failed}");
}

#[test]
fn nesting_and_length_are_limited() {
    let mut event = formats().remove("sched/sched_switch").unwrap();
    let many = 10_000;
    let nested = [
        "(",
        "-",
        "!",
        "(u8)",
        "REC->prev_pid[",
        "f(",
        "1?",
        "1?1:",
        "1&&(",
        "1+",
        "({int a=",
        "__builtin_expect(",
        "__print_hex(",
        "__print_symbolic(",
        "__print_symbolic(1,{",
        "a b c ",
        "1,",
        "a+",
        "&*",
        "1==",
    ];
    for piece in nested {
        event.print = format!("\"%d\", {}", piece.repeat(many));
        if let Ok(print) = Print::parse(&event) {
            let mut text = String::new();
            print.render(&[1; 64], &NoSymbols, &mut text);
        }
        event.print.push('1');
        if let Ok(print) = Print::parse(&event) {
            let mut text = String::new();
            print.render(&[1; 64], &NoSymbols, &mut text);
        }
    }
    // The deepest expression of Linux 6.18 has 13 levels.
    event.print = format!("\"%d\", {}7{}", "(".repeat(110), ")".repeat(110));
    let mut text = String::new();
    Print::parse(&event)
        .unwrap()
        .render(&[], &NoSymbols, &mut text);
    assert_eq!(text, "7");
    event.print = format!("\"%d\", {}1", "1 + ".repeat(many));
    text.clear();
    Print::parse(&event)
        .unwrap()
        .render(&[], &NoSymbols, &mut text);
    assert_eq!(text, (many + 1).to_string());
}
