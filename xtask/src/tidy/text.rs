//! What no file of text may contain.

use super::Finding;
use crate::tree::Tree;

/// Places on somebody's machine. Put together here, so that this file does not break its own rule.
pub(super) const PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
];

/// Lines that may name such a place: file, a part of the line, the reason.
const PLACES_ALLOWED: &[(&str, &str, &str)] = &[(
    "crates/identity/src/names/tests.rs",
    concat!("/ho", "me/u:"),
    "a passwd file of a test",
)];

/// Addresses of package registries. Which mirror is used is the business of the machine.
pub(super) const REGISTRIES: &[&str] = &[
    concat!("crates", ".io/api"),
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("deb.debian", ".org"),
    concat!("archive.ubuntu", ".com"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("registry.npmjs", ".org"),
    concat!("proxy.golang", ".org"),
];

/// Names its registry in every entry, by cargo's own hand.
const LOCK: &str = "Cargo.lock";

/// Files of others, which stay as they were published (a test compares their checksums), and input of fuzz targets:
/// lines of HTTP end in a carriage return.
const AS_THEY_ARE: [&str; 2] = ["crates/web/ui/vendor/", "fuzz/seeds/"];

/// Most lines of a file, by the end of its name.
const SIZES: &[(&str, usize)] = &[(".rs", 800), (".bpf.c", 500), (".bpf.h", 500)];

/// Files that have grown too large.
pub(super) fn sizes(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (end, most) in SIZES {
        for file in tree.ending(end) {
            let lines = file.text.lines().count();
            if lines > *most {
                let problem = format!("has {lines} lines, {most} at most");
                findings.push(Finding::new(&file.path, problem, "split it by subject"));
            }
        }
    }
    findings
}

/// Blanks at the end of a line, and a last line that does not end.
pub(super) fn white_space(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let ours = |path: &str| !AS_THEY_ARE.iter().any(|place| path.starts_with(place));
    for file in tree.files().filter(|file| ours(&file.path)) {
        for (number, line) in (1..).zip(file.text.split('\n')) {
            if line.ends_with([' ', '\t', '\r']) {
                let finding = Finding::new(&file.path, "a line ends in white space", "remove it");
                findings.push(finding.at(number));
            }
        }
        if !file.text.is_empty() && !file.text.ends_with('\n') {
            findings.push(Finding::new(
                &file.path,
                "the last line does not end",
                "add a newline",
            ));
        }
    }
    findings
}

/// Places that exist only on one machine.
pub(super) fn paths(tree: &Tree) -> Vec<Finding> {
    let allowed = |path: &str, line: &str| {
        let mut entries = PLACES_ALLOWED.iter();
        entries.any(|(file, part, _)| *file == path && line.contains(part))
    };
    let mut findings = Vec::new();
    for file in tree.files() {
        for (number, line) in (1..).zip(file.text.lines()) {
            let place = PATHS.iter().find(|place| line.contains(**place));
            if let Some(place) = place.filter(|_| !allowed(&file.path, line)) {
                let problem = format!("names `{place}`, a place on one machine");
                let mend = "name it from the root of the repository, or take it from the \
                    environment";
                findings.push(Finding::new(&file.path, problem, mend).at(number));
            }
        }
    }
    findings
}

/// Addresses of package registries.
pub(super) fn registries(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files().filter(|f| f.path != LOCK) {
        for (number, line) in (1..).zip(file.text.lines()) {
            if let Some(address) = REGISTRIES.iter().find(|a| line.contains(**a)) {
                let problem = format!("names `{address}`");
                let mend = "leave the registry to the configuration of cargo or apt";
                findings.push(Finding::new(&file.path, problem, mend).at(number));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_are_the_last_good_sizes() {
        for (end, most) in SIZES {
            let path = format!("a{end}");
            let of = |lines| sizes(&Tree::of(&[(path.as_str(), "\n".repeat(lines).as_str())]));
            assert!(of(*most).is_empty());
            assert_eq!(of(most + 1).len(), 1);
        }
    }

    #[test]
    fn white_space_at_ends() {
        let lines = |text: &str| -> Vec<Option<usize>> {
            let findings = white_space(&Tree::of(&[("a", text)]));
            findings.iter().map(|f| f.line).collect()
        };
        assert_eq!(lines("a\nb\t\nc \r\n"), [Some(2), Some(3)]);
        assert_eq!(lines("a\nb"), [None]);
        assert_eq!(lines("a \nb "), [Some(1), Some(2), None]);
        assert!(lines("").is_empty());
    }

    #[test]
    fn every_place_and_address_is_seen_and_exceptions_are_narrow() {
        for place in PATHS {
            let text = format!("see\n{place}x\n");
            assert_eq!(paths(&Tree::of(&[("a.md", &text)]))[0].line, Some(2));
        }
        for (file, part, reason) in PLACES_ALLOWED {
            assert!(!reason.is_empty());
            assert!(paths(&Tree::of(&[(*file, *part)])).is_empty());
            assert_eq!(paths(&Tree::of(&[("other", *part)])).len(), 1);
        }
        for address in REGISTRIES {
            assert_eq!(registries(&Tree::of(&[("a.md", *address)])).len(), 1);
            assert!(registries(&Tree::of(&[(LOCK, *address)])).is_empty());
        }
    }
}
