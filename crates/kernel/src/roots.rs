//! Mount points of the host's file systems.

use std::path::{Path, PathBuf};

/// Mount points of the host's sysfs and procfs. In a container the mounts can be elsewhere, and the
/// usual mount points can be partly hidden: container runtimes mask `/sys/class/powercap`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRoots {
    /// Mount of sysfs.
    pub sys: PathBuf,
    /// Mount of procfs.
    pub proc: PathBuf,
}

impl Default for HostRoots {
    fn default() -> Self {
        Self::below(Path::new("/"))
    }
}

impl HostRoots {
    /// Returns both mount points below a directory, under their usual names.
    pub fn below(root: &Path) -> Self {
        Self {
            sys: root.join("sys"),
            proc: root.join("proc"),
        }
    }
}
