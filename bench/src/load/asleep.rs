//! Threads that sleep: what an agent should not have to go through at each tick. They end with the
//! input.

use std::fs;
use std::io::{Write as _, stdout};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::population::wait_for_end;

/// So many where the machine has numbers for them.
const MOST: u64 = 100_000;

/// One process has memory areas (`vm.max_map_count`) for so many: four for each.
pub(crate) const OF_A_PROCESS: u64 = 15_000;

/// Each touches a page or two.
const STACK: usize = 16 << 10;

/// How many there are on this machine: three quarters of the numbers that it gives threads.
pub(crate) fn count() -> Result<u64> {
    let limit = |name: &str| -> Result<u64> {
        let path = format!("/proc/sys/kernel/{name}");
        let text = fs::read_to_string(&path).with_context(|| path.clone())?;
        text.trim().parse().context(path)
    };
    let limit = limit("pid_max")?.min(limit("threads-max")?);
    Ok(MOST.min(limit / 4 * 3))
}

/// Starts so many, says so, and waits for the end of the input.
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
