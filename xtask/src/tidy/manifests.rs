//! Checks what every manifest inherits from the workspace.

use toml::{Table, Value};

use super::Finding;
use crate::tree::{File, Tree};

const INHERITED: &[&str] = &[
    "version",
    "edition",
    "rust-version",
    "license",
    "repository",
];

/// Returns the members' manifests that can be parsed.
pub(super) fn members(tree: &Tree) -> impl Iterator<Item = (&File, Table)> {
    let files = tree.ending("/Cargo.toml");
    files.filter_map(|file| Some((file, file.text.parse().ok()?)))
}

/// Returns the name of the package, or an empty string.
pub(super) fn name(manifest: &Table) -> &str {
    let package = manifest.get("package");
    let name = package.and_then(|p| p.get("name")).and_then(Value::as_str);
    name.unwrap_or_default()
}

/// Every manifest must inherit the lints and the package description from the workspace, except for
/// separate workspaces.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.ending("/Cargo.toml") {
        match file.text.parse::<Table>() {
            Err(error) => findings.push(Finding::new(
                &file.path,
                format!("is not valid TOML: {}", error.message()),
                "fix the syntax",
            )),
            Ok(manifest) if manifest.contains_key("workspace") => {}
            Ok(manifest) => findings.extend(missing_inheritance(file, &manifest)),
        }
    }
    findings
}

fn missing_inheritance(file: &File, manifest: &Table) -> Vec<Finding> {
    let inherits = |value: Option<&Value>| {
        value.and_then(|v| v.get("workspace")) == Some(&Value::Boolean(true))
    };
    let mut findings = Vec::new();
    for key in INHERITED {
        if !inherits(manifest.get("package").and_then(|p| p.get(key))) {
            findings.push(Finding::new(
                &file.path,
                format!("does not inherit `{key}` from the workspace"),
                format!("write `{key}.workspace = true` in [package]"),
            ));
        }
    }
    if !inherits(manifest.get("lints")) {
        findings.push(Finding::new(
            &file.path,
            "does not inherit the lints from the workspace",
            "write `[lints]` and `workspace = true`",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separate_workspaces_inherit_nothing() {
        let tree = |text| Tree::of(&[("fuzz/Cargo.toml", text)]);
        let text = "[package]\nname = \"a\"\n";
        assert!(!check(&tree(text)).is_empty());
        assert_eq!(check(&tree(&format!("{text}[workspace]\n"))), []);
    }

    #[test]
    fn missing_inheritance_is_reported() {
        let text = "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition.workspace = true\n\
            rust-version.workspace = true\nlicense.workspace = false\n\
            repository.workspace = true\n[lints.rust]\nunsafe_code = \"allow\"\n";
        let findings = check(&Tree::of(&[("crates/a/Cargo.toml", text)]));
        let problems: Vec<&str> = findings.iter().map(|f| f.problem.as_str()).collect();
        let expected = [
            "does not inherit `version` from the workspace",
            "does not inherit `license` from the workspace",
            "does not inherit the lints from the workspace",
        ];
        assert_eq!(problems, expected);
    }

    #[test]
    fn invalid_manifests_are_reported() {
        let findings = check(&Tree::of(&[("crates/a/Cargo.toml", "[package\n")]));
        assert!(findings[0].problem.starts_with("is not valid TOML"));
    }
}
