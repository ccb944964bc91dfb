//! How many files may be open.
//!
//! Hardware counters take four for each CPU, and every program, link and map one. Services and shells
//! are given 1,024, with leave for many more: a program that does not use select(2) may take it.

use std::path::Path;
use std::sync::OnceLock;

use anyhow::Result;

use noctule_kernel::descriptors_left;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::exit::Explained;

/// Descriptors that connections leave to the work of each tick: files of the kernel, of runtimes and of the agent.
const RESERVED: u64 = 64;

/// With fewer connections a page and a scraper would close each other's.
const LEAST_CONNECTIONS: usize = 8;

/// What the process was started with.
static STARTED: OnceLock<Rlimit> = OnceLock::new();

/// Takes what is allowed; once, at the start.
pub(crate) fn raise() {
    let started = STARTED.get_or_init(|| getrlimit(Resource::Nofile));
    set(Rlimit {
        current: started.maximum,
        maximum: started.maximum,
    });
}

/// Does it with the limit as it was at the start: what a command of the user inherits.
pub(crate) fn as_started<T>(act: impl FnOnce() -> T) -> T {
    let Some(&started) = STARTED.get() else {
        return act();
    };
    set(started);
    let done = act();
    raise();
    done
}

/// How many connections the HTTP server may have when everything is loaded: no client takes a descriptor that a tick
/// needs.
///
/// # Errors
///
/// Too few files may be open.
pub(crate) fn connections() -> Result<usize> {
    // Without procfs it is not known how many are open.
    if !Path::new("/proc/self/fd").exists() {
        return Ok(usize::MAX);
    }
    let left = descriptors_left();
    let connections = usize::try_from(left.saturating_sub(RESERVED)).unwrap_or(usize::MAX);
    if connections < LEAST_CONNECTIONS {
        let missing = RESERVED + LEAST_CONNECTIONS as u64 - left;
        return Err(Explained {
            text: format!(
                "too few files may be open: raise the limit by {missing} or more (LimitNOFILE= in the unit, ulimit -n)"
            ),
            not_allowed: true,
        }
        .into());
    }
    Ok(connections)
}

fn set(limit: Rlimit) {
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "the limit of open files stays");
    }
}
