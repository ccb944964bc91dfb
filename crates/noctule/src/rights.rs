//! Capabilities of each thread. No capability is effective when it is not needed.
//!
//! CAP_DAC_READ_SEARCH can open every file. This capability must never be effective while a file
//! specified by the user is opened (`--config`, `-o`). Otherwise any user could read root's files
//! with a binary that has this capability through `setcap`. Root's capabilities are unchanged at
//! startup, because root can open the files without them.

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

/// Disables the capability to read everything until it is needed. Threads inherit this restriction.
/// If the call fails, no file specified by the user may be opened.
pub(crate) fn disable_read_capability() -> Result<()> {
    if geteuid().is_root() {
        return Ok(());
    }
    let held = capabilities(None).context("cannot read the capabilities of this process")?;
    if !held.effective.contains(READ) {
        return Ok(());
    }
    change(|sets| sets.effective -= READ)
        .context("cannot drop CAP_DAC_READ_SEARCH before opening files named by the user")
}

/// While this value exists, this thread and threads that it starts may read paths chosen by the
/// agent: tracefs, sysfs and files of container runtimes.
pub(crate) struct Reading {
    before: Option<CapabilitySets>,
    /// Capabilities belong to a thread, so the value must be dropped on the thread that created it.
    _here: PhantomData<*const ()>,
}

impl Reading {
    pub(crate) fn begin() -> Self {
        let before = capabilities(None).ok();
        if before.is_some() {
            // If this fails, files that cannot be read are reported later.
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
            report_failed_step("capset", done.err(), KEEPS);
        }
    }
}

/// Restricts the thread that looks up names, which only reads files of container runtimes.
pub(crate) fn read_only() {
    keep(READ);
}

/// Restricts a thread that writes files. Writing into a directory of another user requires
/// CAP_DAC_OVERRIDE.
pub(crate) fn write_only() {
    keep(CapabilitySet::DAC_OVERRIDE);
}

/// Drops all capabilities of this thread.
pub(crate) fn none() {
    keep(CapabilitySet::empty());
}

/// Restricts the thread that handles requests of clients, which needs no capabilities and no files.
pub(crate) fn only_answer() {
    none();
    for Unconfined { step, error } in noctule_kernel::only_answer() {
        report_failed_step(
            step,
            Some(error),
            "the thread can open files and start programs",
        );
    }
}

/// Makes only these capabilities effective, until the next call.
pub(crate) fn restrict_effective_capabilities(kept: CapabilitySet) {
    let done = change(|sets| sets.effective = sets.permitted & kept);
    report_failed_step("capset", done.err(), KEEPS);
}

/// Permanently drops all other capabilities and the ability to start programs.
pub(crate) fn keep(kept: CapabilitySet) {
    for Unconfined { step, error } in noctule_kernel::no_programs() {
        report_failed_step(step, Some(error), "the thread can start programs");
    }
    let done = change(|sets| {
        let kept = sets.permitted & kept;
        *sets = CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        };
    });
    report_failed_step("capset", done.err(), KEEPS);
}

fn change(by: impl FnOnce(&mut CapabilitySets)) -> SystemResult<()> {
    let mut sets = capabilities(None)?;
    by(&mut sets);
    set_capabilities(None, sets)
}

/// The consequence of a failed capset.
const KEEPS: &str = "the thread keeps capabilities that it does not need";

/// Steps that failed, each with thread, step, error and consequence, without duplicates.
static KEPT: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Records a failed step and warns. noctule still works, but an attacker who controls the thread
/// could do more.
fn report_failed_step(step: &str, error: Option<impl Display>, meaning: &str) {
    let Some(error) = error else { return };
    let thread = thread::current();
    let name = thread.name().unwrap_or("a thread");
    let words = format!("{name}: {step}: {error}: {meaning}");
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if !kept.contains(&words) {
        tracing::warn!("{words}; everything else works");
        kept.push(words);
    }
}

/// Returns the feature status if threads of this process could not drop their capabilities.
pub(crate) fn retained_privileges() -> Option<Feature> {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    (!kept.is_empty()).then(|| {
        let reason = format!("threads could not drop privileges: {}", kept.join("; "));
        Feature::degraded(FeatureId::Sandbox, reason).with_fix(
            "let the container's or service's seccomp filter and the security module allow capset, \
             prctl, seccomp, landlock_create_ruleset and landlock_restrict_self",
        )
    })
}
