//! Builds the binary to measure.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// Returns cargo's target directory.
pub(super) fn target_folder(root: &Path) -> PathBuf {
    let named = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    root.join(named.unwrap_or_else(|| "target".into()))
}

/// Builds the release binary of this tree.
pub(super) fn release(root: &Path) -> Result<PathBuf> {
    super::say("building the release binary");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--release", "--locked", "--package", "noctule"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("starting cargo")?;
    if !output.status.success() {
        bail!("building the binary failed");
    }
    let executable = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let ours = message["target"]["name"] == "noctule";
        let path = message["executable"].as_str().filter(|_| ours)?;
        Some(PathBuf::from(path))
    };
    let messages = String::from_utf8_lossy(&output.stdout);
    let found = messages.lines().find_map(executable);
    found.context("cargo did not report the path of the binary")
}
