//! `cargo xtask bench`: the harness is a program of its own, so that the other tasks are built
//! without libbpf.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};

/// Becomes the harness: a signal reaches it, and its exit status is the task's.
pub(crate) fn run(root: &Path, options: &[OsString]) -> Result<ExitCode> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--locked", "--manifest-path"]);
    command.arg(root.join("bench/Cargo.toml"));
    let error = command.arg("--").args(options).exec();
    Err(error).context("starting cargo, which builds the benchmark harness")
}
