//! Checks of the lock file.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use toml::{Table, Value};

use super::Finding;
use super::edges::dependencies;
use super::manifests::members;
use crate::tree::Tree;

const LOCK: &str = "Cargo.lock";

/// Direct dependencies that only derive traits: they have no types that two versions could mix.
const DERIVES: &[&str] = &["thiserror"];

/// The lock file must be committed, so that everyone builds the same versions.
pub(super) fn committed(tree: &Tree) -> Vec<Finding> {
    if tree.get(LOCK).is_some_and(|file| file.tracked) {
        return Vec::new();
    }
    vec![Finding::new(
        LOCK,
        "is not committed",
        "`git add Cargo.lock`",
    )]
}

/// A direct dependency of the workspace must have a single version. With two versions, workspace
/// code and a library could mix incompatible types with the same name.
pub(super) fn versions(tree: &Tree) -> Vec<Finding> {
    let locked = locked(tree);
    let twice = direct(tree)
        .into_iter()
        .filter(|name| !DERIVES.contains(&name.as_str()))
        .filter_map(|name| Some((locked.get(&name).filter(|v| v.len() > 1)?, name)));
    twice
        .map(|(versions, name)| {
            let fix = format!(
                "require in Cargo.toml the version that the other crates use \
                 (`cargo tree --invert {name}@{}`)",
                versions[0]
            );
            let problem = format!(
                "has `{name}`, a direct dependency, as {}",
                versions.join(" and ")
            );
            Finding::new(LOCK, problem, fix)
        })
        .collect()
}

/// Returns the locked versions by name.
fn locked(tree: &Tree) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let table = tree.get(LOCK).and_then(|f| f.text.parse::<Table>().ok());
    let packages = table.as_ref().and_then(|t| t.get("package")?.as_array());
    for package in packages.into_iter().flatten() {
        let text = |key| package.get(key).and_then(Value::as_str).map(str::to_owned);
        if let (Some(name), Some(version)) = (text("name"), text("version")) {
            found.entry(name).or_default().push(version);
        }
    }
    found
}

/// Returns packages that a manifest requires directly, including those in the workspace's table.
fn direct(tree: &Tree) -> BTreeSet<String> {
    let root = tree
        .get("Cargo.toml")
        .and_then(|f| f.text.parse::<Table>().ok());
    let shared = root.and_then(|root| root.get("workspace")?.as_table().cloned());
    let shared = shared.as_ref().map(dependencies).unwrap_or_default();
    let own = members(tree).flat_map(|(_, manifest)| dependencies(&manifest));
    own.chain(shared).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCKED: &str = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\
        [[package]]\nname = \"a\"\nversion = \"2.0.0\"\n\
        [[package]]\nname = \"b\"\nversion = \"1.0.0\"\n";

    #[test]
    fn only_direct_dependencies_need_one_version() {
        let manifest = |text| Tree::of(&[(LOCK, LOCKED), ("crates/x/Cargo.toml", text)]);
        assert!(versions(&manifest("[dependencies]\nb = \"1\"\n")).is_empty());
        let findings = versions(&manifest("[dev-dependencies]\nx = { package = \"a\" }\n"));
        assert_eq!(
            findings[0].problem,
            "has `a`, a direct dependency, as 1.0.0 and 2.0.0"
        );
        assert!(findings[0].fix.contains("a@1.0.0"));
    }

    #[test]
    fn a_missing_lock_file_is_reported() {
        assert_eq!(committed(&Tree::of(&[])).len(), 1);
    }
}
