//! The writable features of tracefs: kprobe events and instances.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::error::{Context as _, Error};
use crate::facts;

/// The root directory of tracefs, at its mount point or in a private mount.
#[derive(Debug)]
pub(super) struct TraceFolder(OwnedFd);

impl TraceFolder {
    pub(super) fn open() -> Result<Self, Error> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = match facts::tracefs(Path::new("/sys")) {
            Some(path) => openat(CWD, &path, flags, Mode::empty()),
            None => detached(),
        };
        root.map_err(io::Error::from)
            .context("opening tracefs (mount -t tracefs none /sys/kernel/tracing)")
            .map(Self)
    }

    /// Appends a line to a file.
    pub(super) fn append(&self, path: &str, text: &str) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC;
        let file = openat(self.0.as_fd(), path, flags, Mode::empty())?;
        File::from(file).write_all(text.as_bytes())
    }

    /// Returns the text of a file.
    pub(super) fn read(&self, path: &str) -> io::Result<String> {
        let file = openat(
            self.0.as_fd(),
            path,
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        io::read_to_string(File::from(file))
    }

    /// Opens a file for nonblocking reads.
    pub(super) fn open_pipe(&self, path: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(openat(self.0.as_fd(), path, flags, Mode::empty())?.into())
    }

    pub(super) fn make_folder(&self, path: &str) -> io::Result<()> {
        Ok(mkdirat(self.0.as_fd(), path, Mode::from_raw_mode(0o700))?)
    }

    pub(super) fn remove_folder(&self, path: &str) -> io::Result<()> {
        Ok(unlinkat(self.0.as_fd(), path, AtFlags::REMOVEDIR)?)
    }

    /// Returns the names in a directory.
    pub(super) fn names(&self, path: &str) -> io::Result<Vec<String>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(self.0.as_fd(), path, flags, Mode::empty())?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(folder)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }
}

fn detached() -> rustix::io::Result<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Returns the names in the list that consist of the prefix and the pid of a process that no longer
/// exists.
pub(super) fn names_of_dead_processes<'a>(names: &'a [String], prefix: &str) -> Vec<&'a str> {
    let dead = |name: &&str| {
        let pid = name.strip_prefix(prefix).and_then(|rest| {
            let end = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            rest[..end].parse::<u32>().ok()
        });
        pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
    };
    names.iter().map(String::as_str).filter(dead).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_leftovers_of_dead_processes_are_found() {
        let own = format!("noctule_{}_1", std::process::id());
        let names = [
            own,
            "noctule_4294967295_1".into(),
            "other_4294967295".into(),
            "noctule_x".into(),
        ];
        assert_eq!(
            names_of_dead_processes(&names, "noctule_"),
            ["noctule_4294967295_1"]
        );
    }
}
