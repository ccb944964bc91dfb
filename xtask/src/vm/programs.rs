//! The programs that run in a machine. For the host's architecture, they are the programs of `make
//! test` with their libraries. For other architectures, they are built as static programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use noctule_vm::AGENT;

use super::architecture::Architecture;
use super::command::quiet;
use super::toolchain::Toolchain;
use super::tools::needed;
use crate::cargo::{self, Executables};

const FIRST: &str = "noctule-vm-init";
const TESTS: &str = "blackbox";

/// Builds a program that needs no shared libraries.
const STATIC: &str = "RUSTFLAGS=-C target-feature=+crt-static";

/// Paths of the programs.
pub(super) struct Programs {
    /// The first process, which is static because it runs before the disk is mounted.
    pub(super) init: PathBuf,
    pub(super) agent: PathBuf,
    pub(super) tests: PathBuf,
    /// Path at which the tests expect the agent.
    pub(super) agent_of_tests: PathBuf,
    /// Libraries of the agent and the tests, including the loader.
    pub(super) libraries: Vec<PathBuf>,
}

impl Programs {
    /// Builds the programs and stores copies without debug information in the directory.
    pub(super) fn build(
        root: &Path,
        architecture: &Architecture,
        cache: &Path,
        folder: &Path,
    ) -> Result<Self> {
        super::say(&format!(
            "building the programs for {}",
            architecture.debian
        ));
        match architecture.is_native()? {
            true => Self::build_native(root, architecture, folder),
            false => Self::build_static(root, architecture, cache),
        }
    }

    fn build_native(root: &Path, architecture: &Architecture, folder: &Path) -> Result<Self> {
        let mut init = Command::new("env");
        cargo::remove_package_variables(&mut init);
        // Because the target is explicit, the flags do not affect build scripts, which stay
        // dynamic.
        init.arg(STATIC)
            .arg(cargo::program())
            .args(["build", "--locked", "--target", architecture.target])
            .args(["--package=noctule-vm", "--bins"])
            .current_dir(root);
        let init = Executables::build(&mut init).context("building the first process")?;
        let built = cargo::build_blackbox_tests(root)?;
        let agent_of_tests = built.named("noctule")?;
        let mut libraries = needed(&agent_of_tests)?;
        libraries.extend(needed(&built.named(TESTS)?)?);
        Ok(Self {
            init: init.named(FIRST)?,
            agent: copy_stripped(&agent_of_tests, folder)?,
            tests: copy_stripped(&built.named(TESTS)?, folder)?,
            agent_of_tests,
            libraries,
        })
    }

    fn build_static(root: &Path, architecture: &Architecture, cache: &Path) -> Result<Self> {
        let toolchain = Toolchain::get(architecture, cache)?;
        let mut command = toolchain.cargo(root)?;
        command
            .arg(STATIC)
            .arg(format!("NOCTULE_BINARY={AGENT}"))
            .args(["cargo", "build", "--locked", "--profile=vm"])
            .args(["--target", architecture.target])
            .args(["--package=noctule", "--package=noctule-vm"])
            .args(["--features=noctule/static", "--bins", "--test=blackbox"])
            .current_dir(root);
        let built = Executables::build(&mut command).context("building the static programs")?;
        let named = |name| Ok::<_, anyhow::Error>(toolchain.host_path(&built.named(name)?, root));
        Ok(Self {
            init: named(FIRST)?,
            agent: named("noctule")?,
            tests: named(TESTS)?,
            agent_of_tests: AGENT.into(),
            libraries: Vec::new(),
        })
    }
}

/// Copies a program without its debug information, which makes up most of its size.
fn copy_stripped(program: &Path, folder: &Path) -> Result<PathBuf> {
    let name = program.file_name().context("the program has no name")?;
    let copy = folder.join(name);
    let mut strip = Command::new("strip");
    quiet(strip.args(["--strip-debug", "-o"]).arg(&copy).arg(program))?;
    Ok(copy)
}
