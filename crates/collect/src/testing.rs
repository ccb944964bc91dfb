//! Simulates the kernel's files in tests.

use std::fs;
use std::sync::Arc;

use noctule_kernel::{RawEvent, RawProcess};
use noctule_model::{Batch, CgroupId, CgroupRow, Comm, Counter, FilePath, Owner, ProcessId, What};
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

pub(crate) fn process(pid: u32, start_ns: u64) -> RawProcess {
    RawProcess {
        id: ProcessId { pid, start_ns },
        cgroup: CgroupId(1),
        comm: Comm::new(b"some"),
        thread: None,
    }
}

pub(crate) fn event(process: RawProcess, what: What) -> RawEvent {
    RawEvent {
        time_ns: 1,
        process: Some(process),
        what,
    }
}

pub(crate) fn start(process: RawProcess) -> RawEvent {
    let what = What::ProcessStart {
        parent_pid: 1,
        parent: None,
    };
    event(process, what)
}

pub(crate) fn exec(process: RawProcess) -> RawEvent {
    let what = What::ProcessExec {
        path: FilePath::default(),
        args: Vec::new(),
        args_truncated: false,
        uid: 0,
        context: Box::default(),
    };
    event(process, what)
}
