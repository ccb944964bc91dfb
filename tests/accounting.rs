//! CPU time and what is counted with it, against the kernel's own figures.
//!
//! The bar for CPU time of a process or a group is 0.1 %, or 1 ms. To compare exactly, a load is
//! stopped and its total since its start is compared, or it is watched while it runs and the
//! figures must lie between what it had used just before and just after they were taken.

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

/// Fails unless two figures of CPU time in seconds agree within the bar, and what the host took.
#[track_caller]
fn assert_exact(what: &str, actual: f64, expected: f64) {
    support::assert_close(what, actual, expected, 0.001, 0.001 + support::stolen());
}

/// An agent that lists every process, also when the machine starts thousands beside the test's.
fn agent(interval: &str) -> Agent {
    let mut config = tempfile::NamedTempFile::new().expect("a file of our own");
    let text = b"[metrics]\nprocesses = true\nprocess_rows = 1000000\n";
    config.write_all(text).expect("it can be written");
    let path = config.path().to_str().expect("in UTF-8");
    Agent::start(&["--config", path, "--interval", interval])
}
