//! Tests of CPU time and related counters against the kernel's own figures.
//!
//! CPU time of a process or a group may differ by at most 0.1 %, or 1 ms. For an exact comparison,
//! a load is stopped and its total since its start is compared. Otherwise the load is observed
//! while it runs, and the figure must lie between its use just before and just after the batch.

use std::io::Write as _;

use super::support;
use super::support::agent::Agent;

mod clock;
mod counts;
mod hidden;
mod lives;
mod moves;
mod packages;
mod running;
mod short;
mod sums;
mod tables;
mod totals;

/// Fails unless two CPU times in seconds agree within the limit, allowing for steal time.
#[track_caller]
fn assert_exact(what: &str, actual: f64, expected: f64) {
    support::assert_close(what, actual, expected, 0.001, 0.001 + support::stolen());
}

/// Starts an agent that collects in each interval, and lists every process and group, even if the
/// machine starts thousands of others.
fn agent(interval_seconds: f64) -> Agent {
    let mut config = tempfile::NamedTempFile::new().expect("a file of our own");
    let text = format!(
        "[collect]\ninterval_seconds = {interval_seconds:?}\n\
         unwatched_interval_seconds = {interval_seconds:?}\n\
         [metrics]\nprocesses = true\nprocess_rows = 1000000\nshort_seconds = 0.0\n"
    );
    config
        .write_all(text.as_bytes())
        .expect("it can be written");
    let path = config.path().to_str().expect("in UTF-8");
    Agent::start(&["--config", path])
}
