//! What of ours runs in a machine. One of this architecture has the programs that `make test` tests here, with
//! their libraries; for another they are built, without libraries.

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

/// A program that needs no library of the machine.
const STATIC: &str = "RUSTFLAGS=-C target-feature=+crt-static";

/// Programs, and where each is.
pub(super) struct Programs {
    /// The first process: it runs before the disk is there, and has no libraries.
    pub(super) init: PathBuf,
    pub(super) agent: PathBuf,
    pub(super) tests: PathBuf,
    /// Where the tests look for the agent.
    pub(super) agent_of_tests: PathBuf,
    /// What agent and tests need, their loader included.
    pub(super) libraries: Vec<PathBuf>,
}

impl Programs {
    /// Builds them. Those without what debuggers need are in the folder.
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
            true => Self::ours(root, architecture, folder),
            false => Self::foreign(root, architecture, cache),
        }
    }

    fn ours(root: &Path, architecture: &Architecture, folder: &Path) -> Result<Self> {
        let mut init = Command::new("env");
        cargo::forget_our_package(&mut init);
        // With a target, build scripts are built apart, and stay dynamic.
        init.arg(STATIC)
            .arg(cargo::program())
            .args(["build", "--locked", "--target", architecture.target])
            .args(["--package=noctule-vm", "--bins"])
            .current_dir(root);
        let init = Executables::build(&mut init).context("the first process")?;
        let built = cargo::tests_of_the_binary(root)?;
        let agent_of_tests = built.named("noctule")?;
        let mut libraries = needed(&agent_of_tests)?;
        libraries.extend(needed(&built.named(TESTS)?)?);
        Ok(Self {
            init: init.named(FIRST)?,
            agent: slim(&agent_of_tests, folder)?,
            tests: slim(&built.named(TESTS)?, folder)?,
            agent_of_tests,
            libraries,
        })
    }

    fn foreign(root: &Path, architecture: &Architecture, cache: &Path) -> Result<Self> {
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
        let built = Executables::build(&mut command).context("the static programs")?;
        let named = |name| Ok::<_, anyhow::Error>(toolchain.outside(&built.named(name)?, root));
        Ok(Self {
            init: named(FIRST)?,
            agent: named("noctule")?,
            tests: named(TESTS)?,
            agent_of_tests: AGENT.into(),
            libraries: Vec::new(),
        })
    }
}

/// A copy without what debuggers need, which is most of it.
fn slim(program: &Path, folder: &Path) -> Result<PathBuf> {
    let name = program.file_name().context("a program has a name")?;
    let copy = folder.join(name);
    let mut strip = Command::new("strip");
    quiet(strip.args(["--strip-debug", "-o"]).arg(&copy).arg(program))?;
    Ok(copy)
}
