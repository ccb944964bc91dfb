//! The kernel's own tracing, mounted where only the test sees it: what is compared with.

use std::fs;
use std::io::Write as _;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// A mount of tracefs without a place in any tree; it is gone with this.
pub(crate) struct Tracefs(OwnedFd);

impl Tracefs {
    pub(crate) fn mount() -> Self {
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC).expect("tracefs");
        fsconfig_create(context.as_fd()).expect("tracefs");
        let flags = FsMountFlags::FSMOUNT_CLOEXEC;
        let mount = fsmount(context.as_fd(), flags, MountAttrFlags::empty());
        Self(mount.expect("the test runs as root"))
    }

    /// A file of it, while this is there.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        Path::new(&format!("/proc/self/fd/{}", self.0.as_raw_fd())).join(path)
    }

    pub(crate) fn read(&self, path: &str) -> String {
        let text = fs::read(self.path(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        String::from_utf8_lossy(&text).into_owned()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        fs::write(self.path(path), text).unwrap_or_else(|e| panic!("{path}: {text}: {e}"));
    }

    /// Adds a line to a file that is a list of commands.
    pub(crate) fn append(&self, path: &str, line: &str) {
        let file = fs::OpenOptions::new().append(true).open(self.path(path));
        let written = file.and_then(|mut file| writeln!(file, "{line}"));
        written.unwrap_or_else(|e| panic!("{path}: {line}: {e}"));
    }
}
