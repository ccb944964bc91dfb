//! Cases as data: `tests/golden/{filter,hist,trigger}.txt`.
//!
//! A line that begins with `> ` is a source text; the lines below it are the problems, or the tree.
//! Lines that begin with `#` say where the cases are from. With `NOCTULE_BLESS=1` the files are
//! written anew; review the difference.

use std::path::PathBuf;

use noctule_trace::parse;
use noctule_trace::source::Problem;

use crate::dump;

type Read = fn(&str) -> (String, Vec<Problem>);

/// Each file with the parser of its texts.
pub(crate) const FILES: [(&str, Read); 3] = [
    ("filter", |text| {
        let (expr, problems) = parse::filter(text);
        (dump::expr(&expr), problems)
    }),
    ("hist", |text| {
        let (hist, problems) = parse::hist(text);
        (dump::hist(&hist), problems)
    }),
    ("trigger", |text| {
        let (trigger, problems) = parse::trigger(text);
        (dump::trigger(&trigger), problems)
    }),
];

fn path(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    folder.join(name).with_extension("txt")
}

fn file(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_default()
}

/// The source texts of a file.
pub(crate) fn sources(name: &str) -> Vec<String> {
    let file = file(name);
    let texts = file.lines().filter_map(|line| line.strip_prefix("> "));
    texts.map(str::to_owned).collect()
}

/// A file with the answers that the parser gives now.
fn answered(file: &str, read: Read) -> String {
    let mut answered = String::new();
    for line in file.lines() {
        if let Some(text) = line.strip_prefix("> ") {
            let (tree, problems) = read(text);
            answered += &format!("> {text}\n");
            answered.extend(problems.iter().map(|problem| problem.show(text)));
            if problems.is_empty() {
                answered += &format!("{tree}\n");
            }
        } else if line.is_empty() || line.starts_with('#') {
            answered += &format!("{line}\n");
        }
    }
    answered
}

#[test]
fn answers_are_as_before() {
    for (name, read) in FILES {
        let file = file(name);
        assert!(!file.is_empty(), "{name}.txt cannot be read");
        let answered = answered(&file, read);
        if std::env::var_os("NOCTULE_BLESS").is_some() {
            std::fs::write(path(name), answered).unwrap();
        } else {
            let pairs = answered.lines().zip(file.lines());
            for (number, (now, before)) in (1..).zip(pairs) {
                assert_eq!(now, before, "{name}.txt, line {number}");
            }
            assert_eq!(answered, file, "{name}.txt");
        }
    }
}
