//! Finds the code of functions in programs and libraries, by name.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use noctule_text::escape;
use noctule_trace::elf::{Code, NoFunction, find_function};

use super::indirect::{self, Chosen};
use crate::exit::Usage;

/// Directories that the dynamic linker searches for libraries, and a shell for programs.
const FOLDERS: [&str; 11] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/lib",
    "/usr/lib64",
    "/usr/lib",
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/bin",
];

/// Resolves a program or library. A path is used unchanged; a plain name is searched for.
pub(in crate::commands) fn file(name: &str) -> Result<PathBuf> {
    let found = match name.contains('/') {
        true => fs::canonicalize(name).ok(),
        false => FOLDERS
            .iter()
            .map(|folder| Path::new(folder).join(name))
            .find(|path| path.is_file()),
    };
    match found {
        Some(path) if path.is_file() => Ok(path),
        Some(_) => bail!(Usage(format!("{} is not a regular file", escape(name)))),
        None => bail!(Usage(format!("there is no file {}", escape(name)))),
    }
}

/// Returns the offsets of a function's code in its file. Warns of calls that are not counted under
/// this name, and of other functions whose calls are also counted.
pub(in crate::commands) fn offsets(path: &Path, function: &str) -> Result<Vec<u64>> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    let (file, name) = (escape(&path.display().to_string()), escape(function));
    let found = match find_function(&bytes, function) {
        Ok(found) => found,
        Err(why) => bail!(Usage(refusal(&file, &name, why))),
    };
    if !found.other_versions.is_empty() {
        let (bare, _) = name.split_once('@').unwrap_or((&name, ""));
        let others: Vec<_> = found
            .other_versions
            .iter()
            .map(|version| format!("{bare}@{}", escape(version)))
            .collect();
        tracing::warn!(
            "{file}: programs linked against an older version call {}, which is not counted: add a \
             probe for it",
            others.join(", ")
        );
    }
    let indirect = match found.code {
        Code::Offset(offset) => return Ok(vec![offset]),
        Code::Indirect(indirect) => indirect,
    };
    let Chosen {
        offsets,
        shared_with,
    } = indirect::chosen(path, &indirect)?;
    if offsets.is_empty() {
        let why = match indirect.slots.is_empty() {
            true => {
                "the file itself does not call the function, so noctule cannot find the chosen code"
            }
            false => {
                "no process that runs as root has loaded the file, so noctule cannot find the \
                 chosen code"
            }
        };
        bail!(Usage(format!(
            "{file}: {name} is an indirect function (GNU IFUNC): the dynamic linker chooses its \
             code when a program starts, and {why}. Give the offset of the code instead of the \
             name: {file}:0xOFFSET (docs/probes.md explains how to find it)"
        )));
    }
    if !shared_with.is_empty() {
        let others: Vec<_> = shared_with.iter().map(|name| escape(name)).collect();
        tracing::warn!(
            "{file}: {name} has the same code as {} on this machine: their calls are counted too",
            others.join(", ")
        );
    }
    Ok(offsets.into_iter().collect())
}

fn refusal(file: &str, name: &str, why: NoFunction) -> String {
    let escaped = |all: Vec<String>| all.iter().map(|one| escape(one)).collect();
    match why {
        NoFunction::Unknown(None) => format!("{file} has no function {name} in its symbol tables"),
        NoFunction::Unknown(Some(near)) => {
            format!(
                "{file} has no function {name}; did you mean {}?",
                escape(&near)
            )
        }
        NoFunction::UnknownVersion(all) => {
            let why = NoFunction::UnknownVersion(escaped(all));
            format!("{file} has no function {name}; {why}")
        }
        NoFunction::Ambiguous(all) => {
            let all: Vec<_> = all
                .iter()
                .map(|place| format!("{file}:{}", escape(place)))
                .collect();
            format!(
                "{file} has {} functions {name}: choose {}",
                all.len(),
                all.join(" or ")
            )
        }
    }
}
