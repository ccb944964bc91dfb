//! Checks of the BPF sources.

use std::collections::BTreeMap;

use super::Finding;
use crate::tree::{File, Tree};

const LICENSE: &str = "SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause";

/// Program types that can be attached to the same tracepoint. Such programs count as one hook.
const TRACEPOINTS: &[&str] = &[
    "tp_btf",
    "raw_tp",
    "raw_tracepoint",
    "raw_tp.w",
    "tp",
    "tracepoint",
];

/// Returns the sources of the agent's BPF objects.
fn sources(tree: &Tree) -> impl Iterator<Item = &File> {
    let files = tree.files().filter(|f| f.path.starts_with("bpf/"));
    files.filter(|f| f.path.ends_with(".c") || f.path.ends_with(".h"))
}

/// The first line of every file must name its license. The kernel requires a license, and a header
/// may be copied on its own.
pub(super) fn spdx(tree: &Tree) -> Vec<Finding> {
    let elsewhere = |f: &&File| !f.path.starts_with("bpf/") && f.path.contains(".bpf.");
    let files = sources(tree).chain(tree.files().filter(elsewhere));
    let names_it = |f: &&File| f.text.lines().next().is_some_and(|l| l.contains(LICENSE));
    let bare = files.filter(|f| !names_it(f));
    bare.map(|file| {
        let (open, close) = if file.path.ends_with(".c") {
            ("// ", "")
        } else {
            ("/* ", " */")
        };
        let fix = format!("begin it with `{open}{LICENSE}{close}`");
        Finding::new(&file.path, "does not begin with its license", fix)
    })
    .collect()
}

/// Suffixes of programs that may use the same hook as the preceding program. Such a program
/// compensates for hits that a kernel skips (see `bpf/tcp/tcp.bpf.c`), or replaces the preceding
/// program on kernels that lack a feature it needs.
const FALLBACK_SUFFIXES: [&str; 2] = ["_again", "_older"];

/// Across all objects, only one program may be attached to each kernel hook. A second program would
/// pay the entry cost of the hook again, and run at a different time. Fallback programs in the same
/// object are allowed.
pub(super) fn hooks(tree: &Tree) -> Vec<Finding> {
    let mut first: BTreeMap<String, (&File, usize)> = BTreeMap::new();
    let mut findings = Vec::new();
    for file in sources(tree) {
        let mut lines = (1..).zip(file.text.lines()).peekable();
        while let Some((number, line)) = lines.next() {
            let is_fallback = lines.peek().is_some_and(|(_, next)| {
                let mut names = next.split(|c: char| !c.is_alphanumeric() && c != '_');
                names.any(|name| FALLBACK_SUFFIXES.iter().any(|end| name.ends_with(end)))
            });
            for found in line.split("SEC(\"").skip(1).filter_map(hook_of_section) {
                if let Some((other, at)) = first.get(&found) {
                    if is_fallback && other.path == file.path {
                        continue;
                    }
                    let fix = format!(
                        "call an account function from the program at {}:{at}",
                        other.path
                    );
                    let problem = format!("attaches to {found} a second time");
                    findings.push(Finding::new(&file.path, problem, fix).at_line(number));
                } else {
                    first.insert(found, (file, number));
                }
            }
        }
    }
    findings
}

/// The id of a type in the copy of the kernel's BTF to which libbpf relocates objects
/// (`crates/kernel/src/kernel_types.rs`). The kernel itself uses another id for the type.
const COPY_TYPE_ID: &str = "bpf_core_type_id_kernel(";

/// Programs must take the kernel's type ids from `enum kernel_number`.
pub(super) fn type_ids(tree: &Tree) -> Vec<Finding> {
    let lines = sources(tree).flat_map(|file| {
        let lines = (1..).zip(file.text.lines());
        let is_code = |line: &str| !line.trim_start().starts_with('*');
        let wrong = lines.filter(move |(_, line)| is_code(line) && line.contains(COPY_TYPE_ID));
        wrong.map(move |(number, _)| (file, number))
    });
    let finding = |(file, number): (&File, usize)| {
        let fix = "add the type to `enum kernel_number` of bpf/include/read.bpf.h";
        Finding::new(&file.path, "uses the type id of the BTF copy", fix).at_line(number)
    };
    lines.map(finding).collect()
}

/// Returns the hook of a section. Returns `None` for data sections, and for map iterators, because
/// each iterates over its own map.
fn hook_of_section(after: &str) -> Option<String> {
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
    fn sections_map_to_hooks() {
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
                hook_of_section(&format!("{section}\")")).as_deref(),
                expected,
                "{section}"
            );
        }
    }

    #[test]
    fn duplicate_hooks_are_found() {
        let tree = Tree::of(&[
            ("bpf/a/a.bpf.c", "\nSEC(\"tp_btf/sched_switch\")\n"),
            ("bpf/b/b.bpf.h", "SEC(\"raw_tp/sched_switch\")\n"),
            ("docs/example.c", "SEC(\"raw_tp/sched_switch\")\n"),
        ]);
        let findings = hooks(&tree);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].path, "bpf/b/b.bpf.h");
        assert!(findings[0].fix.ends_with("bpf/a/a.bpf.c:2"));
    }

    #[test]
    fn type_ids_are_found_outside_comments() {
        let code = "\n\tcast(it, bpf_core_type_id_kernel(struct rq));\n";
        let tree = Tree::of(&[
            ("bpf/a/a.bpf.c", code),
            (
                "bpf/b.h",
                "/*\n * bpf_core_type_id_kernel() would be\n */\n",
            ),
        ]);
        let findings = type_ids(&tree);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].path, "bpf/a/a.bpf.c");
    }

    #[test]
    fn fallbacks_must_be_in_the_same_object() {
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
    fn the_license_must_be_in_the_first_line() {
        let late = format!("/* x */\n/* {LICENSE} */\n");
        let findings = spdx(&Tree::of(&[
            ("bpf/include/x.h", &late),
            ("bpf/x/x.bpf.c", ""),
        ]));
        assert_eq!(findings.len(), 2);
        assert!(findings[0].fix.contains("/* SPDX"));
        assert!(findings[1].fix.contains("// SPDX"));
        assert_eq!(
            spdx(&Tree::of(&[("lab/bench/bpf/x.bpf.c", "int x;\n")])).len(),
            1
        );
    }
}
