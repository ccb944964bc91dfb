//! Downloads packages of another Debian suite with this machine's apt. apt uses its mirror and its
//! proxy, and verifies signatures and checksums. The machine's package lists and packages are not
//! changed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::cached;
use super::command::{output, quiet};

/// Environment variable that sets the mirror, for systems other than Debian.
const MIRROR: &str = "NOCTULE_DEBIAN_MIRROR";

/// Debian's archive keys, by their new and old name.
const KEYS: &[&str] = &[
    "/usr/share/keyrings/debian-archive-keyring.pgp",
    "/usr/share/keyrings/debian-archive-keyring.gpg",
];

/// The empty list of installed packages. apt locks the directory of this file, so the list is in a
/// private directory. With `/dev/null`, apt would lock `/dev` for every apt of the machine.
const STATUS: &str = "dpkg/status";

/// A separate apt configuration for one suite.
pub(super) struct Apt {
    folder: PathBuf,
    options: Vec<String>,
}

impl Apt {
    /// Downloads the package lists of the suite. Programs are for the first architecture. All files
    /// stay below the directory.
    pub(super) fn open(folder: &Path, suite: &str, architectures: &[&str]) -> Result<Self> {
        for part in ["state/lists/partial", "cache/archives/partial", "dpkg"] {
            fs::create_dir_all(folder.join(part))?;
        }
        fs::write(folder.join(STATUS), "")?;
        let key = KEYS.iter().find(|key| Path::new(key).exists());
        let key = key.context("no keys of Debian (package debian-archive-keyring)")?;
        let source = format!(
            "deb [signed-by={key} target=Packages] {} {suite} main\n",
            mirror()?
        );
        fs::write(folder.join("sources.list"), source)?;
        let this = Self {
            folder: folder.to_owned(),
            options: options(folder, architectures),
        };
        quiet(this.command("apt-get").args(["update", "-q"]))?;
        Ok(this)
    }

    /// Returns the package and its dependencies whose names have one of these prefixes.
    pub(super) fn with_dependencies(&self, package: &str, begins: &[&str]) -> Result<Vec<String>> {
        let mut found = BTreeSet::from([package.to_owned()]);
        let mut open = vec![package.to_owned()];
        while let Some(name) = open.pop() {
            let text = output(self.command("apt-cache").args(["depends", &name]))?;
            let needed = text
                .lines()
                .filter_map(|l| l.trim().strip_prefix("Depends: "));
            for needed in needed.filter(|n| begins.iter().any(|b| n.starts_with(b))) {
                if found.insert(needed.to_owned()) {
                    open.push(needed.to_owned());
                }
            }
        }
        Ok(found.into_iter().collect())
    }

    /// Downloads the packages and unpacks them into a directory.
    pub(super) fn unpack(&self, packages: &[String], into: &Path) -> Result<()> {
        quiet(self.command("apt-get").arg("download").args(packages))?;
        unpack_folder(&self.folder, into)
    }

    fn unpack_with_dependencies(&self, packages: &[&str], into: &Path) -> Result<()> {
        let mut command = self.command("apt-get");
        command.args([
            "install",
            "--yes",
            "--download-only",
            "--no-install-recommends",
        ]);
        quiet(command.args(packages))?;
        unpack_folder(&self.folder.join("cache/archives"), into)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder);
        for option in &self.options {
            command.args(["-o", option]);
        }
        command
    }
}

fn options(folder: &Path, architectures: &[&str]) -> Vec<String> {
    let at = |name: &str, path: &str| format!("{name}={}", folder.join(path).display());
    vec![
        at("Dir::State", "state"),
        at("Dir::Cache", "cache"),
        at("Dir::Etc::SourceList", "sources.list"),
        at("Dir::State::status", STATUS),
        "Dir::Etc::SourceParts=/dev/null".into(),
        "Acquire::Languages=none".into(),
        "Acquire::Retries=3".into(),
        "APT::Sandbox::User=root".into(),
        format!("APT::Architecture={}", architectures[0]),
        format!("APT::Architectures={}", architectures.join(",")),
    ]
}

/// Unpacks packages of a suite with all dependencies, as if no package were installed.
pub(super) fn unpack(
    cache: &Path,
    suite: &str,
    architectures: &[&str],
    packages: &[&str],
    into: &Path,
) -> Result<()> {
    super::say(&format!("fetching {} from {suite}", packages.join(", ")));
    let lists = cache.join("apt").join(format!("{suite}-{}", packages[0]));
    Apt::open(&lists, suite, architectures)?.unpack_with_dependencies(packages, into)?;
    cached::remove(&lists)
}

/// Unpacks and removes the packages in a directory.
fn unpack_folder(folder: &Path, into: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "deb") {
            quiet(Command::new("dpkg-deb").arg("-x").arg(&path).arg(into))?;
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Returns the Debian mirror of this machine.
fn mirror() -> Result<String> {
    if let Ok(named) = std::env::var(MIRROR) {
        return Ok(named);
    }
    let format = "$(ORIGIN)|$(LABEL)|$(REPO_URI)";
    let mut command = Command::new("apt-get");
    command.args(["indextargets", "--format", format, "Created-By: Packages"]);
    let text = output(&mut command)?;
    let debian = text
        .lines()
        .find_map(|line| line.strip_prefix("Debian|Debian|"));
    match debian {
        Some(uri) => Ok(uri.to_owned()),
        None => bail!("apt has no Debian mirror; set {MIRROR}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apt_locks_only_folders_of_its_own() {
        let options = options(Path::new("/own"), &["amd64"]);
        let locked = ["Dir::State=", "Dir::Cache=", "Dir::State::status="];
        for option in locked {
            let mut places = options.iter().filter_map(|it| it.strip_prefix(option));
            assert!(
                places.next().is_some_and(|it| it.starts_with("/own/")),
                "{option}"
            );
        }
    }
}
