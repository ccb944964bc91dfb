//! The kernel side.

use std::collections::BTreeMap;

use super::Finding;
use crate::tree::{File, Tree};

const LICENCE: &str = "SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause";

/// Program types of which several can stand on one tracepoint: they are the same hook.
const TRACEPOINTS: &[&str] = &[
    "tp_btf",
    "raw_tp",
    "raw_tracepoint",
    "raw_tp.w",
    "tp",
    "tracepoint",
];

/// What the agent loads.
fn sources(tree: &Tree) -> impl Iterator<Item = &File> {
    let files = tree.files().filter(|f| f.path.starts_with("bpf/"));
    files.filter(|f| f.path.ends_with(".c") || f.path.ends_with(".h"))
}

/// Every file names its licence in the first line: the kernel asks for it, and so does who copies
/// a single header.
pub(super) fn spdx(tree: &Tree) -> Vec<Finding> {
    let elsewhere = |f: &&File| !f.path.starts_with("bpf/") && f.path.contains(".bpf.");
    let files = sources(tree).chain(tree.files().filter(elsewhere));
    let names_it = |f: &&File| f.text.lines().next().is_some_and(|l| l.contains(LICENCE));
    let bare = files.filter(|f| !names_it(f));
    bare.map(|file| {
        let (open, close) = if file.path.ends_with(".c") {
            ("// ", "")
        } else {
            ("/* ", " */")
        };
        let mend = format!("begin it with `{open}{LICENCE}{close}`");
        Finding::new(&file.path, "does not begin with its licence", mend)
    })
    .collect()
}

/// What the name of a program ends with that is on the same hook as the one before it: it makes up for
/// that where a kernel skips it (see `bpf/tcp/tcp.bpf.c`), or is loaded in its place on kernels that
/// lack what that needs.
const STANDS_IN: [&str; 2] = ["_again", "_older"];

/// Each kernel hook is attached once, over all objects: a second program on it pays for the entry
/// a second time and sees another moment. But for those that stand in, of the same object.
pub(super) fn hooks(tree: &Tree) -> Vec<Finding> {
    let mut first: BTreeMap<String, (&File, usize)> = BTreeMap::new();
    let mut findings = Vec::new();
    for file in sources(tree) {
        let mut lines = (1..).zip(file.text.lines()).peekable();
        while let Some((number, line)) = lines.next() {
            let stands_in = lines.peek().is_some_and(|(_, next)| {
                let mut names = next.split(|c: char| !c.is_alphanumeric() && c != '_');
                names.any(|name| STANDS_IN.iter().any(|end| name.ends_with(end)))
            });
            for found in line.split("SEC(\"").skip(1).filter_map(hook) {
                if let Some((other, at)) = first.get(&found) {
                    if stands_in && other.path == file.path {
                        continue;
                    }
                    let mend = format!(
                        "call an account function from the program at {}:{at}",
                        other.path
                    );
                    let problem = format!("attaches to {found} once more");
                    findings.push(Finding::new(&file.path, problem, mend).at(number));
                } else {
                    first.insert(found, (file, number));
                }
            }
        }
    }
    findings
}

/// What libbpf would make the number of a type in the copy of the kernel's types to which objects are fitted
/// (`crates/kernel/src/kernel_types.rs`); the kernel knows the type by another.
const NUMBER_IN_COPY: &str = "bpf_core_type_id_kernel(";

/// A program that names a type to the kernel takes its number from `enum kernel_number`.
pub(super) fn numbers_of_types(tree: &Tree) -> Vec<Finding> {
    let lines = sources(tree).flat_map(|file| {
        let lines = (1..).zip(file.text.lines());
        let is_code = |line: &str| !line.trim_start().starts_with('*');
        let wrong = lines.filter(move |(_, line)| is_code(line) && line.contains(NUMBER_IN_COPY));
        wrong.map(move |(number, _)| (file, number))
    });
    let finding = |(file, number): (&File, usize)| {
        let mend = "add the type to `enum kernel_number` of bpf/include/read.bpf.h";
        Finding::new(
            &file.path,
            "asks for the number of a type in the copy",
            mend,
        )
        .at(number)
    };
    lines.map(finding).collect()
}

