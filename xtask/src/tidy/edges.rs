//! Which of our crates may use which.

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

/// What the binary is made of.
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

/// Each package with those of ours that it may use, its tests included.
const EDGES: &[(&str, &[&str])] = &[
    (MODEL, &[]),
    (ANALYSIS, &[MODEL]),
    (TEXT, &[MODEL]),
    (SCHEMA, &[MODEL]),
    (KERNEL, &[MODEL]),
    ("noctule-collect", &[MODEL, KERNEL]),
    ("noctule-trace", &[KERNEL]),
    ("noctule-identity", &[MODEL]),
    // Certificates of both the server and the client.
    (TLS, &[]),
    // It sends bytes, and does not know what they mean.
    ("noctule-otlp", &[TLS]),
    ("noctule-sinks", &[MODEL, ANALYSIS, TEXT, SCHEMA]),
    ("noctule-tape", &[MODEL, ANALYSIS, TEXT]),
    ("noctule-web", &[TLS]),
    ("noctule-tui", &[MODEL, ANALYSIS, TEXT]),
    // Objects of the tests, which nothing that is shipped has in it.
    ("noctule-fixtures", &[]),
    ("noctule", PARTS),
    // It measures the binary from outside, beside others, and so uses none of its parts.
    ("noctule-bench", &[]),
    // Traces of energy whose truth is known: pure, as what it judges.
    ("noctule-energy-bench", &[MODEL, ANALYSIS]),
    // Random input for what reads the words, the files and the objects of strangers; the configuration is a part
    // of the binary, which has no library.
    ("noctule-fuzz", PARTS),
    // The first process of a virtual machine: it knows nothing of what is tested.
    ("noctule-vm", &[]),
    // The documentation is made from the metric table and the fields; the host and the machine talk.
    ("xtask", &[MODEL, SCHEMA, "noctule-vm"]),
];

/// Edges between our crates are those of the table, tests and build scripts included.
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
            if is_ours(&used) && !allowed.contains(&used.as_str()) {
                let list = match allowed {
                    [] => "none of our crates".to_owned(),
                    allowed => allowed.join(", "),
                };
                findings.push(Finding::new(
                    &file.path,
                    format!("`{package}` has `{used}` in [{section}]"),
                    format!("remove it: `{package}` may use {list} (ARCHITECTURE.md, Edges)"),
                ));
            }
        }
    }
    findings
}

fn is_ours(name: &str) -> bool {
    EDGES.iter().any(|(ours, _)| *ours == name) || name.starts_with("noctule")
}

/// Section and package of each dependency, those of single targets included.
pub(super) fn dependencies(manifest: &Table) -> Vec<(String, String)> {
    let mut found = Vec::new();
    gather(manifest, "", &mut found);
    for (target, table) in sections(manifest, "target") {
        gather(table, &format!("target.{target}."), &mut found);
    }
    found
}

fn gather(table: &Table, prefix: &str, found: &mut Vec<(String, String)>) {
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
    fn every_kind_of_dependency_counts() {
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
    fn a_dependency_under_another_name_counts() {
        let text = "[package]\nname = \"noctule-sinks\"\n[dependencies]\n\
            k = { package = \"noctule-kernel\", path = \"../kernel\" }\n";
        let expected = "`noctule-sinks` has `noctule-kernel` in [dependencies]";
        assert_eq!(problems(text), [expected]);
    }

    #[test]
    fn the_binary_may_use_all_but_the_tasks() {
        let allowed = "[package]\nname = \"noctule\"\n[dependencies]\nnoctule-web = \"*\"\n\
            [dev-dependencies]\nnoctule-kernel = \"*\"\n";
        assert_eq!(problems(allowed), [""; 0]);
        let tasks = "[package]\nname = \"noctule\"\n[dev-dependencies]\nxtask = \"*\"\n";
        assert_eq!(problems(tasks).len(), 1);
    }

    #[test]
    fn what_is_decided_from_data_is_not_the_sources_business() {
        for source in [KERNEL, "noctule-collect", "noctule-identity"] {
            for used in [ANALYSIS, TEXT] {
                let text =
                    format!("[package]\nname = \"{source}\"\n[dependencies]\n{used} = \"*\"\n");
                assert_eq!(problems(&text).len(), 1, "{source} -> {used}");
            }
        }
    }

    #[test]
    fn a_new_package_must_be_entered() {
        let problem = &problems("[package]\nname = \"noctule-new\"\n")[0];
        assert!(problem.contains("noctule-new"), "{problem}");
    }

    #[test]
    fn the_table_has_no_cycle_and_no_edge_into_the_unknown() {
        for (at, (package, used)) in EDGES.iter().enumerate() {
            for name in *used {
                let position = EDGES.iter().position(|(p, _)| p == name);
                assert!(position.is_some_and(|p| p < at), "{package} -> {name}");
            }
        }
    }
}
