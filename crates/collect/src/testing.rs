//! Simulates the kernel's files in tests.

use std::fs;

use tempfile::TempDir;

/// Creates a directory with these files.
pub(crate) fn hierarchy(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().expect("a temporary directory");
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("the path is below the root"))
            .expect("the directory can be created");
        fs::write(path, text).expect("the file can be written");
    }
    root
}
