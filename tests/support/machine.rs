//! The machine, which tests share. Each test first declares whether it can run together with
//! others.
//!
//! The locks are the kernel's (`flock`), on directories that exist on every machine. Tests of
//! another process, source tree or user therefore respect them, and the kernel releases the locks
//! of a killed test. A test takes the locks before anything else, so that its own time limits do
//! not include the wait for them.

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

/// Nice value of the agent under test and of the test itself. On a busy machine each of them gets
/// most of a CPU, nine times the share of any other process. In a test's own group, the weight of
/// the group applies instead.
const NICE: i32 = -10;

/// Something that a test can reserve for itself while it shares the rest of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// The last CPU, to which loads are pinned in groups of maximum weight. A test with such a
    /// group on any CPU also needs it, because the group could take the last CPU.
    LastCpu,
    /// Groups in shared directories (`/docker`, `/system.slice`), thousands of groups, or the
    /// directories of container runtimes.
    Groups,
}

impl Part {
    /// Returns the name of the part and the directory that represents it.
    fn place(self) -> (&'static str, &'static str) {
        match self {
            Self::LastCpu => ("last-cpu", "/sys/devices/system/cpu"),
            Self::Groups => ("groups", "/sys/fs/cgroup"),
        }
    }
}

/// A reservation of the machine, exclusive or shared, which is released when dropped.
#[must_use]
pub(crate) struct Machine {
    _locks: Vec<File>,
}

/// Reserves the machine for this test. Such a test compares figures of the whole machine, changes
/// the machine, or takes a CPU from everything else through a real-time priority.
pub(crate) fn alone() -> Machine {
    declare("alone");
    take(&[(WHOLE, FlockOperation::LockExclusive)])
}

/// Takes a share of the machine. Such a test asserts only what other loads do not change.
pub(crate) fn shared() -> Machine {
    shared_but(&[])
}

/// Like [`shared`], but no other test uses the given parts at the same time.
pub(crate) fn shared_but(parts: &[Part]) -> Machine {
    let names = parts.iter().map(|part| format!(" {}", part.place().0));
    declare(&format!("shared{}", names.collect::<String>()));
    let parts = parts
        .iter()
        .map(|part| (part.place().1, FlockOperation::LockExclusive));
    let whole = (WHOLE, FlockOperation::LockShared);
    take(&[whole].into_iter().chain(parts).collect::<Vec<_>>())
}

/// Takes the locks in this fixed order (the whole machine, the last CPU, the groups), which
/// prevents deadlocks.
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

/// Reports what the test needs to `cargo xtask blackbox`, and ends the process. The runner asks
/// each test before it runs the test.
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

/// Returns the maximum steal time since the test began, in seconds. The test's own thread must call
/// this. The kernel learns of steal time only when the CPU runs again. Until then, a thread's
/// figure is too large by the steal time.
pub(crate) fn stolen() -> f64 {
    /// The unit of `/proc/stat`, which does not contain the unit in progress.
    const TICK: f64 = 0.01;
    let told = oracle::node_time().steal - STOLEN_BEFORE.get();
    if told > 0.0 { told + TICK } else { 0.0 }
}
