//! The capabilities of each thread: none is effective where it is not needed.
//!
//! CAP_DAC_READ_SEARCH opens every file. So it must never be effective while a file is opened that the
//! user names (`--config`, `-o`): with a binary that has it by `setcap`, anybody could read root's files.
//! Root is left alone at the start: the files are its own without any capability.

use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result};
use noctule_kernel::Unconfined;
use noctule_model::{Feature, FeatureId};
use rustix::io::Result as SystemResult;
use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

const READ: CapabilitySet = CapabilitySet::DAC_READ_SEARCH;

/// Takes the right to read everything back, until it is asked for. Threads inherit that. Fails where it would
/// stay: nothing that the user names may be opened then.
pub(crate) fn hold_back() -> Result<()> {
    if geteuid().is_root() {
        return Ok(());
    }
    let held = capabilities(None).context("asking for the capabilities of this process")?;
    if !held.effective.contains(READ) {
        return Ok(());
    }
    change(|sets| sets.effective -= READ)
        .context("holding CAP_DAC_READ_SEARCH back while files are opened that the user names")
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
        if before.is_some() {
            // Without it what it cannot read is named where it is missed.
            let _ = change(|sets| sets.effective |= sets.permitted & READ);
        }
        Self {
            before,
            _here: PhantomData,
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            let done = change(|sets| sets.effective = before.effective & sets.permitted);
            said("capset", done.err(), KEEPS);
        }
    }
}

/// The thread for names reads files of runtimes and nothing else.
pub(crate) fn read_only() {
    keep(READ);
}

/// A thread that writes files: a folder of another user needs root's right to write to it.
pub(crate) fn write_only() {
    keep(CapabilitySet::DAC_OVERRIDE);
}

/// This thread needs none.
pub(crate) fn none() {
    keep(CapabilitySet::empty());
}

/// The thread that answers clients needs none, and no file.
pub(crate) fn only_answer() {
    none();
    for Unconfined { step, error } in noctule_kernel::only_answer() {
        said(step, Some(error), "it can open files and start programs");
    }
}

/// Makes these effective and no other, until it is called again.
pub(crate) fn hold_back_all_but(kept: CapabilitySet) {
    let done = change(|sets| sets.effective = sets.permitted & kept);
    said("capset", done.err(), KEEPS);
}

/// Gives up all but these, for good, and the right to start programs.
pub(crate) fn keep(kept: CapabilitySet) {
    for Unconfined { step, error } in noctule_kernel::no_programs() {
        said(step, Some(error), "it can start programs");
    }
    let done = change(|sets| {
        let kept = sets.permitted & kept;
        *sets = CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        };
    });
    said("capset", done.err(), KEEPS);
}

fn change(by: impl FnOnce(&mut CapabilitySets)) -> SystemResult<()> {
    let mut sets = capabilities(None)?;
    by(&mut sets);
    set_capabilities(None, sets)
}

/// What a failure of capset means.
const KEEPS: &str = "it keeps capabilities that it does not need";

/// What was to be given up and was not: thread, step, error and what it means, each once.
static KEPT: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Takes note of a step that failed, and warns: noctule works, but whoever took over this thread could do more.
fn said(step: &str, error: Option<impl Display>, meaning: &str) {
    let Some(error) = error else { return };
    let thread = thread::current();
    let name = thread.name().unwrap_or("a thread");
    let words = format!("{name}: {step}: {error}: {meaning}");
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if !kept.contains(&words) {
        tracing::warn!("{words}; all else works");
        kept.push(words);
    }
}

/// The status where threads of this process could not give up what they do not need.
pub(crate) fn not_given_up() -> Option<Feature> {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    (!kept.is_empty()).then(|| {
        let reason = format!("rights that threads could not give up: {}", kept.join("; "));
        Feature::degraded(FeatureId::Sandbox, reason).mended_by(
            "let the container's or service's seccomp filter and the security module allow capset, \
             prctl, seccomp, landlock_create_ruleset and landlock_restrict_self",
        )
    })
}
