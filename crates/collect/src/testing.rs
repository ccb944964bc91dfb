//! Simulates the kernel's files in tests.

use std::fs;
use std::sync::Arc;

use noctule_model::{Batch, CgroupId, CgroupRow, Counter, Owner};
use tempfile::TempDir;

/// Returns a batch with one group, whose other counters are 0.
pub(crate) fn batch_of(path: &str, counter: Counter, value: u64) -> Batch {
    let owner = Owner {
        path: path.to_owned(),
        ..Owner::unknown(CgroupId(7))
    };
    let mut row = CgroupRow {
        id: CgroupId(7),
        owner: Some(Arc::new(owner)),
        ..CgroupRow::default()
    };
    row.counters[counter] = value;
    Batch {
        cgroups: vec![row],
        sequence: 1,
        ..Batch::default()
    }
}

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
