//! Processes that live for a moment: fork, exec, exit, wait. It shows what the hooks on birth and
//! death cost.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, ensure};

use super::{Outcome, own_cpu_ns};

/// `USER_HZ`: the unit of times in /proc/PID/stat, the same on every architecture that we build for.
const TICK_NS: u64 = 10_000_000;

pub(super) fn run(processes: u64) -> Result<Outcome> {
    let workers = thread::available_parallelism().map_or(1, usize::from) as u64;
    let each = processes.div_ceil(workers);
    let cpu = || Ok::<_, anyhow::Error>(own_cpu_ns() + children_ns()?);
    let cpu_before = cpu()?;
    let began = Instant::now();
    let work = || (0..each).try_for_each(|_| one());
    thread::scope(|scope| {
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        handles
            .into_iter()
            .try_for_each(|h| h.join().map_err(|_| anyhow!("a worker panicked"))?)
    })?;
    Ok(Outcome {
        operations: each * workers,
        elapsed_ns: began.elapsed().as_nanos() as u64,
        cpu_ns: cpu()? - cpu_before,
        switches: None,
    })
}

fn one() -> Result<()> {
    let mut command = Command::new("/bin/true");
    command.stdin(Stdio::null());
    let status = command.status().context("/bin/true")?;
    ensure!(status.success(), "/bin/true: {status}");
    Ok(())
}

/// CPU time of children that were waited for.
fn children_ns() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/stat").context("/proc/self/stat")?;
    // The command's name may contain anything but ends with the last parenthesis.
    let (_, fields) = text.rsplit_once(')').context("/proc/self/stat")?;
    let fields = fields.split_whitespace().skip(13).take(2);
    let ticks: Vec<u64> = fields.filter_map(|f| f.parse().ok()).collect();
    ensure!(ticks.len() == 2, "/proc/self/stat has no cutime");
    Ok((ticks[0] + ticks[1]) * TICK_NS)
}
