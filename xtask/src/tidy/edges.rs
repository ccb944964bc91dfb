//! Checks the dependencies between the workspace's crates.

use toml::{Table, Value};

use super::Finding;
use super::manifests::{members, name};
use crate::tree::Tree;

const MODEL: &str = "noctule-model";
const ANALYSIS: &str = "noctule-analysis";
const TEXT: &str = "noctule-text";
const KERNEL: &str = "noctule-kernel";
const SCHEMA: &str = "noctule-schema";
const TLS: &str = "noctule-tls";

/// The crates of the binary.
const PARTS: &[&str] = &[
    MODEL,
    ANALYSIS,
    TEXT,
    SCHEMA,
    KERNEL,
    "noctule-collect",
    "noctule-trace",
    "noctule-identity",
    "noctule-otlp",
    "noctule-sinks",
    "noctule-tape",
    "noctule-web",
    "noctule-tui",
    "noctule-fixtures",
];

/// The workspace crates that each package may use, including its tests.
const EDGES: &[(&str, &[&str])] = &[
    (MODEL, &[]),
    (ANALYSIS, &[MODEL]),
    (TEXT, &[MODEL]),
    (SCHEMA, &[MODEL]),
    (KERNEL, &[MODEL]),
    ("noctule-collect", &[MODEL, KERNEL]),
    ("noctule-trace", &[KERNEL]),
    ("noctule-identity", &[MODEL]),
    // TLS certificates for both the server and the client.
    (TLS, &[]),
    // The crate sends bytes and does not know their meaning.
    ("noctule-otlp", &[TLS]),
    ("noctule-sinks", &[MODEL, ANALYSIS, TEXT, SCHEMA]),
    ("noctule-tape", &[MODEL, ANALYSIS, TEXT, SCHEMA]),
    ("noctule-web", &[TLS]),
    ("noctule-tui", &[MODEL, ANALYSIS, TEXT, SCHEMA]),
    // BPF objects for tests. No released binary contains them.
    ("noctule-fixtures", &[]),
    ("noctule", PARTS),
    // Measures the binary from outside, so it uses none of its crates.
    ("noctule-bench", &[]),
    // Energy traces whose results are known. The crate is pure, like the code that it evaluates.
    ("noctule-energy-bench", &[MODEL, ANALYSIS]),
    ("noctule-lab", &[]),
    // Random input for parsers of untrusted text, files and objects. The configuration is part of
    // the binary, which has no library.
    ("noctule-fuzz", PARTS),
    // The first process of a virtual machine, which is independent of the code under test.
    ("noctule-vm", &[]),
    // Generates documentation from the metric table and the fields, and talks to the virtual
    // machines.
    ("xtask", &[MODEL, SCHEMA, "noctule-vm"]),
];

/// Dependencies between workspace crates must be in the table, including dependencies of tests and
/// build scripts.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, manifest) in members(tree) {
        let package = name(&manifest);
        let Some((_, allowed)) = EDGES.iter().find(|(name, _)| *name == package) else {
            findings.push(Finding::new(
                &file.path,
                format!("the package `{package}` is not in the table of edges"),
                "add what it may use to EDGES in xtask/src/tidy/edges.rs, and to ARCHITECTURE.md",
            ));
            continue;
        };
        for (section, used) in dependencies(&manifest) {
            if is_workspace_crate(&used) && !allowed.contains(&used.as_str()) {
                let list = match allowed {
                    [] => "no workspace crate".to_owned(),
                    allowed => allowed.join(", "),
                };
                findings.push(Finding::new(
                    &file.path,
                    format!("`{package}` uses `{used}` in [{section}]"),
                    format!("remove it: `{package}` may use {list} (ARCHITECTURE.md, Edges)"),
                ));
            }
        }
    }
    findings
}

fn is_workspace_crate(name: &str) -> bool {
    EDGES.iter().any(|(ours, _)| *ours == name) || name.starts_with("noctule")
}

/// Returns section and package of each dependency, including target-specific ones.
pub(super) fn dependencies(manifest: &Table) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect_dependencies(manifest, "", &mut found);
    for (target, table) in sections(manifest, "target") {
        collect_dependencies(table, &format!("target.{target}."), &mut found);
    }
    found
}

fn collect_dependencies(table: &Table, prefix: &str, found: &mut Vec<(String, String)>) {
    for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let Some(Value::Table(list)) = table.get(kind) else {
            continue;
        };
        for (key, value) in list {
            let renamed = value.get("package").and_then(Value::as_str);
            found.push((format!("{prefix}{kind}"), renamed.unwrap_or(key).to_owned()));
        }
    }
}

fn sections<'a>(manifest: &'a Table, key: &str) -> Vec<(&'a str, &'a Table)> {
    let table = manifest.get(key).and_then(Value::as_table);
    let entries = table.into_iter().flatten();
    entries
        .filter_map(|(name, value)| Some((name.as_str(), value.as_table()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(manifest: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/x/Cargo.toml", manifest)]);
        check(&tree).into_iter().map(|f| f.problem).collect()
    }

    #[test]
    fn every_kind_of_dependency_is_checked() {
        for section in [
            "dependencies",
            "dev-dependencies",
            "build-dependencies",
            "target.'cfg(unix)'.dependencies",
        ] {
            let text =
                format!("[package]\nname = \"noctule-tui\"\n[{section}]\nnoctule-kernel = \"*\"\n");
            assert_eq!(problems(&text).len(), 1, "{section}");
        }
    }

    #[test]
    fn renamed_dependencies_are_checked() {
        let text = "[package]\nname = \"noctule-sinks\"\n[dependencies]\n\
            k = { package = \"noctule-kernel\", path = \"../kernel\" }\n";
        let expected = "`noctule-sinks` uses `noctule-kernel` in [dependencies]";
        assert_eq!(problems(text), [expected]);
    }

    #[test]
    fn the_binary_may_use_everything_but_xtask() {
        let allowed = "[package]\nname = \"noctule\"\n[dependencies]\nnoctule-web = \"*\"\n\
            [dev-dependencies]\nnoctule-kernel = \"*\"\n";
        assert_eq!(problems(allowed), [""; 0]);
        let tasks = "[package]\nname = \"noctule\"\n[dev-dependencies]\nxtask = \"*\"\n";
        assert_eq!(problems(tasks).len(), 1);
    }

    #[test]
    fn data_sources_may_not_use_analysis_or_text() {
        for source in [KERNEL, "noctule-collect", "noctule-identity"] {
            for used in [ANALYSIS, TEXT] {
                let text =
                    format!("[package]\nname = \"{source}\"\n[dependencies]\n{used} = \"*\"\n");
                assert_eq!(problems(&text).len(), 1, "{source} -> {used}");
            }
        }
    }

    #[test]
    fn new_packages_must_be_in_the_table() {
        let problem = &problems("[package]\nname = \"noctule-new\"\n")[0];
        assert!(problem.contains("noctule-new"), "{problem}");
    }

    #[test]
    fn the_table_is_acyclic_and_complete() {
        for (at, (package, used)) in EDGES.iter().enumerate() {
            for name in *used {
                let position = EDGES.iter().position(|(p, _)| p == name);
                assert!(position.is_some_and(|p| p < at), "{package} -> {name}");
            }
        }
    }
}
