//! Notes for the last line of `scripts/check.sh`.

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;

use anyhow::{Context as _, Result};

/// Notes what was not run, and why.
pub(crate) fn not_run(text: &str) -> Result<()> {
    note("NOCTULE_NOT_RUN", text)
}

/// Notes tests that failed beside others and passed when they ran again alone.
pub(crate) fn unsteady(names: &str) -> Result<()> {
    note("NOCTULE_UNSTEADY", names)
}

/// Adds a line to the file that this variable names, if somebody collects it.
fn note(variable: &str, text: &str) -> Result<()> {
    let Some(path) = env::var_os(variable) else {
        return Ok(());
    };
    let mut options = OpenOptions::new();
    let file = options.append(true).create(true).open(path);
    let mut file = file.with_context(|| format!("the file of {variable}"))?;
    // At once: other stages write to it, too.
    file.write_all(format!("{text}\n").as_bytes())
        .with_context(|| format!("the file of {variable}"))
}