/// The hook that the section names; `None` for sections of data, and for iterators of maps: each is
/// of a map of its own.
fn hook(after: &str) -> Option<String> {
    let (section, _) = after.split_once('"')?;
    let section = section.strip_prefix('?').unwrap_or(section);
    if section.starts_with('.') || ["license", "iter/bpf_map_elem"].contains(&section) {
        return None;
    }
    let (kind, place) = section.split_once('/').unwrap_or((section, ""));
    if TRACEPOINTS.contains(&kind) {
        let name = place.rsplit('/').next().unwrap_or(place);
        return Some(format!("tracepoint {name}"));
    }
    Some(section.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_become_hooks() {
        let cases = [
            ("tp_btf/sched_switch", Some("tracepoint sched_switch")),
            ("?raw_tp/sched_switch", Some("tracepoint sched_switch")),
            ("tp/sched/sched_switch", Some("tracepoint sched_switch")),
            ("fentry/vfs_open", Some("fentry/vfs_open")),
            ("fexit/vfs_open", Some("fexit/vfs_open")),
            ("perf_event", Some("perf_event")),
            ("iter/task", Some("iter/task")),
            ("iter/bpf_map_elem", None),
            (".maps", None),
            ("license", None),
        ];
        for (section, expected) in cases {
            assert_eq!(
                hook(&format!("{section}\")")).as_deref(),
                expected,
                "{section}"
            );
        }
    }

    #[test]
    fn the_same_hook_in_another_object_is_found_and_the_first_is_named() {
        let tree = Tree::of(&[
            ("bpf/a/a.bpf.c", "\nSEC(\"tp_btf/sched_switch\")\n"),
            ("bpf/b/b.bpf.h", "SEC(\"raw_tp/sched_switch\")\n"),
            ("docs/example.c", "SEC(\"raw_tp/sched_switch\")\n"),
        ]);
        let findings = hooks(&tree);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].path, "bpf/b/b.bpf.h");
        assert!(findings[0].mend.ends_with("bpf/a/a.bpf.c:2"));
    }

    #[test]
    fn a_number_in_the_copy_is_found_but_not_in_a_comment() {
        let code = "\n\tcast(it, bpf_core_type_id_kernel(struct rq));\n";
        let tree = Tree::of(&[
            ("bpf/a/a.bpf.c", code),
            (
                "bpf/b.h",
                "/*\n * bpf_core_type_id_kernel() would be\n */\n",
            ),
        ]);
        let findings = numbers_of_types(&tree);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].path, "bpf/a/a.bpf.c");
    }

    #[test]
    fn who_stands_in_is_in_the_same_object() {
        let first = "SEC(\"tp_btf/a\")\nint BPF_PROG(a)\n";
        let count = |files: &[(&str, &str)]| hooks(&Tree::of(files)).len();
        assert_eq!(count(&[("bpf/a/a.bpf.c", &format!("{first}{first}"))]), 1);
        for name in ["a_again", "a_older"] {
            let other = format!("SEC(\"tp_btf/a\")\nint BPF_PROG({name}, int x)\n");
            let both = format!("{first}{other}");
            assert_eq!(count(&[("bpf/a/a.bpf.c", &both)]), 0, "{name}");
            let apart = [("bpf/a/a.bpf.c", first), ("bpf/b/b.bpf.c", &other)];
            assert_eq!(count(&apart), 1, "{name}");
        }
    }

    #[test]
    fn the_licence_stands_in_the_first_line_and_the_mend_fits_the_file() {
        let late = format!("/* x */\n/* {LICENCE} */\n");
        let findings = spdx(&Tree::of(&[
            ("bpf/include/x.h", &late),
            ("bpf/x/x.bpf.c", ""),
        ]));
        assert_eq!(findings.len(), 2);
        assert!(findings[0].mend.contains("/* SPDX"));
        assert!(findings[1].mend.contains("// SPDX"));
        assert_eq!(
            spdx(&Tree::of(&[("bench/bpf/x.bpf.c", "int x;\n")])).len(),
            1
        );
    }
}
