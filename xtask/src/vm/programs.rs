//! What of ours runs in a machine: static programs, built from this tree.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use noctule_vm::AGENT;
use serde_json::Value;

use super::architecture::Architecture;
use super::command::output;
use super::toolchain::Toolchain;
use crate::cargo;

/// Static programs.
pub(super) struct Programs {
    /// The first process.
    pub(super) init: PathBuf,
    pub(super) agent: PathBuf,
    pub(super) tests: PathBuf,
}

impl Programs {
    /// Builds them.
    pub(super) fn build(root: &Path, architecture: &Architecture, cache: &Path) -> Result<Self> {
        let name = architecture.debian;
        super::say(&format!("building the static programs for {name}"));
        if architecture.is_native()? {
            let mut command = Command::new("env");
            cargo::forget_our_package(&mut command);
            command.arg(format!(
                "LIBBPF_SYS_LIBRARY_PATH={}",
                libraries()?.display()
            ));
            return Self::built_by(
                command,
                &cargo::program(),
                root,
                architecture,
                Path::to_owned,
            );
        }
        let toolchain = Toolchain::get(architecture, cache)?;
        let command = toolchain.cargo(root)?;
        let outside = |path: &Path| toolchain.outside(path, root);
        Self::built_by(command, "cargo".as_ref(), root, architecture, outside)
    }

    /// By a command that sets variables and then executes another one.
    fn built_by(
        mut command: Command,
        cargo: &OsStr,
        root: &Path,
        architecture: &Architecture,
        outside: impl Fn(&Path) -> PathBuf,
    ) -> Result<Self> {
        let output = command
            .args([
                "RUSTFLAGS=-C target-feature=+crt-static".to_owned(),
                format!("NOCTULE_BINARY={AGENT}"),
            ])
            .arg(cargo)
            // With a target, build scripts and their libbpf are built apart, and stay dynamic.
            .args([
                "build",
                "--locked",
                "--profile=vm",
                "--target",
                architecture.target,
            ])
            .args(["--package=noctule", "--package=noctule-vm"])
            .args(["--features=noctule/static", "--bins", "--test=blackbox"])
            .arg("--message-format=json-render-diagnostics")
            .current_dir(root)
            .stderr(Stdio::inherit())
            .output()
            .context("starting cargo")?;
        if !output.status.success() {
            bail!("the static programs cannot be built");
        }
        let messages = String::from_utf8(output.stdout).context("cargo")?;
        let named = |name| {
            let found = messages.lines().find_map(|line| executable(line, name));
            let found = found.map(|path| outside(&path));
            found.with_context(|| format!("cargo does not report where {name} is"))
        };
        Ok(Self {
            init: named("noctule-vm-init")?,
            agent: named("noctule")?,
            tests: named("blackbox")?,
        })
    }
}

fn executable(line: &str, name: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(line).ok()?;
    let ours = message["target"]["name"] == name;
    let path = message["executable"].as_str().filter(|_| ours)?;
    Some(PathBuf::from(path))
}

/// The folder of the static libraries that libbpf needs.
fn libraries() -> Result<PathBuf> {
    let path = output(Command::new("cc").arg("-print-file-name=libelf.a"))?;
    // The compiler prints the bare name of what it does not find.
    let path = fs::canonicalize(path.trim()).context("no libelf.a (package libelf-dev)")?;
    Ok(path.parent().context("a folder")?.to_owned())
}
