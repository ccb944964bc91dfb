//! Creates the disk of the virtual machines: a small system with noctule's programs and the tools
//! of the tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use noctule_vm::{AGENT, TESTS};

use super::architecture::Architecture;
use super::command::{output, quiet};
use super::programs::Programs;
use super::tools::{Tools, find};

/// Terminal descriptions for tmux.
const TERMINALS: &[&str] = &["l/linux", "s/screen-256color", "x/xterm-256color"];

const FOLDERS: &[&str] = &[
    "dev",
    "etc",
    "new",
    "proc",
    "root",
    "run",
    "sys",
    "tmp",
    "usr/bin",
    "usr/lib",
    "usr/lib64",
    "var/tmp",
];

/// All programs are in one directory and all libraries in another. Links provide the other paths.
const LINKS: &[(&str, &str)] = &[
    ("bin", "usr/bin"),
    ("sbin", "usr/bin"),
    ("lib", "usr/lib"),
    ("lib64", "usr/lib64"),
    ("usr/sbin", "bin"),
    ("var/run", "../run"),
];

const FILES: &[(&str, &str)] = &[
    (
        "etc/passwd",
        "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    ),
    ("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
    ("etc/hosts", "127.0.0.1 localhost\n"),
];

/// Size of the disk image, including room for files that tests create.
const SIZE: &str = "768M";

/// Creates the disk image in a directory.
pub(super) fn make(
    architecture: &Architecture,
    programs: &Programs,
    tools: &Tools,
    folder: &Path,
) -> Result<PathBuf> {
    let root = folder.join(format!("root-{}", architecture.debian));
    for name in FOLDERS {
        fs::create_dir_all(root.join(name))?;
    }
    for (name, target) in LINKS {
        symlink(target, root.join(name))?;
    }
    for (name, text) in FILES {
        fs::write(root.join(name), text)?;
    }
    for (from, to) in [(&programs.agent, AGENT), (&programs.tests, TESTS)] {
        copy(from, &root, Path::new(to))?;
    }
    if programs.agent_of_tests != Path::new(AGENT) {
        let link = inside(&root, &programs.agent_of_tests);
        fs::create_dir_all(link.parent().context("the path has no folder")?)?;
        symlink(AGENT, link)?;
    }
    for (name, path) in tools.all() {
        copy(&path, &root, &Path::new("/usr/bin").join(name))?;
    }
    for (from, to) in tools.libraries()? {
        copy(&from, &root, &to)?;
    }
    for library in &programs.libraries {
        copy(library, &root, library)?;
    }
    busybox(tools, &root)?;
    terminals(&root)?;
    image(&root, &folder.join(format!("disk-{}", architecture.debian)))
}

/// Installs busybox and links its commands, except commands with a separate tool. If the busybox is
/// for another architecture, the host's busybox provides the list of commands.
fn busybox(tools: &Tools, root: &Path) -> Result<()> {
    copy(&tools.busybox()?, root, Path::new("/usr/bin/busybox"))?;
    let ours = Tools::Installed.busybox()?;
    for name in output(Command::new(&ours).arg("--list"))?.lines() {
        let link = root.join("usr/bin").join(name);
        if !link.exists() {
            symlink("busybox", &link)?;
        }
    }
    Ok(())
}

fn terminals(root: &Path) -> Result<()> {
    for name in TERMINALS {
        for place in ["/usr/share/terminfo", "/lib/terminfo"] {
            let path = Path::new(place).join(name);
            if path.exists() {
                copy(&path, root, &path)?;
            }
        }
    }
    Ok(())
}

/// Creates a file system with the content of the directory. The file system has no journal, because
/// the journal's thread would affect measurements.
fn image(root: &Path, image: &Path) -> Result<PathBuf> {
    let mut command =
        Command::new(find("mke2fs").context("mke2fs is missing (package e2fsprogs)")?);
    command.args([
        "-q",
        "-t",
        "ext4",
        "-O",
        "^has_journal",
        "-E",
        "root_owner=0:0",
    ]);
    quiet(command.arg("-d").arg(root).arg(image).arg(SIZE))?;
    Ok(image.to_owned())
}

/// Returns where a file of the machine is kept below `root`.
fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn copy(from: &Path, root: &Path, to: &Path) -> Result<()> {
    let to = inside(root, to);
    fs::create_dir_all(to.parent().context("the path has no folder")?)?;
    fs::copy(from, &to).with_context(|| from.display().to_string())?;
    Ok(())
}
