//! QEMU, from the cache. Not the machine's own: before 8.1 a processor could go on executing a break
//! point that another one had already taken away ("accel/tcg: Always lock pages before
//! translation"), and a kernel that patches itself hung within minutes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::apt;
use super::architecture::Architecture;
use super::cached;
use super::command::output;

/// Debian's suite.
const SUITE: &str = "trixie";

/// An emulator with all that it needs; it shares nothing with the machine's own programs.
pub(super) struct Emulator {
    root: PathBuf,
    program: &'static str,
}

impl Emulator {
    /// From the cache, or fetched.
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

    /// A command that is to become the emulator. It ends with us, however we end.
    pub(super) fn command(&self) -> Result<Command> {
        let usr = self.root.join("usr");
        let mut libraries = fs::read_dir(usr.join("lib"))?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().ends_with("-linux-gnu"));
        let libraries = libraries.next().context("an emulator without libraries")?;
        let mut loaders = fs::read_dir(&libraries)?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().contains("/ld-linux-"));
        let loader = loaders.next().context("an emulator without a loader")?;
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
