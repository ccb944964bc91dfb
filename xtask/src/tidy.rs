//! Implements `cargo xtask tidy`: checks project rules that neither the compiler nor clippy checks.
//!
//! A check is a function from the tree to findings, so that tests can pass it a bad tree. The test
//! below requires a bad example for each check, to prove that the check can fail.

mod bpf;
mod documents;
mod edges;
mod lock;
mod manifests;
mod rust;
mod scrub;
mod text;

use std::fmt;
use std::io::{Write as _, stdout};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::tree::Tree;

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: Option<usize>,
    problem: String,
    fix: String,
}

impl Finding {
    /// Creates a finding about a whole file.
    fn new(path: &str, problem: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            line: None,
            problem: problem.into(),
            fix: fix.into(),
        }
    }

    /// Adds a line number, from 1.
    fn at_line(self, line: usize) -> Self {
        Self {
            line: Some(line),
            ..self
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}; to fix: {}", self.problem, self.fix)
    }
}

type Check = fn(&Tree) -> Vec<Finding>;

const CHECKS: &[(&str, Check)] = &[
    ("edges", edges::check),
    ("inheritance", manifests::check),
    ("lock file", lock::committed),
    ("versions", lock::versions),
    ("unsafe", rust::unsafe_code),
    ("words", rust::words),
    ("tabs", rust::tabs),
    ("sizes", text::sizes),
    ("white space", text::white_space),
    ("paths", text::paths),
    ("registries", text::registries),
    ("license of BPF", bpf::spdx),
    ("hooks", bpf::hooks),
    ("type ids", bpf::type_ids),
    ("clocks", rust::clocks),
    ("paths in documents", documents::named_paths),
    ("tests of kernel facts", documents::tests_of_facts),
    ("retired words", documents::retired_words),
];

/// Prints all findings; fails if there are any.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let tree = Tree::read(root)?;
    let mut out = stdout().lock();
    let mut count = 0;
    for (name, check) in CHECKS {
        for finding in check(&tree) {
            writeln!(out, "{finding} [{name}]")?;
            count += 1;
        }
    }
    let files = tree.files().count();
    if count > 0 {
        writeln!(out, "tidy: {count} findings in {files} files")?;
        return Ok(ExitCode::FAILURE);
    }
    writeln!(out, "tidy: {} checks, {files} files", CHECKS.len())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD_MANIFEST: &str = "[package]\nname = \"noctule-model\"\nversion.workspace = true\n\
        edition.workspace = true\nrust-version.workspace = true\nlicense.workspace = true\n\
        repository.workspace = true\n\n[lints]\nworkspace = true\n";
    const LICENCE: &str = "// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause\n";

    fn good() -> Vec<(&'static str, &'static str)> {
        vec![
            (
                "Cargo.lock",
                "[[package]]\nname = \"clap\"\nversion = \"4.5.0\"\n",
            ),
            (
                "Cargo.toml",
                "[workspace]\n\n[workspace.dependencies]\nclap = \"4\"\n",
            ),
            ("bpf/a/a.bpf.c", LICENCE),
            ("crates/model/Cargo.toml", GOOD_MANIFEST),
            ("crates/model/src/lib.rs", "//! Not `unsafe`.\n"),
        ]
    }

    /// Returns a bad file for each check. The file is new or replaces a good one.
    fn bad() -> Vec<(&'static str, &'static str, String)> {
        let edge = format!("{GOOD_MANIFEST}\n[dependencies]\nnoctule-kernel.workspace = true\n");
        let twice = "[[package]]\nname = \"clap\"\nversion = \"4.5.0\"\n\n\
            [[package]]\nname = \"clap\"\nversion = \"3.2.0\"\n";
        let hook = "SEC(\"tp_btf/sched_switch\")\n";
        let rust = "crates/model/src/lib.rs";
        let manifest = "crates/model/Cargo.toml";
        vec![
            ("edges", manifest, edge),
            (
                "inheritance",
                manifest,
                GOOD_MANIFEST.replace("edition.workspace = true", "edition = \"2024\""),
            ),
            ("versions", "Cargo.lock", twice.into()),
            ("unsafe", rust, "fn f() { unsafe { g() } }\n".into()),
            ("words", rust, "fn f() { todo!() }\n".into()),
            ("tabs", rust, "fn f() {\n\tg();\n}\n".into()),
            ("sizes", rust, "\n".repeat(801)),
            ("white space", "README.md", "a \n".into()),
            ("paths", "README.md", format!("{}\n", text::PATHS[0])),
            (
                "registries",
                "README.md",
                format!("{}\n", text::REGISTRIES[0]),
            ),
            ("license of BPF", "bpf/a/a.bpf.c", "int x;\n".into()),
            ("hooks", "bpf/a/a.bpf.c", format!("{LICENCE}{hook}{hook}")),
            (
                "type ids",
                "bpf/a/a.bpf.c",
                format!("{LICENCE}int n = bpf_core_type_id_kernel(struct a);\n"),
            ),
            ("clocks", rust, "fn f() { Instant::now(); }\n".into()),
            (
                "paths in documents",
                "README.md",
                "see `bpf/b/b.bpf.c`\n".into(),
            ),
            (
                "tests of kernel facts",
                "docs/kernel-facts.md",
                "| 1 | a fact | `gone` |\n".into(),
            ),
            (
                "retired words",
                "README.md",
                format!("{}\n", documents::RETIRED[0].0),
            ),
        ]
    }

    fn failing_checks(tree: &Tree) -> Vec<&'static str> {
        let finds = CHECKS.iter().filter(|(_, check)| !check(tree).is_empty());
        finds.map(|(name, _)| *name).collect()
    }

    #[test]
    fn a_good_tree_has_no_findings() {
        assert_eq!(failing_checks(&Tree::of(&good())), [""; 0]);
    }

    #[test]
    fn each_bad_example_fails_exactly_one_check() {
        let mut shown = Vec::new();
        for (name, path, text) in bad() {
            let mut files = good();
            files.retain(|(good, _)| *good != path);
            files.push((path, &text));
            assert_eq!(failing_checks(&Tree::of(&files)), [name], "{path}");
            shown.push(name);
        }
        let mut files = good();
        let lock = files.remove(0);
        let tree = Tree::of(&files).with_new(lock.0, lock.1);
        assert_eq!(failing_checks(&tree), ["lock file"]);
        shown.push("lock file");
        for (name, _) in CHECKS {
            assert!(shown.contains(name), "{name} has no bad example");
        }
    }

    #[test]
    fn findings_show_file_line_and_fix() {
        let finding = Finding::new("a/b.rs", "ends in white space", "remove it").at_line(3);
        assert_eq!(
            finding.to_string(),
            "a/b.rs:3: ends in white space; to fix: remove it"
        );
    }
}
