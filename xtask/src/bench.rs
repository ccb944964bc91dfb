//! Implements `cargo xtask bench`. The harness is a separate program, so that the other tasks are
//! built without libbpf.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use crate::cargo;

/// Replaces this process with the harness, so that signals and the exit status pass through.
pub(crate) fn run(root: &Path, options: &[OsString]) -> Result<ExitCode> {
    let mut command = cargo::command();
    command.args(["run", "--quiet", "--locked", "--manifest-path"]);
    command.arg(root.join("bench/Cargo.toml"));
    let error = command.arg("--").args(options).exec();
    Err(error).context("starting cargo, which builds the benchmark harness")
}
