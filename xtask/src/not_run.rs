//! What was left out, for the last line of `scripts/check.sh`.

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;

use anyhow::{Context as _, Result};

/// Notes what was not run, and why, where somebody collects it.
pub(crate) fn note(text: &str) -> Result<()> {
    let Some(path) = env::var_os("NOCTULE_NOT_RUN") else {
        return Ok(());
    };
    let mut options = OpenOptions::new();
    let file = options.append(true).create(true).open(path);
    let mut file = file.context("the file of what was not run")?;
    // At once: other stages write to it, too.
    file.write_all(format!("{text}\n").as_bytes())
        .context("the file of what was not run")
}
