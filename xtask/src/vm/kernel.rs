//! Downloads kernels once and keeps them in the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::apt::Apt;
use super::cached;
use super::command::quiet;
use super::kernels::Kernel;

/// Prefixes of a kernel's packages, which differ between suites.
const PARTS: &[&str] = &["linux-image-", "linux-binary-", "linux-modules-"];

/// A kernel in the cache.
pub(super) struct Fetched {
    /// The boot image.
    pub(super) image: PathBuf,
    /// The release in the format of `uname -r`.
    pub(super) release: String,
    /// Directory of the modules, with `modules.dep`.
    pub(super) modules: PathBuf,
}

impl Fetched {
    /// Gets the kernel from the cache or downloads it. With `anew`, always downloads the newest
    /// kernel of its suite.
    pub(super) fn get(kernel: &Kernel, cache: &Path, anew: bool) -> Result<Self> {
        let folder = cache.join("kernels").join(kernel.name);
        cached::folder(&folder, anew, |part| fetch(kernel, cache, part))
            .with_context(|| format!("kernel {}", kernel.name))?;
        Self::in_folder(&folder)
    }

    fn in_folder(folder: &Path) -> Result<Self> {
        let modules = folder.join("lib/modules");
        let mut releases = fs::read_dir(&modules).with_context(|| modules.display().to_string())?;
        let release = releases.next().context("the kernel has no modules")??;
        let release = release.file_name().to_string_lossy().into_owned();
        let modules = modules.join(&release);
        let places = [
            folder.join("boot").join(format!("vmlinuz-{release}")),
            modules.join("vmlinuz"),
        ];
        match places.into_iter().find(|path| path.exists()) {
            Some(image) => Ok(Self {
                image,
                release,
                modules,
            }),
            None => bail!("{}: no boot image", folder.display()),
        }
    }
}

fn fetch(kernel: &Kernel, cache: &Path, folder: &Path) -> Result<()> {
    super::say(&format!(
        "fetching kernel {} from {}",
        kernel.name, kernel.suite
    ));
    let architecture = kernel.architecture.debian;
    let name = format!("{}-{architecture}", kernel.suite);
    let lists = cache.join("apt").join(name);
    let apt = Apt::open(&lists, kernel.suite, &[architecture])?;
    let packages = apt.with_dependencies(kernel.package, PARTS)?;
    apt.unpack(&packages, folder)?;
    let (usr, top) = (folder.join("usr/lib/modules"), folder.join("lib/modules"));
    if usr.exists() && !top.exists() {
        fs::create_dir_all(folder.join("lib"))?;
        fs::rename(&usr, &top)?;
    }
    let release = Fetched::in_folder(folder)?.release;
    quiet(Command::new("depmod").arg("-b").arg(folder).arg(release))?;
    // The lists are larger than the kernel, and outdated at the next download.
    cached::remove(&lists)
}
