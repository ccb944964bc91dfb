//! Tests hostile formats, records and objects: the result must be a value or an error, never a
//! panic.

#![allow(
    clippy::unwrap_used,
    reason = "clippy does not recognize test helpers as tests"
)]

#[path = "parse/random.rs"]
mod random;

use std::fs;
use std::path::{Path, PathBuf};

use noctule_trace::elf::{find_function, inspect, read_legacy};
use noctule_trace::emit::emit;
use noctule_trace::format::EventFormat;
use noctule_trace::identity::Identity;
use noctule_trace::parse;
use noctule_trace::print::{Print, Symbol, Symbols};
use noctule_trace::probe::Probe;
use noctule_trace::program::{Context, Number};
use noctule_trace::resolve::{self, Fits, Function, Groups, Linkable, Scope};
use noctule_trace::synthetic::Synthetic;
use noctule_trace::tree::EventName;

use self::random::Random;

/// Number of mutated formats; each is used with several triggers.
const FORMATS: usize = 10_000;
/// Number of mutated objects.
const OBJECTS: usize = 100_000;

/// Templates of triggers; `F` is replaced by a field.
const TRIGGERS: [&str; 12] = [
    "keys=F:vals=F.p99,F.max:sort=F.descending",
    "keys=F.log2,F.buckets=7,common_pid if F > 1 && F & 3 || F in {1, 2}",
    "keys=F.sym,stacktrace:vals=F/3-F%5",
    "keys=F.ustring,comm if F ~ \"*x\" || F == \"abc\"",
    "keys=F.flags:vals=F if F & CPUS{0-3}",
    "keys=F.syscall,F.hex if F.function == schedule",
    "keys=common_pid:a=F,b=F-1:vals=$a",
    "keys=common_pid:c=$a+$b:onmatch(one.two).made($c,F)",
    "keys=F:d=F:onmax($d).save(F,comm):onchange($d).made($d,$d)",
    "keys=common_pid:onmatch(one.two).made($a,one.two.F)",
    "keys=F:e=F:onmax($e).trace(made,$e,F)",
    "keys=number,text:vals=number.p50 if number > 3",
];

/// Mutates bytes: changes, inserts, removes or copies some, or writes large numbers.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(6) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] = random.next() as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes.truncate(at),
            3 => {
                let end = (at + random.below(64)).min(bytes.len());
                bytes.drain(at..end);
            }
            4 => {
                let end = (at + random.below(64)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, copy);
            }
            _ => {
                let words: [&[u8]; 6] = [
                    b"18446744073709551615",
                    b"\xff\xff\xff\xff",
                    b"-1",
                    b"[",
                    b";",
                    b"0",
                ];
                let word = *random.of(&words);
                let end = (at + word.len()).min(bytes.len());
                bytes.splice(at..end, word.iter().copied());
            }
        }
    }
}

struct NoGroups;

impl Groups for NoGroups {
    fn current(&self) -> Result<Number, String> {
        Ok(Number::Context(Context::Cgroup))
    }

    fn fitting(&self, _: Identity, _: Fits) -> Vec<u64> {
        Vec::new()
    }
}

struct NoSymbols;

impl Symbols for NoSymbols {
    fn symbol(&self, _: u64) -> Option<Symbol<'_>> {
        None
    }
}

fn formats(folder: &Path, all: &mut Vec<Vec<u8>>) {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            formats(&path, all);
        } else {
            all.push(fs::read(path).unwrap());
        }
    }
}

