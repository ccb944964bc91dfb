//! Folders that a test makes where others keep theirs: only what was missing, and it is removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{XattrFlags, getxattr, setxattr};

use super::hierarchies;

/// Folders that were made, outermost first; removed when it is dropped, if they are empty. One that another test is
/// still in is marked, and removed by that.
#[derive(Default)]
pub(crate) struct Made {
    made: Vec<PathBuf>,
    /// Those that were there already, perhaps by another test: innermost first.
    above: Vec<PathBuf>,
}

/// On a folder that the last test in it is to remove.
const MARK: &str = "trusted.noctule.test";

impl Made {
    /// Makes the folder and those above it that are missing.
    pub(crate) fn make(&mut self, folder: &Path) {
        self.note(folder);
        fs::create_dir_all(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    }

    /// Notes what is missing of the folder and those above it, for somebody else to make.
    pub(crate) fn note(&mut self, folder: &Path) {
        let missing: Vec<&Path> = folder.ancestors().take_while(|f| !f.exists()).collect();
        let above = folder.ancestors().skip(missing.len());
        self.above.extend(above.map(Path::to_owned));
        self.made
            .extend(missing.into_iter().rev().map(Path::to_owned));
    }

    /// Those that were made, or noted, by the test.
    pub(crate) fn made(&self) -> impl Iterator<Item = &Path> {
        self.made.iter().map(PathBuf::as_path)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for folder in self.made.iter().rev() {
            if !remove(folder) {
                // Where the file system has no such marks the folder stays.
                let _ = setxattr(folder, MARK, b"1", XattrFlags::empty());
                // The other may have looked for the mark just before.
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

/// The kernel lets go of a cgroup a moment after its last process has ended. False: somebody is in it.
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
