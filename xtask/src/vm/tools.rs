//! Third-party programs in a machine.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::apt;
use super::architecture::Architecture;
use super::cached;

/// Tools that tests need in a form that busybox does not provide, with their packages. A tool that
/// is not installed here is also missing in the machine. Tests declare that they need it.
const TOOLS: &[(&str, &str)] = &[
    ("bash", "bash"),
    ("ip", "iproute2"),
    ("runc", "runc"),
    ("setpriv", "util-linux"),
    ("tc", "iproute2"),
    ("tmux", "tmux"),
];

/// Tools for machines of the host's architecture only, because their libraries come in many
/// packages.
const INSTALLED: &[&str] = &["dig"];

const BUSYBOX: (&str, &str) = ("busybox", "busybox-static");

/// Debian suite of tools for other architectures.
const SUITE: &str = "trixie";

/// Where the tools come from.
pub(super) enum Tools {
    /// Installed on the host.
    Installed,
    /// Packages of another architecture, unpacked.
    Unpacked(PathBuf),
}

impl Tools {
    /// Gets the tools for machines of this architecture.
    pub(super) fn get(architecture: &Architecture, cache: &Path) -> Result<Self> {
        if architecture.is_native()? {
            return Ok(Self::Installed);
        }
        let name = format!("{SUITE}-{}", architecture.debian);
        let root = cache.join("tools").join(name);
        let packages: BTreeSet<&str> = TOOLS.iter().chain([&BUSYBOX]).map(|(_, p)| *p).collect();
        let packages: Vec<&str> = packages.into_iter().collect();
        cached::folder(&root, false, |part| {
            apt::unpack(cache, SUITE, &[architecture.debian], &packages, part)
        })?;
        Ok(Self::Unpacked(root))
    }

    /// Returns name and path of each available tool.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, PathBuf)> {
        let names = TOOLS.iter().map(|(name, _)| *name);
        names
            .chain(INSTALLED.iter().copied())
            .filter_map(|name| Some((name, self.find(name)?)))
    }

    pub(super) fn busybox(&self) -> Result<PathBuf> {
        let (name, package) = BUSYBOX;
        self.find(name)
            .with_context(|| format!("{name} is missing (package {package})"))
    }

    /// Returns host path and machine path of each library that the tools need, including the
    /// loader.
    pub(super) fn libraries(&self) -> Result<Vec<(PathBuf, PathBuf)>> {
        match self {
            Self::Installed => {
                let mut libraries = BTreeSet::new();
                for (_, program) in self.all() {
                    libraries.extend(needed(&program)?);
                }
                Ok(libraries
                    .into_iter()
                    .map(|path| (path.clone(), path))
                    .collect())
            }
            // The dependencies of tools for another architecture are unknown here, so all of their
            // libraries are copied.
            Self::Unpacked(root) => {
                let mut libraries = Vec::new();
                let top = root.join("usr/lib");
                let inner = fs::read_dir(&top)?.flatten().map(|entry| entry.path());
                let folders = inner.filter(|p| p.to_string_lossy().ends_with("-linux-gnu"));
                for folder in folders.chain([top.clone()]) {
                    for entry in fs::read_dir(folder)?.flatten() {
                        let path = entry.path();
                        let name = entry.file_name().to_string_lossy().into_owned();
                        if path.is_file() && name.contains(".so") {
                            let inside = Path::new("/").join(path.strip_prefix(root)?);
                            libraries.push((path, inside));
                        }
                    }
                }
                Ok(libraries)
            }
        }
    }

    fn find(&self, name: &str) -> Option<PathBuf> {
        match self {
            Self::Installed => find(name),
            Self::Unpacked(root) => ["usr/bin", "usr/sbin", "bin", "sbin"]
                .map(|folder| root.join(folder).join(name))
                .into_iter()
                .find(|file| file.is_file()),
        }
    }
}

/// Finds a program on the host. The directories of administration tools are often not in a user's
/// path.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut places = env::split_paths(&path).chain(more).map(|f| f.join(name));
    places.find(|file| file.is_file())
}

/// Returns the libraries of a program including its loader. Returns none for a static program.
pub(super) fn needed(program: &Path) -> Result<Vec<PathBuf>> {
    // ldd fails for a static program.
    let text = Command::new("ldd")
        .arg(program)
        .output()
        .context("starting ldd")?;
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    let path = |line: &str| {
        let mut words = line.split_whitespace();
        words.find(|word| word.starts_with('/')).map(PathBuf::from)
    };
    Ok(text.lines().filter_map(path).collect())
}
