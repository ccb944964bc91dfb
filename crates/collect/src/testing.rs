//! Simulates the kernel's files in tests.

use std::fs;

use tempfile::TempDir;

/// Creates a directory with these files.
pub(crate) fn hierarchy(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().expect("a folder of our own");
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("it can be made");
        fs::write(path, text).expect("it can be written");
    }
    root
}
