//! Builds the modules of `vm/modules` with Debian's headers of the kernel. The modules are an
//! energy meter and a host that steals time, both with known values.

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

const SOURCES: &str = "vm/modules";
const NAMES: &[&str] = &["noctule_meter", "noctule_steal"];

/// Programs for the build, except the compiler, which is a dependency of the headers.
const PROGRAMS: &[&str] = &[
    "make",
    "coreutils",
    "dash",
    "findutils",
    "grep",
    "mawk",
    "sed",
];

/// Builds the modules. The compiler and the programs of the headers come from the kernel's own
/// suite and run in a separate root, because programs of a newer suite do not run on an older host.
pub(super) fn build(
    root: &Path,
    kernel: &Kernel,
    fetched: &Fetched,
    cache: &Path,
    folder: &Path,
) -> Result<Vec<Module>> {
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
    let sources = folder.join(format!("modules-{}", kernel.name));
    fs::create_dir_all(&sources)?;
    let files = NAMES.iter().map(|name| format!("{name}.c"));
    for file in files.chain(["Kbuild".to_owned()]) {
        fs::copy(root.join(SOURCES).join(&file), sources.join(&file))?;
    }
    let architecture = kernel.architecture.debian;
    let mut command = enter(&system, &[(&sources, "/src")])?;
    quiet(command.args([
        "/usr/bin/env".to_owned(),
        "-i".to_owned(),
        "PATH=/usr/bin:/usr/sbin".to_owned(),
        // Otherwise the build would query dpkg, which is not installed.
        format!("DEB_BUILD_ARCH={architecture}"),
        format!("DEB_HOST_ARCH={architecture}"),
        "make".to_owned(),
        "--silent".to_owned(),
        format!("--directory=/usr/src/linux-headers-{}", fetched.release),
        "M=/src".to_owned(),
        "modules".to_owned(),
    ]))
    .context(SOURCES)?;
    let built = NAMES.iter().map(|name| {
        let name = format!("{name}.ko");
        let bytes = fs::read(sources.join(&name)).context(name.clone())?;
        Ok(Module { name, bytes })
    });
    built.collect()
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

/// Returns whether the headers of the kernel can be used on this host. The headers contain programs
/// for one architecture.
pub(super) fn are_wanted(kernel: &Kernel) -> bool {
    kernel.has_own_modules && kernel.architecture.target.starts_with(env::consts::ARCH)
}
