//! The limit of open files.
//!
//! Hardware counters need four descriptors per CPU, and every program, link and map needs one.
//! Services and shells usually have a soft limit of 1,024 and a much higher hard limit. A program
//! that does not use select(2) may raise the soft limit.

use std::path::Path;
use std::sync::OnceLock;

use anyhow::Result;

use noctule_kernel::descriptors_left;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::exit::Explained;

/// Number of descriptors reserved for the work of each tick, which opens files of the kernel, of
/// container runtimes and of the agent.
const RESERVED: u64 = 64;

/// Minimum number of connections. With fewer, a web page and a scraper would displace each other's
/// connections.
const LEAST_CONNECTIONS: usize = 8;

/// The limit at startup.
static STARTED: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit to the hard limit. Called once at startup.
pub(crate) fn raise() {
    let started = STARTED.get_or_init(|| getrlimit(Resource::Nofile));
    set(Rlimit {
        current: started.maximum,
        maximum: started.maximum,
    });
}

/// Calls `act` with the limit that applied at startup, which a command of the user then inherits.
pub(crate) fn as_started<T>(act: impl FnOnce() -> T) -> T {
    let Some(&started) = STARTED.get() else {
        return act();
    };
    set(started);
    let done = act();
    raise();
    done
}

/// Returns the number of connections that the HTTP server may have after everything is loaded.
/// Clients must not use up the descriptors that a tick needs.
///
/// # Errors
///
/// Fails if the limit of open files is too low.
pub(crate) fn connections() -> Result<usize> {
    // Without procfs, the number of open descriptors is unknown.
    if !Path::new("/proc/self/fd").exists() {
        return Ok(usize::MAX);
    }
    let left = descriptors_left();
    let connections = usize::try_from(left.saturating_sub(RESERVED)).unwrap_or(usize::MAX);
    if connections < LEAST_CONNECTIONS {
        let missing = RESERVED + LEAST_CONNECTIONS as u64 - left;
        return Err(Explained {
            text: format!(
                "the open file limit is too low: raise it by at least {missing} (LimitNOFILE= in \
                 the unit, or ulimit -n)"
            ),
            not_allowed: true,
        }
        .into());
    }
    Ok(connections)
}

fn set(limit: Rlimit) {
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "cannot raise the open file limit");
    }
}
