//! The machine, which tests share: each says first whether it can run beside others.
//!
//! The locks are the kernel's (`flock`) and lie on folders that every machine has: tests of another
//! process, tree or user keep to them as well, and a test that is killed gives them back. A test takes
//! them before anything else, so that no limit of its own counts the time that it waits here.

use std::cell::Cell;
use std::env;
use std::fs::File;
use std::io::{Write as _, stdout};

use rustix::fs::{FlockOperation, flock};
use rustix::process::setpriority_process;

use super::oracle;

/// The folder that stands for the machine as a whole. Every user may open it; a file of our own
/// there could not be opened by another user (`fs.protected_regular`).
const WHOLE: &str = "/tmp";

/// Beside other loads the agent under test, and who looks at it, are to get most of a CPU: nine times
/// what each of the others gets. In a group of a test's own the weight of the group counts.
const NICE: i32 = -10;

/// What a test can have for itself while it shares the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// The last CPU, to which loads are pinned in groups of a weight against which the others do not
    /// count. Who has such a group on any CPU needs it, too: it would take the last one.
    LastCpu,
    /// Groups in places that are not a test's own (`/docker`, `/system.slice`), or thousands of them; the folders of
    /// container runtimes.
    Groups,
}

impl Part {
    /// Its name, and the folder that stands for it.
    fn place(self) -> (&'static str, &'static str) {
        match self {
            Self::LastCpu => ("last-cpu", "/sys/devices/system/cpu"),
            Self::Groups => ("groups", "/sys/fs/cgroup"),
        }
    }
}

/// The machine, or a share of it, until this is dropped.
#[must_use]
pub(crate) struct Machine {
    _locks: Vec<File>,
}

/// The machine for this test alone: it compares figures of the whole machine, changes it, or takes a
/// CPU from everybody by a real-time priority.
pub(crate) fn alone() -> Machine {
    declare("alone");
    take(&[(WHOLE, FlockOperation::LockExclusive)])
}

/// The machine beside other tests: this one asserts only what other loads do not change.
pub(crate) fn shared() -> Machine {
    shared_but(&[])
}

/// The same, with parts of it that no other test has at the same time.
pub(crate) fn shared_but(parts: &[Part]) -> Machine {
    let names = parts.iter().map(|part| format!(" {}", part.place().0));
    declare(&format!("shared{}", names.collect::<String>()));
    let parts = parts
        .iter()
        .map(|part| (part.place().1, FlockOperation::LockExclusive));
    let whole = (WHOLE, FlockOperation::LockShared);
    take(&[whole].into_iter().chain(parts).collect::<Vec<_>>())
}

/// Always in this order (the whole, the last CPU, the groups): nobody waits for one another.
fn take(locks: &[(&str, FlockOperation)]) -> Machine {
    let lock = |(folder, operation): &(&str, FlockOperation)| {
        let folder = File::open(folder).unwrap_or_else(|e| panic!("{folder}: {e}"));
        flock(&folder, *operation).expect("a lock on a folder");
        folder
    };
    let machine = Machine {
        _locks: locks.iter().map(lock).collect(),
    };
    // Inherited by what it starts.
    setpriority_process(None, NICE).expect("the tests of the binary need root");
    STOLEN_BEFORE.set(oracle::node_time().steal);
    machine
}

/// Tells `cargo xtask blackbox`, which asks each test before it runs it, and ends the process then.
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
    /// What the hypervisor had taken from the CPUs when the test began, in seconds.
    static STOLEN_BEFORE: Cell<f64> = const { Cell::new(0.0) };
}

/// Seconds that the hypervisor took from the CPUs since the test began, at most; asked by the test's own
/// thread. The kernel learns of it when the CPU is back: a thread that is told meanwhile is told too
/// long by as much, and that stays until it has caught up.
pub(crate) fn stolen() -> f64 {
    /// What `/proc/stat` counts in; the part of one that has begun is not in it.
    const TICK: f64 = 0.01;
    let told = oracle::node_time().steal - STOLEN_BEFORE.get();
    if told > 0.0 { told + TICK } else { 0.0 }
}
