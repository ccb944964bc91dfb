//! Features of the scheduler.

use std::path::Path;
use std::process::Command;

use super::slowness;

/// From 6.12 on a thread that goes to sleep can stay in its queue for a while, and when it is moved
/// then, the kernel counts the rest of its sleep as waiting. Where an emulated processor is slow that
/// is percents of what a load waits, and `schedstat` tells nothing.
const DELAYED: &str = "DELAY_DEQUEUE";

/// Who sleeps leaves its queue at once, until this is dropped; where the machine is slow, which is
/// then the test's alone.
pub(crate) struct ExactNotes {
    changed: bool,
}

impl ExactNotes {
    pub(crate) fn new() -> Self {
        Self {
            changed: slowness() > 1.0 && set(&format!("NO_{DELAYED}")),
        }
    }
}

impl Drop for ExactNotes {
    fn drop(&mut self) {
        if self.changed {
            set(DELAYED);
        }
    }
}

/// Whether the kernel has the feature, and it is switched now.
fn set(to: &str) -> bool {
    let folder = tempfile::tempdir().expect("a folder of our own");
    let run = |program: &str, args: &[&str]| {
        let status = Command::new(program).args(args).status();
        assert!(status.expect(program).success(), "{program} {args:?}");
    };
    let path = folder.path().to_str().expect("in UTF-8");
    run("mount", &["-t", "debugfs", "noctule-test", path]);
    let written = write(folder.path(), to);
    run("umount", &[path]);
    written
}

fn write(debugfs: &Path, to: &str) -> bool {
    let file = debugfs.join("sched/features");
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    if !known.contains(DELAYED) {
        return false;
    }
    std::fs::write(&file, to).expect("a feature that the kernel lists");
    true
}
