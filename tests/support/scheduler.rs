//! Scheduler features of the kernel.

use std::path::Path;
use std::process::Command;

use super::slowness;

/// Since 6.12 a thread that falls asleep can stay in its queue for a while. If it is moved during
/// that time, the kernel counts the rest of its sleep as waiting. On a slow, emulated processor
/// that adds several percent to the waits of a load, and `schedstat` does not show how much.
const DELAYED: &str = "DELAY_DEQUEUE";

/// Makes sleeping threads leave their queue immediately, until dropped. Has an effect only on a
/// slow machine, where no other test runs at the same time.
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

/// Switches the feature, and returns whether the kernel has it.
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
