//! Checks of all text files.

use super::Finding;
use crate::tree::Tree;

/// Paths on a particular machine. Each path is split in two, so that this file does not break its
/// own rule.
pub(super) const PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
];

/// Lines that may contain such a path: the file, words of the line, and the reason.
const PLACES_ALLOWED: &[(&str, &str, &str)] = &[(
    "crates/identity/src/names/tests.rs",
    concat!("/ho", "me/u:"),
    "a passwd file of a test",
)];

/// Addresses of package registries. The choice of a mirror belongs to the machine's configuration.
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

/// Cargo writes the registry into every entry of this file.
const LOCK: &str = "Cargo.lock";

/// Third-party files that stay as published (a test compares their checksums), and input of fuzz
/// targets: lines of HTTP end in a carriage return.
const UNCHANGED: [&str; 2] = ["crates/web/ui/vendor/", "fuzz/seeds/"];

/// Maximum number of lines by file name suffix.
const SIZES: &[(&str, usize)] = &[(".rs", 800), (".bpf.c", 500), (".bpf.h", 500)];

/// Files must not exceed the maximum number of lines.
pub(super) fn sizes(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (end, most) in SIZES {
        for file in tree.ending(end) {
            let lines = file.text.lines().count();
            if lines > *most {
                let problem = format!("has {lines} lines, at most {most} are allowed");
                findings.push(Finding::new(&file.path, problem, "split it by subject"));
            }
        }
    }
    findings
}

/// Lines must not end in white space, and the last line must end with a newline.
pub(super) fn white_space(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_checked = |path: &str| !UNCHANGED.iter().any(|place| path.starts_with(place));
    for file in tree.files().filter(|file| is_checked(&file.path)) {
        for (number, line) in (1..).zip(file.text.split('\n')) {
            if line.ends_with([' ', '\t', '\r']) {
                let finding = Finding::new(&file.path, "a line ends in white space", "remove it");
                findings.push(finding.at_line(number));
            }
        }
        if !file.text.is_empty() && !file.text.ends_with('\n') {
            findings.push(Finding::new(
                &file.path,
                "the last line has no newline",
                "add a newline",
            ));
        }
    }
    findings
}

/// Files must not contain paths of a particular machine.
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
                let problem = format!("contains `{place}`, a path on a particular machine");
                let fix = "use a path from the root of the repository, or take it from the \
                    environment";
                findings.push(Finding::new(&file.path, problem, fix).at_line(number));
            }
        }
    }
    findings
}

/// Files must not contain addresses of package registries.
pub(super) fn registries(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files().filter(|f| f.path != LOCK) {
        for (number, line) in (1..).zip(file.text.lines()) {
            if let Some(address) = REGISTRIES.iter().find(|a| line.contains(**a)) {
                let problem = format!("contains `{address}`");
                let fix = "leave the registry to the configuration of cargo or apt";
                findings.push(Finding::new(&file.path, problem, fix).at_line(number));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive() {
        for (end, most) in SIZES {
            let path = format!("a{end}");
            let of = |lines| sizes(&Tree::of(&[(path.as_str(), "\n".repeat(lines).as_str())]));
            assert!(of(*most).is_empty());
            assert_eq!(of(most + 1).len(), 1);
        }
    }

    #[test]
    fn finds_trailing_white_space() {
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
    fn finds_paths_and_registries_with_narrow_exceptions() {
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
