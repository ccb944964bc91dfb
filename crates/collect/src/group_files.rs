//! Reads the files that the kernel provides for each cgroup.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use noctule_model::CgroupId;
use rustix::fs::{Mode, OFlags, fstat, open, openat};

/// The directories of groups below a mount point.
#[derive(Clone, Debug)]
pub(crate) struct GroupFiles {
    mount: PathBuf,
}

/// The open directory of one group. The files in the directory belong to this group even if another
/// group gets the same path.
pub(crate) struct GroupFolder(OwnedFd);

impl GroupFiles {
    pub(crate) fn new(mount: PathBuf) -> Self {
        Self { mount }
    }

    pub(crate) fn mount(&self) -> &Path {
        &self.mount
    }

    /// Opens the directory of the group with this path; `None` if the path is unknown.
    pub(crate) fn open(&self, path: &str) -> Option<GroupFolder> {
        let folder = self.mount.join(path.strip_prefix('/')?);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        open(folder, flags, Mode::empty()).ok().map(GroupFolder)
    }

    pub(crate) fn text(&self, path: &str, file: &str) -> Option<String> {
        self.open(path)?.text(file)
    }
}

impl GroupFolder {
    /// Returns the id of the group, which is the inode number of its directory.
    pub(crate) fn id(&self) -> Option<CgroupId> {
        Some(CgroupId(fstat(&self.0).ok()?.st_ino))
    }

    pub(crate) fn text(&self, file: &str) -> Option<String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(&self.0, file, flags, Mode::empty()).ok()?;
        let mut text = String::new();
        File::from(file).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Returns the number in a file that contains nothing else.
    pub(crate) fn number(&self, file: &str) -> Option<u64> {
        self.text(file)?.trim().parse().ok()
    }
}

/// Yields the path of a group and its ancestors, except the root.
pub(crate) fn with_ancestors(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at);
    let ends = ends.filter(|at| *at > 0).chain([path.len()]);
    ends.map(|at| &path[..at])
}

/// Returns the number after a key, in text with a key and a number on each line.
pub(crate) fn value(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let value = line.strip_prefix(key)?.strip_prefix(' ')?;
        value.trim().parse().ok()
    })
}
