//! A small Debian system for building programs for another architecture. The host's toolchain has
//! neither a standard library nor a linker for that architecture.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::apt;
use super::architecture::Architecture;
use super::cached;
use super::command::{output, quiet};
use crate::cargo;

/// The only suite whose compiler is new enough.
const SUITE: &str = "sid";

/// The suite of the BPF compiler, which must be the same as for other machines because another
/// compiler generates different programs. The suite also has a libelf that can be linked statically
/// without zstd.
const OLD_SUITE: &str = "bookworm";

/// Paths of the sources and of cargo's downloaded crates in the system.
const SOURCES: &str = "/src";
const CRATES: &str = "/cargo";

/// Enters a system. Arguments: its root, pairs of host directories and mount points, and the
/// command.
const ENTER: &str = r#"
set -eu
root=$1
shift
while [ "$1" != -- ]; do
    mount --rbind "$1" "$root$2"
    shift 2
done
shift
mount --rbind /dev "$root/dev"
mount --rbind /proc "$root/proc"
exec chroot "$root" "$@"
"#;

/// Returns a command that runs its arguments in a system with these host directories mounted.
pub(super) fn enter(root: &Path, seen: &[(&Path, &str)]) -> Result<Command> {
    let mut command = Command::new("unshare");
    command.arg("--mount");
    if output(Command::new("id").arg("-u"))?.trim() != "0" {
        command.arg("--map-root-user");
    }
    command.args(["sh", "-c", ENTER, "sh"]).arg(root);
    for (outside, inside) in seen {
        command.arg(outside).arg(inside);
    }
    command.arg("--");
    Ok(command)
}

/// A toolchain system.
pub(super) struct Toolchain<'a> {
    root: PathBuf,
    architecture: &'a Architecture,
}

impl<'a> Toolchain<'a> {
    /// Gets the system from the cache or downloads it.
    pub(super) fn get(architecture: &'a Architecture, cache: &Path) -> Result<Self> {
        let root = cache.join("toolchains").join(architecture.debian);
        cached::folder(&root, false, |part| fill(architecture, cache, part))?;
        Ok(Self { root, architecture })
    }

    /// Returns a cargo command for the architecture that runs in the system and builds in
    /// `target/ARCHITECTURE`.
    pub(super) fn cargo(&self, sources: &Path) -> Result<Command> {
        let target = self.architecture.target;
        let own = target.replace("-unknown", "");
        // The system has no network.
        quiet(
            cargo::command()
                .args(["fetch", "--locked"])
                .current_dir(sources),
        )?;
        let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
        let crates = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home);
        let crates = crates.context("neither CARGO_HOME nor HOME is set")?;
        let mut command = enter(&self.root, &[(sources, SOURCES), (&crates, CRATES)])?;
        let upper = target.replace('-', "_").to_uppercase();
        command.args(["/usr/bin/env", "-i", "-C", SOURCES]).args([
            "PATH=/usr/bin:/usr/sbin".to_owned(),
            "HOME=/root".to_owned(),
            "CARGO_NET_OFFLINE=true".to_owned(),
            format!("CARGO_HOME={CRATES}"),
            format!(
                "CARGO_TARGET_DIR={SOURCES}/target/{}",
                self.architecture.debian
            ),
            format!("CARGO_TARGET_{upper}_LINKER={own}-gcc"),
            // Build scripts and procedural macros need the host's libraries.
            format!("LIBBPF_SYS_LIBRARY_PATH_{target}=/usr/lib/{own}"),
            format!(
                "LIBBPF_SYS_LIBRARY_PATH=/usr/lib/{}-linux-gnu",
                env::consts::ARCH
            ),
        ]);
        Ok(command)
    }

    /// Translates a path in the system to a path on the host.
    pub(super) fn host_path(&self, path: &Path, sources: &Path) -> PathBuf {
        match path.strip_prefix(SOURCES) {
            Ok(inner) => sources.join(inner),
            Err(_) => path.to_owned(),
        }
    }
}

fn fill(architecture: &Architecture, cache: &Path, root: &Path) -> Result<()> {
    let host = output(Command::new("dpkg").arg("--print-architecture"))?;
    let (host, foreign) = (host.trim(), architecture.debian);
    let libraries = ["libelf-dev", "zlib1g-dev"];
    let for_target = libraries.map(|package| format!("{package}:{foreign}"));
    let mut packages = vec!["clang", "make", "pkg-config"];
    packages.extend(libraries);
    packages.extend(for_target.iter().map(String::as_str));
    apt::unpack(cache, OLD_SUITE, &[host, foreign], &packages, root)?;
    for folder in ["bin", "sbin", "lib", "lib64"] {
        merge(root, folder)?;
    }
    let compiler = format!("gcc-{}", architecture.target.replace("-unknown", ""));
    let for_target = ["libstd-rust-dev", "libc6-dev"].map(|p| format!("{p}:{foreign}"));
    let mut packages = vec!["rustc", "cargo", "gcc", "libc6-dev", &compiler];
    packages.extend(for_target.iter().map(String::as_str));
    packages.extend(["coreutils", "dash", "findutils", "grep", "mawk", "sed"]);
    // If both suites have a package, the package of the newer suite replaces the older one.
    // Programs of the older suite work with the newer package.
    apt::unpack(cache, SUITE, &[host, foreign], &packages, root)?;
    for folder in [SOURCES, CRATES, "/dev", "/proc", "/tmp", "/root"] {
        fs::create_dir_all(root.join(&folder[1..]))?;
    }
    // The packages are only unpacked, so these links, which their installation creates, are
    // missing.
    for (program, link) in [("gcc", "cc"), ("dash", "sh"), ("mawk", "awk")] {
        let link = root.join("usr/bin").join(link);
        if !link.exists() {
            symlink(program, &link).with_context(|| link.display().to_string())?;
        }
    }
    Ok(())
}

/// Replaces a top-level directory with a link into `usr`, as newer suites expect.
pub(super) fn merge(root: &Path, folder: &str) -> Result<()> {
    let (top, below) = (root.join(folder), root.join("usr").join(folder));
    if top.is_dir() {
        fs::create_dir_all(&below)?;
        quiet(
            Command::new("cp")
                .args(["-a", "-l", "-T"])
                .args([&top, &below]),
        )?;
        cached::remove(&top)?;
    }
    let target = Path::new("usr").join(folder);
    symlink(target, &top).with_context(|| top.display().to_string())
}
