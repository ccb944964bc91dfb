//! The result of running a load, and the resources that the load used.

use std::fs;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};
use serde_json::{Value, json};

/// `USER_HZ`: the unit of times in /proc/PID/stat, equal on all supported architectures.
const TICK_NS: u64 = 10_000_000;

/// The outcome of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) operations: u64,
    pub(crate) elapsed_ns: u64,
    /// CPU time of all processes of the load. Unlike elapsed time, it excludes what other processes
    /// took.
    pub(crate) cpu_ns: u64,
    /// Context switches of the load's own threads, if known.
    pub(crate) switches: Option<u64>,
    /// The load's process, which identifies the load's events.
    pub(crate) pid: u32,
}

impl Outcome {
    pub(super) fn to_json(self) -> Value {
        json!({
            "operations": self.operations,
            "elapsed_ns": self.elapsed_ns,
            "cpu_ns": self.cpu_ns,
            "switches": self.switches,
        })
    }

    pub(super) fn from_json(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text)?;
        let number = |name: &str| {
            value[name]
                .as_u64()
                .with_context(|| format!("{name} is missing"))
        };
        Ok(Self {
            operations: number("operations")?,
            elapsed_ns: number("elapsed_ns")?,
            cpu_ns: number("cpu_ns")?,
            switches: value["switches"].as_u64(),
            pid: 0,
        })
    }

    /// Divides a time by the number of operations, in nanoseconds.
    pub(crate) fn per_operation(&self, ns: u64) -> f64 {
        ns as f64 / self.operations.max(1) as f64
    }
}

/// Returns the CPU time of all threads of this process, including ended ones.
pub(super) fn own_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns user and system time of children that this process waited for.
pub(super) fn children_ns() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/stat").context("/proc/self/stat")?;
    // The command name may contain any characters, but ends with the last parenthesis.
    let (_, fields) = text.rsplit_once(')').context("/proc/self/stat")?;
    let fields = fields.split_whitespace().skip(13).take(2);
    let ticks: u64 = fields.filter_map(|f| f.parse::<u64>().ok()).sum();
    Ok(ticks * TICK_NS)
}

/// Runs `one` for each operation, on a worker thread per CPU. The argument is the worker's number.
pub(super) fn on_each_cpu<T>(
    operations: u64,
    cpu_ns: impl Fn() -> Result<u64>,
    one: impl Fn(u64) -> Result<T> + Sync,
) -> Result<Outcome> {
    let workers = thread::available_parallelism().map_or(1, usize::from) as u64;
    let each = operations.div_ceil(workers);
    let cpu_before = cpu_ns()?;
    let began = Instant::now();
    let work = |worker| (0..each).try_for_each(|_| one(worker).map(drop));
    let work = &work;
    thread::scope(|scope| {
        let handles: Vec<_> = (0..workers).map(|w| scope.spawn(move || work(w))).collect();
        handles
            .into_iter()
            .try_for_each(|h| h.join().map_err(|_| anyhow!("a worker panicked"))?)
    })?;
    Ok(Outcome {
        operations: each * workers,
        elapsed_ns: began.elapsed().as_nanos() as u64,
        cpu_ns: cpu_ns()? - cpu_before,
        ..Outcome::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_round_trips_through_json() {
        let outcome = Outcome {
            operations: 4,
            elapsed_ns: 10,
            cpu_ns: 8,
            switches: None,
            pid: 0,
        };
        let text = outcome.to_json().to_string();
        assert_eq!(Outcome::from_json(&text).expect("as written"), outcome);
        assert!(Outcome::from_json("{}").is_err());
        assert_eq!(outcome.per_operation(outcome.elapsed_ns), 2.5);
    }
}
