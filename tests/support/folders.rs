//! Directories that tests create where other programs also have files. Only missing directories are
//! created, and they are removed afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{XattrFlags, getxattr, setxattr};

use super::hierarchies;

/// Directories that the test created, outermost first. Dropping this value removes the empty ones.
/// If another test still uses a directory, the directory is marked and the other test removes it.
#[derive(Default)]
pub(crate) struct Made {
    made: Vec<PathBuf>,
    /// Directories that existed already, perhaps because of another test, innermost first.
    above: Vec<PathBuf>,
}

/// Mark on a directory that its last user must remove.
const MARK: &str = "trusted.noctule.test";

impl Made {
    /// Creates the directory and its missing parents.
    pub(crate) fn make(&mut self, folder: &Path) {
        self.note(folder);
        fs::create_dir_all(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    }

    /// Records the missing directories of a path that another program will create.
    pub(crate) fn note(&mut self, folder: &Path) {
        let missing: Vec<&Path> = folder.ancestors().take_while(|f| !f.exists()).collect();
        let above = folder.ancestors().skip(missing.len());
        self.above.extend(above.map(Path::to_owned));
        self.made
            .extend(missing.into_iter().rev().map(Path::to_owned));
    }

    /// Returns the directories that the test created or recorded.
    pub(crate) fn made(&self) -> impl Iterator<Item = &Path> {
        self.made.iter().map(PathBuf::as_path)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for folder in self.made.iter().rev() {
            if !remove(folder) {
                // On a file system without extended attributes, the directory stays.
                let _ = setxattr(folder, MARK, b"1", XattrFlags::empty());
                // The other test may have checked the mark just before.
                let _ = fs::remove_dir(folder);
            }
        }
        for folder in &self.above {
            if getxattr(folder, MARK, &mut [0; 1]).is_ok() {
                remove(folder);
            }
        }
    }
}

/// Removes a directory. Returns false if the directory is in use. The kernel frees a cgroup shortly
/// after its last process has ended.
fn remove(folder: &Path) -> bool {
    for _ in 0..100 {
        if fs::remove_dir(folder).is_ok() || !folder.exists() {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn shared_folder_is_removed_by_its_last_user() {
    let _machine = super::shared();
    let name = format!("noctule-shared-{}", std::process::id());
    let root = hierarchies::join(&hierarchies::with("cpu").mount, &name);
    let (mut first, mut second) = (Made::default(), Made::default());
    first.make(&root.join("first"));
    second.make(&root.join("second"));
    drop(first);
    assert!(root.join("second").exists());
    drop(second);
    assert!(!root.exists());
}
