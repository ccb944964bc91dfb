//! Threads that neither run nor wait for a CPU, and the events that they wait for.

use crate::named::named_values;

named_values! {
    /// The state of a thread that neither runs nor waits for a CPU.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Asleep {
        /// Stopped by a signal (SIGSTOP, SIGTSTP).
        Stopped: "stopped",
        /// Stopped by a tracer.
        Traced: "traced",
        /// Frozen by the freezer of its cgroup.
        Frozen: "frozen",
        /// Waiting for memory: its cgroup reached its memory limit, and the cgroup's OOM killer is
        /// off.
        MemoryLimit: "memory_limit",
        /// In an uninterruptible sleep, mostly because of a disk, a file system or a driver.
        Uninterruptible: "uninterruptible",
        /// Waiting for a file lock.
        FileLock: "file_lock",
        /// Waiting for a futex: a lock, a condition, or work for a thread pool.
        Futex: "futex",
        /// Waiting for a request or for one of many files (epoll, poll, select, accept).
        Requests: "requests",
        /// Waiting for bytes from a pipe, a socket or a terminal.
        Input: "input",
        /// Waiting for a child process to exit.
        Child: "child",
        /// Sleeping until a timer expires.
        Timer: "timer",
        /// Waiting for a signal.
        Signal: "signal",
        /// Sleeping in another function, or the kernel does not report which.
        Other: "other",
    }
}

impl Asleep {
    /// Returns the state, given the letter in `/proc/PID/stat` and the kernel function in which the
    /// thread sleeps. Returns `None` for a thread that runs or has ended.
    pub fn new(state: char, wchan: &str) -> Option<Self> {
        let is_in = |begins: &[&str]| begins.iter().any(|begin| wchan.starts_with(begin));
        Some(match state {
            'T' => Self::Stopped,
            't' => Self::Traced,
            'S' | 'D' | 'I' | 'K' | 'P' => match () {
                () if is_in(&["__refrigerator", "do_freezer_trap"]) => Self::Frozen,
                () if is_in(&["mem_cgroup_oom_synchronize"]) => Self::MemoryLimit,
                // The parent of a vfork sleeps uninterruptibly.
                () if is_in(&["kernel_clone", "wait_for_vfork_done", "_do_fork"]) => Self::Child,
                () => match (state, Self::interruptible(wchan)) {
                    ('S', kind) => kind,
                    // From Linux 6.1 on (f5d39b020809), the freezer of cgroup v1 leaves a thread in
                    // its interruptible sleep, and /proc shows the thread as uninterruptible.
                    ('D', kind) if kind != Self::Other => Self::Frozen,
                    _ => Self::Uninterruptible,
                },
            },
            _ => return None,
        })
    }

    /// Returns the kind of an interruptible sleep in this kernel function.
    fn interruptible(wchan: &str) -> Self {
        let is_in = |begins: &[&str]| begins.iter().any(|begin| wchan.starts_with(begin));
        match () {
            () if is_in(&[
                "locks_lock_inode_wait",
                "flock_lock",
                "posix_lock",
                "fcntl_setlk",
            ]) =>
            {
                Self::FileLock
            }
            () if is_in(&["futex_"]) => Self::Futex,
            () if is_in(&[
                "ep_poll",
                "do_epoll_wait",
                "poll_schedule_timeout",
                "do_sys_poll",
                "do_select",
                "do_poll",
                "io_cqring_wait",
                "read_events",
                "inet_csk_accept",
            ]) =>
            {
                Self::Requests
            }
            () if is_in(&[
                "pipe_read",
                "anon_pipe_read",
                "unix_stream",
                "__skb_wait",
                "sk_wait_data",
                "wait_woken",
                "n_tty_read",
                "inotify_read",
                "eventfd_read",
            ]) =>
            {
                Self::Input
            }
            () if is_in(&["do_wait", "kernel_wait4", "kernel_waitid"]) => Self::Child,
            () if is_in(&["hrtimer_nanosleep", "do_nanosleep", "common_nsleep"]) => Self::Timer,
            () if is_in(&[
                "do_sigtimedwait",
                "sigsuspend",
                "do_pause",
                "__do_sys_pause",
            ]) =>
            {
                Self::Signal
            }
            () => Self::Other,
        }
    }

    /// Returns whether the thread waits for something outside the process and its clients.
    pub const fn is_held(self) -> bool {
        matches!(
            self,
            Self::Stopped
                | Self::Traced
                | Self::Frozen
                | Self::MemoryLimit
                | Self::Uninterruptible
                | Self::FileLock
        )
    }
}

/// Threads of a group in the same state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsleepThreads {
    /// The state.
    pub kind: Asleep,
    /// Number of threads.
    pub threads: u32,
    /// Process of one of the threads.
    pub pid: u32,
    /// Kernel function in which that thread sleeps, if the kernel reports it.
    pub wchan: Option<String>,
    /// Time since one of the threads last ran, in nanoseconds; `None` if the kernel does not report
    /// it.
    pub since_run_ns: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_and_function_give_the_kind_of_sleep() {
        let cases = [
            ('T', "do_signal_stop", Some(Asleep::Stopped)),
            ('t', "ptrace_stop", Some(Asleep::Traced)),
            ('D', "__refrigerator", Some(Asleep::Frozen)),
            ('S', "do_freezer_trap", Some(Asleep::Frozen)),
            ('D', "mem_cgroup_oom_synchronize", Some(Asleep::MemoryLimit)),
            ('D', "hrtimer_nanosleep", Some(Asleep::Frozen)),
            ('D', "ep_poll", Some(Asleep::Frozen)),
            ('D', "folio_wait_bit_common", Some(Asleep::Uninterruptible)),
            ('D', "0", Some(Asleep::Uninterruptible)),
            ('I', "worker_thread", Some(Asleep::Uninterruptible)),
            ('D', "kernel_clone", Some(Asleep::Child)),
            ('S', "futex_do_wait", Some(Asleep::Futex)),
            ('S', "hrtimer_nanosleep", Some(Asleep::Timer)),
            ('S', "ep_poll", Some(Asleep::Requests)),
            ('S', "do_wait", Some(Asleep::Child)),
            ('S', "0", Some(Asleep::Other)),
            ('R', "0", None),
            ('Z', "0", None),
        ];
        for (state, wchan, kind) in cases {
            assert_eq!(Asleep::new(state, wchan), kind, "{state} {wchan}");
        }
    }
}
