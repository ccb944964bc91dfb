//! Describes a group that neither runs nor waits for a CPU.

use noctule_model::{Asleep, AsleepThreads};

use crate::duration;

/// Explains why a group did nothing for a window, from the states of its threads, with advice.
/// `threads` must be sorted by the number of threads, largest first. The text is not escaped.
pub fn asleep(name: &str, window_ns: u64, threads: &[AsleepThreads]) -> String {
    let all: u32 = threads.iter().map(|it| it.threads).sum();
    let held = threads.iter().find(|it| it.kind.is_held());
    let most = held.or_else(|| threads.first());
    let state = match most.map(|it| it.kind) {
        Some(Asleep::Stopped) => "stopped",
        Some(Asleep::Traced) => "stopped by a tracer",
        Some(Asleep::Frozen) => "frozen",
        Some(Asleep::MemoryLimit) => "held by its memory limit",
        Some(Asleep::Uninterruptible) => "blocked in the kernel",
        Some(Asleep::FileLock) => "waits for a file lock",
        _ => "idle",
    };
    let parts: Vec<String> = threads.iter().map(part).collect();
    // A thread whose time is unknown did not run for at least the window.
    let still = threads.iter().map(|it| it.since_run_ns.unwrap_or(0)).min();
    let still = duration(still.unwrap_or(0).max(window_ns));
    let s = if all == 1 { "" } else { "s" };
    let mut words = format!(
        "{name}: {state}: none of its {all} thread{s} ran or waited for a CPU in the last {still}: {}",
        parts.join(", ")
    );
    if let Some(advice) = held.and_then(release) {
        words.push_str(&format!(". Try: {advice}"));
    }
    words
}

fn part(it: &AsleepThreads) -> String {
    let what = match it.kind {
        Asleep::Stopped => "stopped by a signal",
        Asleep::Traced => "stopped by a tracer",
        Asleep::Frozen => "frozen by the freezer of the cgroup",
        Asleep::MemoryLimit => "waiting for memory at the cgroup's limit (its OOM killer is off)",
        Asleep::Uninterruptible => "in an uninterruptible sleep",
        Asleep::FileLock => "waiting for a file lock",
        Asleep::Futex => "waiting for a lock or for work (futex)",
        Asleep::Requests => "waiting for requests",
        Asleep::Input => "waiting for input",
        Asleep::Child => "waiting for a child",
        Asleep::Timer => "sleeping until a timer expires",
        Asleep::Signal => "waiting for a signal",
        Asleep::Other => "asleep",
    };
    match &it.wchan {
        Some(wchan) => format!("{} {what} ({wchan})", it.threads),
        None => format!("{} {what}", it.threads),
    }
}

/// Describes how to let the threads continue.
pub(crate) fn release(it: &AsleepThreads) -> Option<String> {
    Some(match it.kind {
        Asleep::Stopped => format!("kill -CONT {}, unless the stop is intended", it.pid),
        Asleep::Traced => format!("end the tracer (TracerPid in /proc/{}/status)", it.pid),
        Asleep::Frozen => "thaw the cgroup (cgroup.freeze, or freezer.state of v1)".to_owned(),
        Asleep::MemoryLimit => {
            "raise its memory limit, end one of its processes, or set memory.oom_control to 0"
                .to_owned()
        }
        Asleep::Uninterruptible => {
            format!("cat /proc/{}/stack, and look at disks and mounts", it.pid)
        }
        Asleep::FileLock => "find the holder of the lock in /proc/locks".to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(kind: Asleep, threads: u32, wchan: &str) -> AsleepThreads {
        AsleepThreads {
            kind,
            threads,
            pid: 4711,
            wchan: Some(wchan.to_owned()),
            since_run_ns: None,
        }
    }

    #[test]
    fn held_threads_are_named_before_sleeping_ones() {
        let idle = [
            threads(Asleep::Requests, 2, "ep_poll"),
            threads(Asleep::Timer, 1, "hrtimer_nanosleep"),
        ];
        assert_eq!(
            asleep("a", 5_000_000_000, &idle),
            "a: idle: none of its 3 threads ran or waited for a CPU in the last 5.00s: 2 waiting for \
            requests (ep_poll), 1 sleeping until a timer expires (hrtimer_nanosleep)"
        );
        let held = [
            threads(Asleep::Futex, 7, "futex_do_wait"),
            threads(Asleep::MemoryLimit, 1, "mem_cgroup_oom_synchronize"),
        ];
        assert_eq!(
            asleep("a", 5_000_000_000, &held),
            "a: held by its memory limit: none of its 8 threads ran or waited for a CPU in the last \
            5.00s: 7 waiting for a lock or for work (futex) (futex_do_wait), 1 waiting for memory at the \
            cgroup's limit (its OOM killer is off) (mem_cgroup_oom_synchronize). Try: raise its \
            memory limit, end one of its processes, or set memory.oom_control to 0"
        );
        let stopped = AsleepThreads {
            wchan: None,
            since_run_ns: Some(7_500_000_000_000),
            ..threads(Asleep::Stopped, 1, "")
        };
        assert_eq!(
            asleep("a", 5_000_000_000, &[stopped]),
            "a: stopped: none of its 1 thread ran or waited for a CPU in the last 2h05m: 1 stopped by \
            a signal. Try: kill -CONT 4711, unless the stop is intended"
        );
    }
}
