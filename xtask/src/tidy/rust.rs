//! Checks of Rust code.

use super::Finding;
use super::scrub::code;
use crate::tree::{File, Tree};

/// Where `unsafe` is allowed: in the kernel crate, and in the tests, whose loads and oracles make
/// system calls that no library wraps. Clippy requires SAFETY comments in the kernel crate and in
/// the tests.
const UNSAFE_PLACES: [&str; 2] = ["crates/kernel/", "tests/"];

/// Forbidden code, and how to fix it.
const WORDS: &[(&str, &str)] = &[
    (
        "#[ignore",
        "let the test run: it declares its needs, and a missing one is an error",
    ),
    ("should_panic", "return an error and assert on its text"),
    ("todo!", "implement it, or remove it"),
    ("unimplemented!", "implement it, or remove it"),
    ("dbg!(", "remove it"),
];

/// `unsafe` is allowed only in these directories.
pub(super) fn unsafe_code(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree
        .ending(".rs")
        .filter(|f| !UNSAFE_PLACES.iter().any(|place| f.path.starts_with(place)))
    {
        for (number, line) in (1..).zip(code(&file.text).lines()) {
            let allows = ["allow(unsafe_code", "expect(unsafe_code"];
            if has_word(line, "unsafe") || allows.iter().any(|a| line.contains(a)) {
                findings.push(
                    Finding::new(
                        &file.path,
                        "has unsafe code",
                        "move it to crates/kernel, behind a safe function",
                    )
                    .at_line(number),
                );
            }
        }
    }
    findings
}

/// Code must not contain marks of unfinished work or of disabled tests.
pub(super) fn words(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.ending(".rs") {
        for (number, line) in (1..).zip(code(&file.text).lines()) {
            for (word, fix) in WORDS {
                if line.contains(word) {
                    let problem = format!("has `{word}`");
                    findings.push(Finding::new(&file.path, problem, *fix).at_line(number));
                }
            }
        }
    }
    findings
}

/// Crates that are pure functions of their input. The callers read the clock.
const WITHOUT_CLOCK: [&str; 4] = [
    "crates/model/src/",
    "crates/analysis/src/",
    "crates/text/src/",
    "crates/sinks/src/",
];

/// Functions that read a clock.
const CLOCKS: [&str; 4] = [
    "Instant::now",
    "SystemTime::now",
    "clock_gettime",
    "Utc::now",
];

/// Pure crates must not read a clock.
pub(super) fn clocks(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let pure = |f: &&File| WITHOUT_CLOCK.iter().any(|place| f.path.starts_with(place));
    for file in tree.ending(".rs").filter(pure) {
        for (number, line) in (1..).zip(code(&file.text).lines()) {
            if let Some(clock) = CLOCKS.iter().find(|clock| line.contains(**clock)) {
                let problem = format!("reads a clock (`{clock}`)");
                let fix = "let the caller pass the time";
                findings.push(Finding::new(&file.path, problem, fix).at_line(number));
            }
        }
    }
    findings
}

/// Rust files must not contain tabs. rustfmt keeps tabs in comments and literals.
pub(super) fn tabs(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.ending(".rs") {
        for (number, line) in (1..).zip(file.text.lines()) {
            if line.contains('\t') {
                let finding = Finding::new(&file.path, "has a tab", "use spaces, or `\\t`");
                findings.push(finding.at_line(number));
            }
        }
    }
    findings
}

/// Returns whether the line contains the word as a separate word.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !part(before.chars().next_back()) && !part(after.chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(check: fn(&Tree) -> Vec<Finding>, path: &str, text: &str) -> Vec<usize> {
        let findings = check(&Tree::of(&[(path, text)]));
        findings.iter().filter_map(|f| f.line).collect()
    }

    #[test]
    fn finds_unsafe_code_outside_the_kernel_crate() {
        let text = "unsafe { x }\nunsafe fn f() {}\nunsafe impl A for B {}\n\
            #[allow(unsafe_code, reason = \"\")]\n#[unsafe(no_mangle)]\n\
            // unsafe { x }\nlet unsafe_code = \"unsafe {\";\n";
        assert_eq!(
            lines(unsafe_code, "crates/web/src/a.rs", text),
            [1, 2, 3, 4, 5]
        );
        assert_eq!(lines(unsafe_code, "crates/kernel/src/a.rs", text), [0; 0]);
    }

    #[test]
    fn finds_clocks_only_in_pure_crates() {
        for clock in CLOCKS {
            let text = format!("\nlet now = {clock}();\n");
            for place in WITHOUT_CLOCK {
                assert_eq!(lines(clocks, &format!("{place}a.rs"), &text), [2]);
            }
            assert_eq!(lines(clocks, "crates/noctule/src/a.rs", &text), [0; 0]);
        }
    }

    #[test]
    fn finds_words_only_in_code() {
        for (word, _) in WORDS {
            assert_eq!(lines(words, "a.rs", &format!("\n{word}\n")), [2], "{word}");
            let quoted = format!("// {word}\nlet x = \"{word}\";\n");
            assert_eq!(lines(words, "a.rs", &quoted), [0; 0], "{word}");
        }
        assert_eq!(lines(words, "a.md", "todo!\n"), [0; 0]);
    }
}
