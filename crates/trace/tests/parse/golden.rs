//! Runs the golden cases: `tests/golden/{filter,hist,trigger}.txt`.
//!
//! A line that begins with `> ` is a source text. The lines below a source text are its problems or
//! its tree. Lines that begin with `#` name the origin of the cases. `NOCTULE_BLESS=1` rewrites the
//! files; review the difference.

use std::path::PathBuf;

use noctule_trace::parse;
use noctule_trace::source::Problem;

use crate::dump;

type Read = fn(&str) -> (String, Vec<Problem>);

/// The golden files, each with the parser for its inputs.
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

/// Returns the inputs in a golden file.
pub(crate) fn sources(name: &str) -> Vec<String> {
    let file = file(name);
    let texts = file.lines().filter_map(|line| line.strip_prefix("> "));
    texts.map(str::to_owned).collect()
}

/// Regenerates a file with the current output of the parser.
fn regenerate(file: &str, read: Read) -> String {
    let mut output = String::new();
    for line in file.lines() {
        if let Some(text) = line.strip_prefix("> ") {
            let (tree, problems) = read(text);
            output += &format!("> {text}\n");
            output.extend(problems.iter().map(|problem| problem.show(text)));
            if problems.is_empty() {
                output += &format!("{tree}\n");
            }
        } else if line.is_empty() || line.starts_with('#') {
            output += &format!("{line}\n");
        }
    }
    output
}

#[test]
fn output_matches_the_golden_files() {
    for (name, read) in FILES {
        let file = file(name);
        assert!(!file.is_empty(), "{name}.txt cannot be read");
        let output = regenerate(&file, read);
        if std::env::var_os("NOCTULE_BLESS").is_some() {
            std::fs::write(path(name), output).unwrap();
        } else {
            let pairs = output.lines().zip(file.lines());
            for (number, (now, before)) in (1..).zip(pairs) {
                assert_eq!(now, before, "{name}.txt, line {number}");
            }
            assert_eq!(output, file, "{name}.txt");
        }
    }
}
