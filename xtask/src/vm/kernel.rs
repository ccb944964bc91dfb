//! A kernel in the cache: fetched once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::apt::Apt;
use super::cached;
use super::command::quiet;
use super::kernels::Kernel;

/// What a kernel consists of; the names differ between suites.
const PARTS: &[&str] = &["linux-image-", "linux-binary-", "linux-modules-"];

/// A kernel that is there.
pub(super) struct Fetched {
    /// To boot.
    pub(super) image: PathBuf,
    /// As `uname -r` will say.
    pub(super) release: String,
    /// With `modules.dep`.
    pub(super) modules: PathBuf,
}

impl Fetched {
    /// From the cache, or fetched; with `anew` the newest of its suite in any case.
    pub(super) fn get(kernel: &Kernel, cache: &Path, anew: bool) -> Result<Self> {
        let folder = cache.join("kernels").join(kernel.name);
        cached::folder(&folder, anew, |part| fetch(kernel, cache, part))
            .with_context(|| format!("kernel {}", kernel.name))?;
        Self::in_folder(&folder)
    }

    fn in_folder(folder: &Path) -> Result<Self> {
        let modules = folder.join("lib/modules");
        let mut releases = fs::read_dir(&modules).with_context(|| modules.display().to_string())?;
        let release = releases.next().context("a kernel without modules")??;
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
            None => bail!("{}: no image", folder.display()),
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
    let packages = apt.with_needed(kernel.package, PARTS)?;
    apt.unpack(&packages, folder)?;
    let (usr, top) = (folder.join("usr/lib/modules"), folder.join("lib/modules"));
    if usr.exists() && !top.exists() {
        fs::create_dir_all(folder.join("lib"))?;
        fs::rename(&usr, &top)?;
    }
    let release = Fetched::in_folder(folder)?.release;
    quiet(Command::new("depmod").arg("-b").arg(folder).arg(release))?;
    // The lists are larger than the kernel, and old at the next fetch.
    cached::remove(&lists)
}
