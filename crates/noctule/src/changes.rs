//! Detects changes of files since they were read.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Files and their versions; a missing file has no version. Files must be noted before they are
/// read, so that a write during the read is noticed as a change.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Files(Vec<(PathBuf, Option<[i64; 6]>)>);

impl Files {
    pub(crate) fn note(&mut self, path: &Path) {
        self.0.push((path.to_owned(), version(path)));
    }

    pub(crate) fn changed(&self) -> bool {
        self.0.iter().any(|(path, known)| version(path) != *known)
    }
}

fn version(path: &Path) -> Option<[i64; 6]> {
    let found = fs::metadata(path).ok()?;
    Some([
        found.dev().cast_signed(),
        found.ino().cast_signed(),
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec(),
    ])
}
