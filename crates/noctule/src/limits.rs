//! How many files may be open.
//!
//! Hardware counters take four for each CPU, and every program, link and map one. Services and shells
//! are given 1,024, with leave for many more: a program that does not use select(2) may take it.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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

fn set(limit: Rlimit) {
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "the limit of open files stays");
    }
}