/// Resolves triggers for events of this format and compiles them. Returns the number of programs.
fn compile_triggers(format: &EventFormat, random: &mut Random, synthetic: &[Synthetic]) -> usize {
    let tables = Print::parse(format)
        .map(|print| print.tables())
        .unwrap_or_default();
    let function = |wanted: Function<'_>| match wanted {
        Function::Named("schedule") | Function::At(0x1000..0x1040) => Some((0x1000, 0x40)),
        _ => None,
    };
    let scope = |format, probe| Scope {
        probe,
        format,
        tables: &tables,
        function: &function,
        groups: &NoGroups,
        cpus: 2,
    };
    let trigger = |random: &mut Random| {
        let mut text = (*random.of(&TRIGGERS)).to_owned();
        while let Some(at) = text.find('F') {
            let name = match format.fields.len() {
                0 => "none",
                fields => format.fields[random.below(fields)].name.as_str(),
            };
            text.replace_range(at..=at, &name.to_lowercase());
        }
        parse::hist(&text).0
    };
    let trees = [trigger(random), trigger(random), trigger(random)];
    let event = |event: &str| EventName {
        system: "one".to_owned(),
        event: event.to_owned(),
    };
    let probe = *random.of(&[Probe::Tracepoint, Probe::Function, Probe::PerfEvent]);
    let linkable = |name, tree, synthetic: Option<usize>, format, probe| Linkable {
        event: event(name),
        hist: tree,
        scope: scope(format, probe),
        first: None,
        synthetic,
    };
    let all = [
        linkable("two", &trees[0], None, format, probe),
        linkable("three", &trees[1], None, format, probe),
        linkable(
            "made",
            &trees[2],
            Some(0),
            &synthetic[0].format,
            Probe::Synthetic,
        ),
    ];
    let mut made = 0;
    for all in [&all[..1], &all[1..2], &all[..2], &all] {
        if let Ok(programs) = resolve::linked(all, synthetic, random.below(2) == 0) {
            for program in programs.iter().flat_map(|(programs, _)| programs) {
                made += usize::from(emit(program).is_ok());
            }
        }
    }
    made
}

#[test]
fn mutated_formats_never_panic() {
    let mut all = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats");
    formats(&root, &mut all);
    let synthetic = [Synthetic::parse("made u64 number; char text[16]", 9).unwrap()];
    let (mut read, mut made) = (0, 0);
    for seed in 0..FORMATS {
        let mut random = Random::new((seed as u64) << 8 | 0x55);
        let mut bytes = random.of(&all).clone();
        if random.below(4) > 0 {
            mutate(&mut bytes, &mut random);
        }
        let Ok(format) = EventFormat::parse(&String::from_utf8_lossy(&bytes)) else {
            continue;
        };
        read += 1;
        made += compile_triggers(&format, &mut random, &synthetic);
        if let Ok(print) = Print::parse(&format) {
            let record: Vec<u8> = (0..random.below(300))
                .map(|_| random.next() as u8)
                .collect();
            let mut out = String::new();
            print.render(&record, &NoSymbols, &mut out);
        }
    }
    assert!(read > FORMATS / 3 && made > FORMATS / 5, "{read} {made}");
}

#[test]
fn mutated_objects_never_panic() {
    let object = include_bytes!("objects/legacy.o");
    assert!(read_legacy(object).is_ok(), "{:?}", read_legacy(object));
    let mut read = 0;
    for seed in 0..OBJECTS {
        let mut random = Random::new((seed as u64) << 8 | 0x77);
        let mut bytes = object.to_vec();
        mutate(&mut bytes, &mut random);
        let _ = inspect(&bytes);
        let _ = find_function(&bytes, "main");
        read += usize::from(read_legacy(&bytes).is_ok());
    }
    assert!(read > OBJECTS / 20, "{read}");
}

#[test]
fn mutated_definitions_never_panic() {
    let text = "wakeup_latency u64 lat; pid_t pid; char comm[16]; unsigned long x";
    for seed in 0..FORMATS {
        let mut random = Random::new((seed as u64) << 8 | 0x99);
        let mut bytes = text.as_bytes().to_vec();
        mutate(&mut bytes, &mut random);
        let text = String::from_utf8_lossy(&bytes);
        match Synthetic::parse(&text, 1) {
            Ok(made) => assert!(made.size >= 16 && made.size <= 8 + 64 * 256, "{text}"),
            Err(problem) => assert!(!problem.show(&text).is_empty(), "{text}"),
        }
    }
}
