//! Resolves the names that the user selected, and reports those without a match.

use std::fs;
use std::path::Path;

use anyhow::Result;
use noctule_analysis::{Missing, Named, Selection};
use noctule_kernel::{Error, ErrorKind};

use crate::args::Names;
use crate::exit::Usage;

/// Number of names that an error lists.
const LISTED: usize = 8;

/// Returns the selection. `mount` is the mount point of the counted hierarchy, and `proc` is the
/// mount point of the host's procfs.
pub(crate) fn selection(names: &Names, mount: &Path, proc: &Path) -> Result<Selection, Usage> {
    let mut pids = names.pid.iter();
    pids.try_for_each(|pid| check_process(*pid, proc))?;
    patterns(names, mount)
}

/// Returns the selection for a recording, which can contain exited processes.
pub(crate) fn recorded(names: &Names) -> Result<Selection, Usage> {
    patterns(names, Path::new("/sys/fs/cgroup"))
}

fn patterns(names: &Names, mount: &Path) -> Result<Selection, Usage> {
    let paths: Vec<String> = names.cgroup.iter().map(|it| path(it, mount)).collect();
    let bare = names.name.iter().map(|it| match it.starts_with('/') {
        true => path(it, mount),
        false => it.clone(),
    });
    let bare: Vec<String> = bare.collect();
    let all = [
        (Named::Any, &bare),
        (Named::Namespace, &names.namespace),
        (Named::Pod, &names.pod),
        (Named::Container, &names.container),
        (Named::Unit, &names.unit),
        (Named::Cgroup, &paths),
    ];
    let selection = Selection::default().with_processes(&names.pid);
    all.into_iter()
        .try_fold(selection, |selection, (named, patterns)| {
            selection.with_names(named, patterns).map_err(Usage)
        })
}

/// Returns the path in the hierarchy. Also accepts a path below the mount point, and a path
/// relative to the current directory.
fn path(text: &str, mount: &Path) -> String {
    let below = |path: &Path| {
        let rest = path.strip_prefix(mount).ok()?;
        Some(format!("/{}", rest.to_str()?))
    };
    let here = || below(&Path::new(text).canonicalize().ok()?);
    let found = below(Path::new(text)).or_else(here);
    let path = found.unwrap_or_else(|| match text.starts_with(['/', '*', '(', '[', '?']) {
        true => text.to_owned(),
        false => format!("/{text}"),
    });
    match path.trim_end_matches('/') {
        "" => "/".to_owned(),
        path => path.to_owned(),
    }
}

/// Returns an error for a wrong pid, for which the command would otherwise wait forever.
fn check_process(pid: u32, proc: &Path) -> Result<(), Usage> {
    let status = fs::read_to_string(proc.join(format!("{pid}/status")));
    let status = status.map_err(|_| no_process(pid))?;
    let mut lines = status.lines();
    let group = lines.find_map(|line| line.strip_prefix("Tgid:")?.trim().parse::<u32>().ok());
    match group {
        Some(group) if group != pid => Err(Usage(format!(
            "--pid {pid}: is a thread of process {group}: use --pid {group}"
        ))),
        _ => Ok(()),
    }
}

fn no_process(pid: u32) -> Usage {
    Usage(format!("--pid {pid}: no such process"))
}

/// Returns the error for a process that has ended or is hidden from tracing programs.
pub(crate) fn unseen(pid: u32, proc: &Path) -> anyhow::Error {
    let Ok(name) = fs::read_to_string(proc.join(format!("{pid}/comm"))) else {
        return no_process(pid).into();
    };
    let words = format!(
        "--pid {pid}: this kernel hides {} from tracing programs, so its events cannot be seen; \
         noctule stat --pid {pid} shows its CPU time",
        name.trim_end()
    );
    Error::new(ErrorKind::Kernel, words).into()
}

/// Returns the error with the existing names, most similar first. `takes_command` is whether the
/// user could have meant a command to run.
pub(crate) fn nothing_fits(missing: Missing, takes_command: bool) -> Usage {
    let asked = missing.wanted.iter();
    let asked: Vec<String> = asked.map(|(named, text)| named.typed(text)).collect();
    let asked = asked.join(" ");
    let Some((named, wanted)) = missing.wanted.first() else {
        return Usage(asked);
    };
    let word = named.word();
    let mut there = missing.there;
    if there.is_empty() {
        return Usage(format!("{asked}: no {word} was found"));
    }
    // Users usually type the last component of a container's name.
    let near = |name: &str| {
        let last = name.rsplit('/').next().unwrap_or(name);
        let score = |name| strsim::jaro_winkler(wanted, name);
        score(name).max(score(last))
    };
    there.sort_by(|a, b| near(b).total_cmp(&near(a)));
    let more = there.len().saturating_sub(LISTED);
    there.truncate(LISTED);
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let what = match (missing.wanted.len(), named) {
        (1, Named::Any) if wanted.parse::<u32>().is_ok() => {
            format!("no group has that name; --pid {wanted} selects a process")
        }
        (1, Named::Any) if takes_command => {
            "no group has that name; `--` goes before a command".to_owned()
        }
        (1, Named::Any) => "no group has that name".to_owned(),
        (1, _) => format!("no {word} has that name"),
        _ => "no group matches all of these options".to_owned(),
    };
    let there = there.join(", ");
    Usage(format!(
        "{asked}: {what}; known names, closest first: {there}{more}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_paths_are_relative_to_the_hierarchy() {
        let mount = Path::new("/sys/fs/cgroup");
        let cases = [
            ("/sys/fs/cgroup/a/b", "/a/b"),
            ("/sys/fs/cgroup", "/"),
            ("/a/b/", "/a/b"),
            ("/", "/"),
            ("system.slice/x", "/system.slice/x"),
            ("*.slice", "*.slice"),
            ("(root)", "(root)"),
        ];
        for (text, expected) in cases {
            assert_eq!(path(text, mount), expected, "{text}");
        }
    }

    #[test]
    fn unmatched_name_suggests_the_closest_names() {
        let names = ["cron.service", "nginx.service", "ssh.service"];
        let nothing = |named, wanted: &str, there: &[&str], takes_command| {
            let missing = Missing {
                wanted: vec![(named, wanted.into())],
                there: there.iter().map(|&name| name.to_owned()).collect(),
            };
            nothing_fits(missing, takes_command).0
        };
        let said = nothing(Named::Unit, "ngnix", &names, true);
        let expected =
            "--unit ngnix: no unit has that name; known names, closest first: nginx.service, ";
        assert!(said.starts_with(expected), "{said}");
        let none = nothing(Named::Pod, "x", &[], true);
        assert_eq!(none, "--pod x: no pod was found");
        let bare = |wanted, takes_command| nothing(Named::Any, wanted, &names, takes_command);
        assert!(bare("make", true).starts_with("make: no group has that name; `--` goes"));
        assert!(bare("make", false).starts_with("make: no group has that name; known names"));
        assert!(bare("42", true).contains("; --pid 42 selects a process"));
    }
}
