//! The capabilities of each thread: none is effective where it is not needed.
//!
//! CAP_DAC_READ_SEARCH opens every file. So it must never be effective while a file is opened that the
//! user names (`--config`, `-o`): with a binary that has it by `setcap`, anybody could read root's files.
//! Root is left alone at the start: the files are its own without any capability.

use std::marker::PhantomData;

use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

const READ: CapabilitySet = CapabilitySet::DAC_READ_SEARCH;

/// Takes the right to read everything back, until it is asked for. Threads inherit that.
pub(crate) fn hold_back() {
    if !geteuid().is_root() {
        change(|sets| sets.effective -= READ);
    }
}

/// While it lives, this thread and those that it starts may read what the agent itself names: tracefs,
/// sysfs and files of container runtimes.
pub(crate) struct Reading {
    before: Option<CapabilitySets>,
    /// Capabilities are a thread's own: it must be dropped where it was made.
    _here: PhantomData<*const ()>,
}

impl Reading {
    pub(crate) fn begin() -> Self {
        let before = capabilities(None).ok();
        change(|sets| sets.effective |= sets.permitted & READ);
        Self {
            before,
            _here: PhantomData,
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            change(|sets| sets.effective = before.effective & sets.permitted);
        }
    }
}

/// The thread for names reads files of runtimes and nothing else.
pub(crate) fn read_only() {
    keep(READ);
}

/// This thread needs none.
pub(crate) fn none() {
    keep(CapabilitySet::empty());
}

/// The thread that answers clients needs none, and no file.
pub(crate) fn only_answer() {
    none();
    if let Err(error) = noctule_kernel::only_answer() {
        tracing::debug!(%error, "this kernel confines the thread that answers in part");
    }
}

/// Makes these effective and no other, until it is called again.
pub(crate) fn hold_back_all_but(kept: CapabilitySet) {
    change(|sets| sets.effective = sets.permitted & kept);
}

/// Gives up all but these, for good, and the right to start programs.
pub(crate) fn keep(kept: CapabilitySet) {
    if let Err(error) = noctule_kernel::no_programs() {
        tracing::debug!(%error, "this thread may start programs");
    }
    change(|sets| {
        let kept = sets.permitted & kept;
        *sets = CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        };
    });
}

fn change(by: impl FnOnce(&mut CapabilitySets)) {
    let changed = capabilities(None).and_then(|mut sets| {
        by(&mut sets);
        set_capabilities(None, sets)
    });
    if let Err(error) = changed {
        tracing::debug!(%error, "the capabilities of this thread stay");
    }
}
