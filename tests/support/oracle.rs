//! The kernel's own figures.

use std::fs;

/// CPU time of a process in seconds: the sum of field 1 of its threads' schedstat. The kernel brings
/// the figure of a running thread up to date at its scheduler tick (4 ms at 250 Hz).
pub(crate) fn schedstat_seconds(pid: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process is there");
    let nanoseconds = tasks.flatten().filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    nanoseconds.sum::<u64>() as f64 / 1e9
}

/// Seconds that all CPUs had since boot, idle included, as `/proc/uptime` counts them.
pub(crate) fn cpus_online() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
