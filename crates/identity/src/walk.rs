//! Walks a hierarchy once, and reports the id and path of every group.

use std::fs::{self, DirEntry, ReadDir};
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::Path;

use noctule_model::CgroupId;

/// Maximum depth of groups, which protects against a tree that contains itself.
const MAX_DEPTH: usize = 128;

/// Walks the hierarchy mounted at `mount`, and passes the id and path of each group to `take`,
/// starting with the mount's root (`/`).
///
/// Paths are relative to the mount. Names that are not UTF-8 are converted with U+FFFD. The id of a
/// group is the inode of its directory, so one listing of each directory is enough. Symbolic links
/// are not followed.
///
/// Returns the number of existing directories that could not be listed or are too deep. Groups
/// below these directories are missing. Directories that vanished during the walk are not included
/// in the number. Memory use does not depend on the number of groups.
///
/// The result is not a snapshot: groups that are created or moved during the walk may be missing.
/// Fails only if the mount's root cannot be read.
pub fn walk(mount: &Path, mut take: impl FnMut(CgroupId, &str)) -> io::Result<usize> {
    take(CgroupId(fs::metadata(mount)?.ino()), "/");
    let mut unreadable = 0;
    let mut open = vec![Place {
        entries: fs::read_dir(mount)?,
        path: String::new(),
    }];
    while let Some(place) = open.last_mut() {
        let (entry, path) = match place.next() {
            Some(Ok(found)) => found,
            Some(Err(error)) if open.len() == 1 => return Err(error),
            Some(Err(error)) => {
                unreadable += usize::from(!is_vanished(&error));
                open.pop();
                continue;
            }
            None => {
                open.pop();
                continue;
            }
        };
        take(CgroupId(entry.ino()), &path);
        if open.len() > MAX_DEPTH {
            unreadable += 1;
            continue;
        }
        match fs::read_dir(entry.path()) {
            Ok(entries) => open.push(Place { entries, path }),
            Err(error) => unreadable += usize::from(!is_vanished(&error)),
        }
    }
    Ok(unreadable)
}

/// A directory that is being listed.
struct Place {
    entries: ReadDir,
    path: String,
}

impl Place {
    /// Returns the next group in this directory, with its path.
    fn next(&mut self) -> Option<io::Result<(DirEntry, String)>> {
        loop {
            let entry = match self.entries.next()? {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error)),
            };
            // The listing includes the file type, so no other system call is needed, and the target
            // of a link does not matter.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => {
                    let path = format!("{}/{}", self.path, entry.file_name().to_string_lossy());
                    return Some(Ok((entry, path)));
                }
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Returns whether the group was removed after it was listed.
fn is_vanished(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    fn paths(mount: &Path) -> Vec<String> {
        let mut paths = Vec::new();
        let found = walk(mount, |id, path| {
            if !path.contains('\u{fffd}') {
                let directory = mount.join(path.trim_start_matches('/'));
                assert_eq!(id.0, fs::metadata(directory).unwrap().ino(), "{path}");
            }
            paths.push(path.to_owned());
        });
        assert_eq!(found.unwrap(), 0);
        paths.sort();
        paths
    }

    #[test]
    fn walk_lists_directories_without_following_links() {
        let mount = tempfile::tempdir().unwrap();
        fs::create_dir_all(mount.path().join("a/b")).unwrap();
        fs::create_dir(mount.path().join(OsStr::from_bytes(b"c\xff\n"))).unwrap();
        fs::write(mount.path().join("a/cgroup.procs"), "").unwrap();
        symlink(mount.path(), mount.path().join("a/loop")).unwrap();
        assert_eq!(paths(mount.path()), ["/", "/a", "/a/b", "/c\u{fffd}\n"]);
    }

    #[test]
    fn walk_depth_is_bounded_and_reported() {
        let mount = tempfile::tempdir().unwrap();
        fs::create_dir_all(mount.path().join("d/".repeat(MAX_DEPTH + 9))).unwrap();
        let mut groups = 0;
        let unreadable = walk(mount.path(), |_, _| groups += 1).unwrap();
        assert_eq!((groups, unreadable), (MAX_DEPTH + 2, 1));
    }

    #[test]
    fn missing_mount_is_an_error() {
        let mount = tempfile::tempdir().unwrap();
        assert!(walk(&mount.path().join("none"), |_, _| {}).is_err());
    }
}
