//! Implements `cargo xtask gen`: generates files from tables in the code. The files are committed,
//! so that they can be read next to the code. `--check` compares them with the tables.

mod events;
mod foreign;
mod kepler;
mod kernels;
mod metrics;
mod otlp;
mod usage;

use std::fs;
use std::io::{Write as _, stdout};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if a committed file differs from its table
    #[arg(long)]
    check: bool,
}

/// Returns path and content of each generated file.
fn files(root: &Path) -> Result<[(&'static str, String); 8]> {
    Ok([
        ("docs/metrics.md", metrics::page()),
        ("docs/kernels.md", kernels::page(root)?),
        ("docs/kepler.md", kepler::page()),
        ("docs/cadvisor.md", foreign::cadvisor()),
        ("docs/coroot.md", foreign::coroot()),
        ("docs/otlp.md", otlp::page()),
        ("docs/event-fields.md", events::page()),
        ("docs/json.md", usage::page(root)?),
    ])
}

/// Writes the files that differ, or lists them.
pub(crate) fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    let mut out = stdout().lock();
    let mut stale = 0;
    let files = files(root)?;
    let count = files.len();
    for (path, text) in files {
        let target = root.join(path);
        // A missing file counts as different.
        let found = fs::read_to_string(&target).unwrap_or_default();
        let Some(line) = first_difference(&found, &text) else {
            continue;
        };
        stale += 1;
        if args.check {
            writeln!(
                out,
                "{path}:{line}: differs from its table; to fix: `cargo xtask gen`"
            )?;
        } else {
            fs::write(&target, text).with_context(|| format!("writing {path}"))?;
            writeln!(out, "{path}: written")?;
        }
    }
    if args.check && stale > 0 {
        return Ok(ExitCode::FAILURE);
    }
    if stale == 0 {
        writeln!(out, "gen: {count} up to date")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the number of the first line in which the two strings differ, counting from 1.
fn first_difference(found: &str, wanted: &str) -> Option<usize> {
    if found == wanted {
        return None;
    }
    let same = found
        .split('\n')
        .zip(wanted.split('\n'))
        .take_while(|(a, b)| a == b);
    Some(same.count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_first_difference() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("", "a\n"), Some(1));
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(2));
        assert_eq!(first_difference("a\n", "a\nb\n"), Some(2));
        assert_eq!(first_difference("a\n\n", "a\n"), Some(3));
    }
}
