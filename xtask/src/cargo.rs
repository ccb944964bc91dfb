//! Runs Cargo as a user would from a shell.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// Returns the cargo that runs this program, or the one in the path.
pub(crate) fn program() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Returns a command that starts cargo.
pub(crate) fn command() -> Command {
    let mut command = Command::new(program());
    remove_package_variables(&mut command);
    command
}

/// Removes the variables that describe xtask's own package. Some build scripts, such as that of
/// `ring`, depend on these variables. If the variables stayed, these scripts would run again
/// whenever xtask starts cargo after a user started cargo, and everything that depends on the
/// scripts would be rebuilt.
pub(crate) fn remove_package_variables(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
}

/// Builds the tests of the binary and the binary itself, with the features of the whole workspace
/// like `make test`.
pub(crate) fn build_blackbox_tests(root: &Path) -> Result<Executables> {
    let mut command = command();
    command
        .args(["test", "--workspace", "--test=blackbox", "--locked"])
        .arg("--no-run")
        .current_dir(root);
    Executables::build(&mut command).context("building the tests of the binary")
}

/// The output of a cargo build.
pub(crate) struct Executables {
    messages: String,
}

impl Executables {
    /// Runs a build command of cargo with an additional option.
    pub(crate) fn build(command: &mut Command) -> Result<Self> {
        let output = command
            .arg("--message-format=json-render-diagnostics")
            .stderr(Stdio::inherit())
            .output()
            .context("starting cargo")?;
        if !output.status.success() {
            bail!("cargo build failed");
        }
        let messages = String::from_utf8(output.stdout).context("decoding the output of cargo")?;
        Ok(Self { messages })
    }

    /// Returns the path of this target's executable.
    pub(crate) fn named(&self, target: &str) -> Result<PathBuf> {
        let executable = |line: &str| {
            let message: Value = serde_json::from_str(line).ok()?;
            let ours = message["target"]["name"] == target;
            let path = message["executable"].as_str().filter(|_| ours)?;
            Some(PathBuf::from(path))
        };
        let found = self.messages.lines().find_map(executable);
        found.with_context(|| format!("cargo did not report the executable of {target}"))
    }
}
