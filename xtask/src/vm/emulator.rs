//! QEMU, from the cache. Not the machine's own: before 8.1 a processor could go on executing a break
//! point that another one had already taken away ("accel/tcg: Always lock pages before
//! translation"), and a kernel that patches itself hung within minutes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::apt::Apt;
use super::command::output;
use super::kernel::remove;

/// Debian's suite, package and program.
const SUITE: &str = "trixie";
const PACKAGE: &str = "qemu-system-x86";
const PROGRAM: &str = "qemu-system-x86_64";

/// An emulator with all that it needs; it shares nothing with the machine's own programs.
pub(super) struct Emulator {
    root: PathBuf,
}

impl Emulator {
    /// From the cache, or fetched.
    pub(super) fn get(cache: &Path) -> Result<Self> {
        let root = cache.join("emulators").join(format!("{SUITE}-{PACKAGE}"));
        if !root.exists() {
            fetch(cache, &root).context("the emulator")?;
        }
        Ok(Self { root })
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
        command.arg(usr.join("bin").join(PROGRAM));
        for firmware in ["qemu", "seabios"] {
            command.arg("-L").arg(usr.join("share").join(firmware));
        }
        Ok(command)
    }
}

fn fetch(cache: &Path, root: &Path) -> Result<()> {
    super::say(&format!("fetching {PACKAGE} from {SUITE}"));
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
    let architecture = architecture.trim();
    let lists = cache.join("apt").join(format!("{SUITE}-{PACKAGE}"));
    let apt = Apt::open(&lists, SUITE, architecture)?;
    // It counts when it is complete.
    let part = root.with_extension("part");
    remove(&part)?;
    fs::create_dir_all(&part)?;
    apt.unpack_with_all(PACKAGE, &part)?;
    fs::rename(&part, root)?;
    remove(&lists)
}
