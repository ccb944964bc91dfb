//! Scheduler features of the kernel.

use std::path::Path;
use std::process::Command;

use super::slowness;

/// Since 6.12 a thread that falls asleep can stay in its queue for a while. If it is moved then,
/// the kernel counts the rest of its sleep as waiting. On a slow, emulated processor that is
/// several percent of a load's waits, and `schedstat` does not show it.
const DELAYED: &str = "DELAY_DEQUEUE";

/// Makes sleeping threads leave their queue immediately, until dropped. It only does so on a slow
/// machine, which the test then has for itself.
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

/// Returns whether the kernel has the feature, after switching it.
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
