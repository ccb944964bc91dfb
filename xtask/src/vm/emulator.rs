//! Runs QEMU from the cache instead of the host's version. Before 8.1, a CPU could continue to
//! execute a breakpoint that another CPU had already removed ("accel/tcg: Always lock pages before
//! translation"). Kernels that patch themselves then hung within minutes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::apt;
use super::architecture::Architecture;
use super::cached;
use super::command::output;

/// Debian suite of the emulator.
const SUITE: &str = "trixie";

/// An emulator with all its dependencies, independent of the host's programs.
pub(super) struct Emulator {
    root: PathBuf,
    program: &'static str,
}

impl Emulator {
    /// Gets the emulator from the cache or downloads it.
    pub(super) fn get(architecture: &Architecture, cache: &Path) -> Result<Self> {
        let package = architecture.package;
        let root = cache.join("emulators").join(format!("{SUITE}-{package}"));
        cached::folder(&root, false, |part| {
            let host = output(Command::new("dpkg").arg("--print-architecture"))?;
            apt::unpack(cache, SUITE, &[host.trim()], &[package], part)
        })?;
        Ok(Self {
            root,
            program: architecture.emulator,
        })
    }

    /// Returns a command that becomes the emulator. The kernel kills the emulator when this process
    /// ends for any reason.
    pub(super) fn command(&self) -> Result<Command> {
        let usr = self.root.join("usr");
        let mut libraries = fs::read_dir(usr.join("lib"))?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().ends_with("-linux-gnu"));
        let libraries = libraries.next().context("the emulator has no libraries")?;
        let mut loaders = fs::read_dir(&libraries)?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().contains("/ld-linux-"));
        let loader = loaders.next().context("the emulator has no loader")?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(loader);
        command.arg("--library-path").arg(&libraries);
        command.arg(usr.join("bin").join(self.program));
        for firmware in ["qemu", "seabios"] {
            command.arg("-L").arg(usr.join("share").join(firmware));
        }
        Ok(command)
    }
}
