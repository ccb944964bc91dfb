//! Cargo, as somebody would start it by hand.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// The cargo that runs this program, or that of the path.
pub(crate) fn program() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// A command that starts it.
pub(crate) fn command() -> Command {
    let mut command = Command::new(program());
    forget_our_package(&mut command);
    command
}

/// Takes away what cargo says to a program that it runs of the program's own package. Some build
/// scripts ask for these names (that of `ring`): they would run again whenever cargo is started
/// from here after it was started by hand, and all that depends on them would be built anew.
pub(crate) fn forget_our_package(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
}

/// The tests of the binary, and the binary, with the features of the whole workspace, as `make test` has built them.
pub(crate) fn tests_of_the_binary(root: &Path) -> Result<Executables> {
    let mut command = command();
    command
        .args(["test", "--workspace", "--test=blackbox", "--locked"])
        .arg("--no-run")
        .current_dir(root);
    Executables::build(&mut command).context("the tests of the binary")
}

/// What a command of cargo has built.
pub(crate) struct Executables {
    messages: String,
}

impl Executables {
    /// Runs a command of cargo that builds, of which this adds the last option.
    pub(crate) fn build(command: &mut Command) -> Result<Self> {
        let output = command
            .arg("--message-format=json-render-diagnostics")
            .stderr(Stdio::inherit())
            .output()
            .context("starting cargo")?;
        if !output.status.success() {
            bail!("cargo cannot build it");
        }
        let messages = String::from_utf8(output.stdout).context("cargo")?;
        Ok(Self { messages })
    }

    /// Where that of this target is.
    pub(crate) fn named(&self, target: &str) -> Result<PathBuf> {
        let executable = |line: &str| {
            let message: Value = serde_json::from_str(line).ok()?;
            let ours = message["target"]["name"] == target;
            let path = message["executable"].as_str().filter(|_| ours)?;
            Some(PathBuf::from(path))
        };
        let found = self.messages.lines().find_map(executable);
        found.with_context(|| format!("cargo does not report where {target} is"))
    }
}
