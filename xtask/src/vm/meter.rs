//! The module of `vm/meter`: a meter of energy of which the truth is known, built for a kernel with
//! Debian's headers of that kernel.

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::apt;
use super::cached;
use super::command::quiet;
use super::kernel::Fetched;
use super::kernels::Kernel;
use super::modules::Module;
use super::toolchain::{enter, merge};

const NAME: &str = "noctule_meter";
const SOURCES: &[&str] = &["Kbuild", "noctule_meter.c"];

/// Beside the compiler, which the headers bring along.
const PROGRAMS: &[&str] = &[
    "make",
    "coreutils",
    "dash",
    "findutils",
    "grep",
    "mawk",
    "sed",
];

/// Builds it. The compiler and the programs of the headers are those of the kernel's own suite, in a
/// system of their own: those of a newer suite do not run on an older machine.
pub(super) fn build(
    root: &Path,
    kernel: &Kernel,
    fetched: &Fetched,
    cache: &Path,
    folder: &Path,
) -> Result<Module> {
    let system = cache.join("headers").join(&fetched.release);
    cached::folder(&system, false, |part| {
        fill(kernel, &fetched.release, cache, part)
    })
    .with_context(|| {
        format!(
            "headers of kernel {} (is it the newest? --refresh fetches it)",
            fetched.release
        )
    })?;
    let sources = folder.join(format!("meter-{}", kernel.name));
    fs::create_dir_all(&sources)?;
    for source in SOURCES {
        fs::copy(root.join("vm/meter").join(source), sources.join(source))?;
    }
    let architecture = kernel.architecture.debian;
    let mut command = enter(&system, &[(&sources, "/src")])?;
    quiet(command.args([
        "/usr/bin/env".to_owned(),
        "-i".to_owned(),
        "PATH=/usr/bin:/usr/sbin".to_owned(),
        // It would be asked of a dpkg that is not there.
        format!("DEB_BUILD_ARCH={architecture}"),
        format!("DEB_HOST_ARCH={architecture}"),
        "make".to_owned(),
        "--silent".to_owned(),
        format!("--directory=/usr/src/linux-headers-{}", fetched.release),
        "M=/src".to_owned(),
        "modules".to_owned(),
    ]))
    .context("vm/meter")?;
    let name = format!("{NAME}.ko");
    let bytes = fs::read(sources.join(&name)).context(name.clone())?;
    Ok(Module { name, bytes })
}

fn fill(kernel: &Kernel, release: &str, cache: &Path, root: &Path) -> Result<()> {
    let headers = format!("linux-headers-{release}");
    let mut packages = vec![headers.as_str()];
    packages.extend(PROGRAMS);
    let architecture = kernel.architecture.debian;
    apt::unpack(cache, kernel.suite, &[architecture], &packages, root)?;
    for folder in ["bin", "sbin", "lib", "lib64"] {
        if !root.join(folder).is_symlink() {
            merge(root, folder)?;
        }
    }
    for folder in ["src", "dev", "proc", "tmp"] {
        fs::create_dir_all(root.join(folder))?;
    }
    for (program, link) in [("dash", "sh"), ("mawk", "awk")] {
        let link: PathBuf = root.join("usr/bin").join(link);
        if !link.exists() {
            symlink(program, &link).with_context(|| link.display().to_string())?;
        }
    }
    Ok(())
}

/// Whether the headers of the kernel can be used here: their programs are of its architecture.
pub(super) fn is_wanted(kernel: &Kernel) -> bool {
    kernel.has_meter && kernel.architecture.target.starts_with(env::consts::ARCH)
}
