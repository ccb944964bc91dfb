//! Checks the paths and the words of documents.

use super::Finding;
use crate::tree::{File, Tree};

/// Directories whose files documents refer to by their path from the root of the repository.
const FOLDERS: &[&str] = &[
    "bpf/", "crates/", "deploy/", "docs/", "lab/", "scripts/", "tests/", "vm/", "xtask/",
];

/// Paths that are not in the tree, and where they are.
const ELSEWHERE: &[(&str, &str)] = &[
    ("bench/latest.json", "in the target folder"),
    ("bench/side-by-side.NAME.out", "in the target folder"),
];

/// Retired words and their replacements, which docs/glossary.md explains. The words are split in
/// the code, so that this file does not break its own rule.
pub(super) const RETIRED: &[(&str, &str)] = &[
    (concat!("lost the CPU", " to"), "preempted by"),
    (
        concat!("quota kept", " it waiting"),
        "throttled by its CPU quota",
    ),
    (concat!("storage of", " threads"), "task local storage"),
    (concat!("has words", " for"), "formats, or names"),
    (concat!("self_", "folded"), "self_overflow"),
    (concat!("Late", "Fold"), "LateSettle"),
    (
        concat!("verdict on", " each feature"),
        "status of each feature",
    ),
    (
        concat!("verdict of", " each feature"),
        "status of each feature",
    ),
    (concat!("verdict on", " a feature"), "feature status"),
];

/// The page that lists the retired words.
const GLOSSARY: &str = "docs/glossary.md";

/// The page that names a test for each fact.
const KERNEL_FACTS: &str = "docs/kernel-facts.md";

/// Each path in a document must exist.
pub(super) fn named_paths(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.ending(".md") {
        for (number, line) in (1..).zip(file.text.lines()) {
            let missing = paths(line).chain(links(file, line));
            for path in missing.filter(|path| !exists(tree, path)) {
                let problem = format!("refers to `{path}`, which does not exist");
                findings.push(
                    Finding::new(&file.path, problem, "refer to an existing path").at_line(number),
                );
            }
        }
    }
    findings
}

/// The test of each fact about the kernel must exist.
pub(super) fn tests_of_facts(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = tree.get(KERNEL_FACTS).map_or("", |page| &page.text).lines();
    for (number, line) in (1..).zip(lines).filter(|(_, line)| line.starts_with("| ")) {
        let test = line.rsplit('`').nth(1).unwrap_or_default();
        let name = test.rsplit("::").next().unwrap_or_default();
        let function = format!("fn {name}(");
        let is_number = |cell: &str| cell.trim().parse::<u32>().is_ok();
        let is_fact = line.split('|').nth(1).is_some_and(is_number);
        if is_fact && !tree.ending(".rs").any(|file| file.text.contains(&function)) {
            let problem = format!("names the test `{test}`, which does not exist");
            let fix = "name the test that fails if the fact is forgotten";
            findings.push(Finding::new(KERNEL_FACTS, problem, fix).at_line(number));
        }
    }
    findings
}

/// Documents, code and comments must not use retired words.
pub(super) fn retired_words(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let has_words = |f: &&File| {
        let ends = [".md", ".rs", ".c", ".h", ".toml", ".sh"];
        ends.iter().any(|end| f.path.ends_with(end)) && f.path != GLOSSARY
    };
    for file in tree.files().filter(has_words) {
        for (number, line) in (1..).zip(file.text.lines()) {
            for (word, write) in RETIRED.iter().filter(|(word, _)| line.contains(word)) {
                let problem = format!("uses `{word}`");
                let fix = format!("write `{write}` ({GLOSSARY})");
                findings.push(Finding::new(&file.path, problem, fix).at_line(number));
            }
        }
    }
    findings
}

