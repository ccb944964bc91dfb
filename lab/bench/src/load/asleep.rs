//! Sleeping threads, which an agent should not have to visit at each tick. The threads run until
//! the input closes.

use std::fs;
use std::io::{Write as _, stdout};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::population::wait_for_end;

/// Number of threads, if the machine has enough thread ids.
const MOST: u64 = 100_000;

/// Maximum number of threads in one process. Each thread needs four memory areas
/// (`vm.max_map_count`).
pub(crate) const OF_A_PROCESS: u64 = 15_000;

/// Stack size. Each thread touches only one or two pages.
const STACK: usize = 16 << 10;

/// Returns the number of threads on this machine: at most three quarters of its thread ids.
pub(crate) fn count() -> Result<u64> {
    let limit = |name: &str| -> Result<u64> {
        let path = format!("/proc/sys/kernel/{name}");
        let text = fs::read_to_string(&path).with_context(|| path.clone())?;
        text.trim().parse().context(path)
    };
    let limit = limit("pid_max")?.min(limit("threads-max")?);
    Ok(MOST.min(limit / 4 * 3))
}

/// Starts the threads, reports that they run, and waits until the input closes.
pub(super) fn run(threads: u64) -> Result<()> {
    for _ in 0..threads {
        let small = thread::Builder::new().stack_size(STACK);
        let started = small.spawn(|| {
            loop {
                thread::park();
            }
        });
        started.context("starting a thread that sleeps")?;
    }
    writeln!(stdout(), "ready").context("saying so")?;
    while !wait_for_end(Duration::from_secs(3600))? {}
    Ok(())
}
