//! Records notes for the last line of `scripts/check.sh`.

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;

use anyhow::{Context as _, Result};

/// Records skipped tests, with the reasons.
pub(crate) fn not_run(text: &str) -> Result<()> {
    note("NOCTULE_NOT_RUN", text)
}

/// Records tests that failed together with others and passed alone.
pub(crate) fn flaky(names: &str) -> Result<()> {
    note("NOCTULE_FLAKY", names)
}

/// Appends a line to the file that the variable names, if it is set.
fn note(variable: &str, text: &str) -> Result<()> {
    let Some(path) = env::var_os(variable) else {
        return Ok(());
    };
    let mut options = OpenOptions::new();
    let file = options.append(true).create(true).open(path);
    let mut file = file.with_context(|| format!("opening the file of {variable}"))?;
    // A single write, because other stages also append to the file.
    file.write_all(format!("{text}\n").as_bytes())
        .with_context(|| format!("writing the file of {variable}"))
}
