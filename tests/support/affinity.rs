//! CPU affinity of threads.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the last CPU that the calling thread may use. The standard library's count is
/// unsuitable, because a quota of the group reduces that count.
pub(crate) fn last_cpu() -> usize {
    let allowed = sched_getaffinity(None).expect("the CPUs of this process");
    let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    cpus.max().expect("one at least")
}

/// Pins a thread (the calling one for `None`) and its future children to one CPU.
pub(crate) fn pin(thread: Option<Pid>, cpu: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    sched_setaffinity(thread, &cpus).expect("the CPU is online");
}

/// Runs an action on the other CPUs, so that its children start there. On a machine with only one
/// CPU, uses that CPU.
pub(crate) fn without_cpu<T>(cpu: usize, action: impl FnOnce() -> T) -> T {
    let all = sched_getaffinity(None).expect("the CPUs of this process");
    let mut others = all;
    others.unset(cpu);
    if others.count() > 0 {
        sched_setaffinity(None, &others).expect("they are online");
    }
    let result = action();
    sched_setaffinity(None, &all).expect("they are online");
    result
}
