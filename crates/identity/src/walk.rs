//! One walk of a hierarchy: id and path of every group.

use std::fs;
use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use noctule_model::CgroupId;

/// Groups below this depth are left out: a bound against a tree that contains itself.
const MAX_DEPTH: usize = 128;

/// What a walk found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Id and path of each group, the mount's root (`/`) first. Paths are relative to the mount.
    /// Bytes of names that are not UTF-8 become U+FFFD.
    pub groups: Vec<(CgroupId, String)>,
    /// Directories that could not be listed although they exist, or are too deep: what is below
    /// them is missing. Groups that vanished during the walk are not counted.
    pub unreadable: usize,
}

/// Walks the hierarchy mounted at `mount`. The id of a group is the inode of its directory, so
/// one listing per directory is enough; symbolic links are not followed.
///
/// Not a snapshot: groups that are made or moved meanwhile may be missing. Fails only when the
/// mount's root cannot be read.
pub fn walk(mount: &Path) -> io::Result<Tree> {
    let root = CgroupId(fs::metadata(mount)?.ino());
    let mut tree = Tree::default();
    tree.groups.push((root, "/".to_owned()));
    let mut open = vec![Place {
        directory: mount.to_owned(),
        path: String::new(),
        depth: 0,
    }];
    while let Some(place) = open.pop() {
        match place.list(&mut tree.groups, &mut open) {
            Ok(()) => {}
            Err(error) if place.depth == 0 => return Err(error),
            Err(error) if is_vanished(&error) => {}
            Err(_) => tree.unreadable += 1,
        }
    }
    Ok(tree)
}

/// A directory still to be listed.
struct Place {
    directory: PathBuf,
    path: String,
    depth: usize,
}

impl Place {
    fn list(&self, groups: &mut Vec<(CgroupId, String)>, open: &mut Vec<Self>) -> io::Result<()> {
        if self.depth > MAX_DEPTH {
            return Err(io::Error::other("too deep"));
        }
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            // The listing itself has it: no further call, and not the link's target.
            if !entry.file_type()?.is_dir() {
                continue;
            }
            let path = format!("{}/{}", self.path, entry.file_name().to_string_lossy());
            groups.push((CgroupId(entry.ino()), path.clone()));
            open.push(Self {
                directory: entry.path(),
                path,
                depth: self.depth + 1,
            });
        }
        Ok(())
    }
}

/// The group was removed between its listing and ours.
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
        let tree = walk(mount).unwrap();
        for (id, path) in &tree.groups {
            if !path.contains('\u{fffd}') {
                let directory = mount.join(path.trim_start_matches('/'));
                assert_eq!(id.0, fs::metadata(directory).unwrap().ino(), "{path}");
            }
        }
        let mut paths: Vec<String> = tree.groups.into_iter().map(|(_, path)| path).collect();
        paths.sort();
        paths
    }

    #[test]
    fn directories_only_and_no_links() {
        let mount = tempfile::tempdir().unwrap();
        fs::create_dir_all(mount.path().join("a/b")).unwrap();
        fs::create_dir(mount.path().join(OsStr::from_bytes(b"c\xff\n"))).unwrap();
        fs::write(mount.path().join("a/cgroup.procs"), "").unwrap();
        symlink(mount.path(), mount.path().join("a/loop")).unwrap();
        assert_eq!(paths(mount.path()), ["/", "/a", "/a/b", "/c\u{fffd}\n"]);
    }

    #[test]
    fn depth_is_bounded_and_said() {
        let mount = tempfile::tempdir().unwrap();
        fs::create_dir_all(mount.path().join("d/".repeat(MAX_DEPTH + 9))).unwrap();
        let tree = walk(mount.path()).unwrap();
        assert_eq!((tree.groups.len(), tree.unreadable), (MAX_DEPTH + 2, 1));
    }

    #[test]
    fn a_mount_that_is_not_there_is_an_error() {
        let mount = tempfile::tempdir().unwrap();
        assert!(walk(&mount.path().join("none")).is_err());
    }
}
