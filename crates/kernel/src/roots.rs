//! Where the host's own file systems are.

use std::path::{Path, PathBuf};

/// Where sysfs and procfs of the host are mounted. In a container they can be elsewhere than usual, and
/// what is at the usual place can be hidden in part: container runtimes cover `/sys/class/powercap`.
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
    /// Both in a folder, under their usual names.
    pub fn below(root: &Path) -> Self {
        Self {
            sys: root.join("sys"),
            proc: root.join("proc"),
        }
    }
}
