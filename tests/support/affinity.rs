//! Which CPUs a thread may use.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The last CPU that the calling thread may use. Not by the standard library's count, which a quota
/// of the group makes smaller.
pub(crate) fn last_cpu() -> usize {
    let allowed = sched_getaffinity(None).expect("the CPUs of this process");
    let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    cpus.max().expect("one at least")
}

/// A thread, the calling one for `None`, stays on one CPU, and what it starts as well.
pub(crate) fn pin(thread: Option<Pid>, cpu: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    sched_setaffinity(thread, &cpus).expect("the CPU is online");
}

/// Does something on the other CPUs, and starts what it starts there. With only one CPU that is it.
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
