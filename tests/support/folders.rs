//! Folders that a test makes where others keep theirs: only what was missing, and it is removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Folders that were made, outermost first; removed when it is dropped, if they are empty.
#[derive(Default)]
pub(crate) struct Made(Vec<PathBuf>);

impl Made {
    /// Makes the folder and those above it that are missing.
    pub(crate) fn make(&mut self, folder: &Path) {
        self.note(folder);
        fs::create_dir_all(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    }

    /// Notes what is missing of the folder and those above it, for somebody else to make.
    pub(crate) fn note(&mut self, folder: &Path) {
        let missing: Vec<&Path> = folder.ancestors().take_while(|f| !f.exists()).collect();
        self.0.extend(missing.into_iter().rev().map(Path::to_owned));
    }

    /// Those that were made, or noted, by the test.
    pub(crate) fn made(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            // The kernel lets go of a cgroup a moment after its last process has ended.
            for _ in 0..100 {
                if fs::remove_dir(folder).is_ok() || !folder.exists() {
                    break;
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
}