/// Returns the paths in a line that start at the root of the repository. A capitalized component
/// matches anything (`vm/expect/KERNEL.toml`).
fn paths(line: &str) -> impl Iterator<Item = String> + '_ {
    let part = |c: char| c.is_alphanumeric() || "_./*-".contains(c);
    let tokens = line.split(move |c| !part(c));
    let tokens = tokens.map(|token| token.trim_end_matches(['.', '-']));
    let ours = tokens.filter(|token| {
        let inside = |folder: &&str| token.len() > folder.len() && token.starts_with(*folder);
        FOLDERS.iter().any(inside)
    });
    ours.filter(|token| !ELSEWHERE.iter().any(|(path, _)| path == token))
        .map(|token| {
            let parts = token.split('/').map(|part| {
                let stem = part.split('.').next().unwrap_or(part);
                let stands_for_any = stem.len() > 1 && stem.chars().all(|c| c.is_ascii_uppercase());
                let any = part.replacen(stem, "*", 1);
                // These are real files.
                match stands_for_any && !["README", "ARCHITECTURE", "CONTRIBUTING"].contains(&stem)
                {
                    true => any,
                    false => part.to_owned(),
                }
            });
            parts.collect::<Vec<_>>().join("/")
        })
}

/// Returns the files that a line links to, relative to the root of the repository.
fn links(file: &File, line: &str) -> impl Iterator<Item = String> {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let targets = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let local = targets.filter(|target| !target.contains(':') && !target.starts_with('#'));
    let from_root = local.map(|target| {
        let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
        for part in target.split('#').next().unwrap_or_default().split('/') {
            match part {
                ".." => drop(parts.pop()),
                "." | "" => {}
                part => parts.push(part),
            }
        }
        parts.join("/")
    });
    from_root.collect::<Vec<_>>().into_iter()
}

/// Returns whether the path is a file or directory of the tree. `*` matches any characters within a
/// name.
fn exists(tree: &Tree, path: &str) -> bool {
    let wanted: Vec<&str> = path.trim_end_matches('/').split('/').collect();
    tree.files().any(|file| {
        let mut parts = file.path.split('/');
        wanted
            .iter()
            .all(|name| parts.next().is_some_and(|part| fits(name, part)))
    })
}

fn fits(pattern: &str, name: &str) -> bool {
    let Some((begin, end)) = pattern.split_once('*') else {
        return pattern == name;
    };
    name.len() >= begin.len() + end.len() && name.starts_with(begin) && name.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_paths_and_links_are_found() {
        let text = "`bpf/a/a.bpf.c` and bpf/a/*.bpf.c, vm/expect/KERNEL.toml; bpf/b/b.bpf.c.\n\
            [here](a.md), [root](../README.md#x), [gone](b.md), [away](https://bpf/x)\n";
        let tree = Tree::of(&[
            ("docs/a.md", text),
            ("README.md", ""),
            ("bpf/a/a.bpf.c", ""),
            ("vm/expect/6.1.toml", ""),
        ]);
        let found: Vec<_> = named_paths(&tree).into_iter().map(|f| f.problem).collect();
        let expected = ["bpf/b/b.bpf.c", "docs/b.md"];
        assert_eq!(
            found,
            expected.map(|p| format!("refers to `{p}`, which does not exist"))
        );
    }

    #[test]
    fn facts_without_a_test_are_found() {
        let text = "| # | fact | test |\n|---|---|---|\n| 1 | x | `a::there` |\n| 2 | y | `a::gone` |\n| 3 | z | |\n";
        let tree = Tree::of(&[(KERNEL_FACTS, text), ("tests/a.rs", "fn there() {}\n")]);
        let found: Vec<_> = tests_of_facts(&tree)
            .into_iter()
            .map(|f| f.problem)
            .collect();
        let missing = ["a::gone", ""];
        assert_eq!(
            found,
            missing.map(|test| format!("names the test `{test}`, which does not exist"))
        );
    }

    #[test]
    fn retired_words_are_found_outside_the_glossary() {
        for (word, _) in RETIRED {
            let line = format!("x {word} y\n");
            let findings = retired_words(&Tree::of(&[("a.rs", &line), (GLOSSARY, &line)]));
            assert_eq!(findings.len(), 1, "{word}");
        }
    }
}
