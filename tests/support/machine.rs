//! The machine, which tests share. Each test first declares whether it can run together with
//! others.
//!
//! The locks are the kernel's (`flock`), on directories that exist on every machine. Tests of
//! another process, tree or user therefore respect them, and a killed test releases them. A test
//! takes them first, so that its own time limits do not include the wait.

use std::cell::Cell;
use std::env;
use std::fs::File;
use std::io::{Write as _, stdout};

use rustix::fs::{FlockOperation, flock};
use rustix::process::setpriority_process;

use super::oracle;

/// The directory that represents the whole machine. Every user may open it, unlike a file created
/// there by another user (`fs.protected_regular`).
const WHOLE: &str = "/tmp";

/// Nice value of the agent under test and of the test itself. On a busy machine they get most of a
/// CPU, nine times the share of each other process. In a test's own group, the weight of the group
/// applies instead.
const NICE: i32 = -10;

/// A part of the machine that a test can have for itself while it shares the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// The last CPU, to which loads are pinned in groups of maximum weight. A test with such a
    /// group on any CPU needs it too, because the group could take the last CPU.
    LastCpu,
    /// Groups in shared places (`/docker`, `/system.slice`), thousands of groups, or the
    /// directories of container runtimes.
    Groups,
}

impl Part {
    /// Returns its name and the directory that represents it.
    fn place(self) -> (&'static str, &'static str) {
        match self {
            Self::LastCpu => ("last-cpu", "/sys/devices/system/cpu"),
            Self::Groups => ("groups", "/sys/fs/cgroup"),
        }
    }
}

/// The machine, or a share of it, until dropped.
#[must_use]
pub(crate) struct Machine {
    _locks: Vec<File>,
}

/// Takes the machine for this test alone. The test compares figures of the whole machine, changes
/// it, or takes a CPU from everything else by a real-time priority.
pub(crate) fn alone() -> Machine {
    declare("alone");
    take(&[(WHOLE, FlockOperation::LockExclusive)])
}

/// Takes a share of the machine. The test asserts only what other loads do not change.
pub(crate) fn shared() -> Machine {
    shared_but(&[])
}

/// Like [`shared`], with parts that no other test has at the same time.
pub(crate) fn shared_but(parts: &[Part]) -> Machine {
    let names = parts.iter().map(|part| format!(" {}", part.place().0));
    declare(&format!("shared{}", names.collect::<String>()));
    let parts = parts
        .iter()
        .map(|part| (part.place().1, FlockOperation::LockExclusive));
    let whole = (WHOLE, FlockOperation::LockShared);
    take(&[whole].into_iter().chain(parts).collect::<Vec<_>>())
}

/// Takes the locks in this fixed order (the whole, the last CPU, the groups), which prevents
/// deadlocks.
fn take(locks: &[(&str, FlockOperation)]) -> Machine {
    let lock = |(folder, operation): &(&str, FlockOperation)| {
        let folder = File::open(folder).unwrap_or_else(|e| panic!("{folder}: {e}"));
        flock(&folder, *operation).expect("a lock on a folder");
        folder
    };
    let machine = Machine {
        _locks: locks.iter().map(lock).collect(),
    };
    // Child processes inherit the priority.
    setpriority_process(None, NICE).expect("the tests of the binary need root");
    STOLEN_BEFORE.set(oracle::node_time().steal);
    machine
}

/// Reports the needs to `cargo xtask blackbox`, which asks each test before it runs it, and then
/// ends the process.
#[allow(clippy::exit, reason = "nothing of the test is to run")]
fn declare(wants: &str) {
    if env::var_os("NOCTULE_ASK").is_some() {
        let mut out = stdout();
        writeln!(out, "machine: {wants}").expect("somebody asks");
        out.flush().expect("somebody asks");
        std::process::exit(0);
    }
}

thread_local! {
    /// Steal time of the CPUs when the test began, in seconds.
    static STOLEN_BEFORE: Cell<f64> = const { Cell::new(0.0) };
}

/// Returns the maximum steal time since the test began, in seconds. It must be called from the
/// test's own thread. The kernel learns of steal time only when the CPU is back. A thread's figure
/// read in the meantime is too large by that amount, until the kernel has caught up.
pub(crate) fn stolen() -> f64 {
    /// The unit of `/proc/stat`, which excludes a unit that has just begun.
    const TICK: f64 = 0.01;
    let told = oracle::node_time().steal - STOLEN_BEFORE.get();
    if told > 0.0 { told + TICK } else { 0.0 }
}
