//! Errors that the kernel has for a system call.

/// What is not let fail, and why.
const SPARED: &[(&str, &str)] = &[
    ("arch_prctl", "of the C library, before the program"),
    ("brk", "returns where the heap ends in place of an error"),
    ("clock_gettime", "fails only for a clock that is none"),
    ("execve", "the begin of the program"),
    ("exit", "has no error"),
    ("exit_group", "has no error"),
    (
        "futex",
        "a wake-up that is lost is a fault that the kernel has not",
    ),
    ("getpid", "has no error"),
    ("gettid", "has no error"),
    ("geteuid", "has no error"),
    ("getuid", "has no error"),
    ("restart_syscall", "goes on with another one"),
    ("rseq", "of the C library, before the program"),
    (
        "rt_sigaction",
        "fails only for a number that is no signal's",
    ),
    ("rt_sigreturn", "has no error"),
    ("set_robust_list", "of the C library, before the program"),
    ("set_tid_address", "has no error"),
    ("uname", "has no error"),
    ("sched_yield", "has no error"),
];

/// Of each the first is the most likely one; a call that is not here gets those of [`USUAL`].
const ERRORS: &[(&str, &[&str])] = &[
    ("accept4", &["EMFILE", "ECONNABORTED"]),
    ("bind", &["EADDRINUSE", "EACCES"]),
    ("bpf", &["ENOMEM", "EPERM"]),
    ("capget", &["EPERM"]),
    ("capset", &["EPERM"]),
    ("clock_nanosleep", &["EINTR"]),
    ("clone", &["EAGAIN", "ENOMEM"]),
    ("clone3", &["EAGAIN", "ENOMEM"]),
    ("close", &["EIO"]),
    ("connect", &["ECONNREFUSED"]),
    ("epoll_create1", &["EMFILE", "ENOMEM"]),
    ("epoll_ctl", &["ENOMEM", "ENOSPC"]),
    ("epoll_pwait", &["EINTR"]),
    ("epoll_wait", &["EINTR"]),
    ("eventfd2", &["EMFILE", "ENOMEM"]),
    ("faccessat", &["ENOMEM", "EACCES"]),
    ("faccessat2", &["ENOMEM", "EACCES"]),
    ("fcntl", &["EMFILE"]),
    ("fdatasync", &["EIO", "ENOSPC"]),
    ("flock", &["EAGAIN", "ENOLCK"]),
    ("fsync", &["EIO", "ENOSPC"]),
    ("ftruncate", &["EIO", "EFBIG"]),
    ("getdents64", &["EIO", "ENOENT"]),
    ("getrandom", &["EINTR", "ENOSYS"]),
    ("ioctl", &["ENOTTY", "EINVAL"]),
    ("landlock_create_ruleset", &["EOPNOTSUPP"]),
    ("landlock_restrict_self", &["EPERM"]),
    ("listen", &["EADDRINUSE"]),
    ("lseek", &["ESPIPE"]),
    ("madvise", &["EAGAIN"]),
    ("mkdir", &["ENOSPC", "EACCES"]),
    ("mmap", &["ENOMEM"]),
    ("mprotect", &["ENOMEM"]),
    ("munmap", &["ENOMEM"]),
    ("openat", &["EMFILE", "EACCES"]),
    ("perf_event_open", &["EMFILE", "EACCES"]),
    ("pipe2", &["EMFILE"]),
    ("poll", &["EINTR"]),
    ("ppoll", &["EINTR", "ENOMEM"]),
    ("prctl", &["EINVAL"]),
    ("pread64", &["EIO", "EINTR"]),
    ("pwrite64", &["ENOSPC", "EIO"]),
    ("read", &["EIO", "EINTR"]),
    ("readlink", &["ENOMEM", "EACCES"]),
    ("readlinkat", &["ENOMEM", "EACCES"]),
    ("recvfrom", &["ECONNRESET", "EINTR"]),
    ("rename", &["ENOSPC", "EACCES"]),
    ("seccomp", &["EINVAL"]),
    ("sendto", &["EPIPE", "EINTR"]),
    ("setns", &["EPERM"]),
    ("socket", &["EMFILE", "EACCES"]),
    ("socketpair", &["EMFILE"]),
    ("statx", &["EACCES", "ENOSYS"]),
    ("timerfd_create", &["EMFILE"]),
    ("unlink", &["EACCES"]),
    ("unshare", &["EPERM"]),
    ("write", &["ENOSPC", "EIO"]),
    ("writev", &["EPIPE", "EINTR"]),
];

const USUAL: &[&str] = &["ENOMEM", "EPERM"];

/// Ends that are not the agent's: the system call, a part of the verdict, and whose it is.
const OF_OTHERS: &[(&str, &str, &str)] = &[
    (
        "clone",
        "crates/web/src/server.rs",
        "tokio has no error for a thread that does not start, and panics; then the agent ends with a message",
    ),
    (
        "close",
        "library/std/src/sys/fs",
        "the runtime of Rust: a folder that cannot be closed",
    ),
    (
        "sendto",
        "it hung",
        "signal-hook: the byte that reports SIGTERM, into a socket whose other end the agent holds: it has no error",
    ),
    (
        "write",
        "runtime/io/driver.rs",
        "tokio: a wake-up by eventfd, which the kernel takes",
    ),
    (
        "mmap",
        "signal 11",
        "the dynamic loader, before the program",
    ),
    (
        "mmap",
        "stack_overflow.rs",
        "the runtime of Rust: no stack for the signals of a new thread",
    ),
];

/// Whose end it is, if it is not the agent's.
pub(super) fn whose(call: &str, verdict: &str) -> Option<&'static str> {
    let known = OF_OTHERS
        .iter()
        .find(|(name, part, _)| *name == call && verdict.contains(part));
    known.map(|(_, _, whose)| *whose)
}

/// The errors with which a call is let fail; none: it is not.
pub(super) fn of(call: &str) -> &'static [&'static str] {
    if SPARED.iter().any(|(spared, _)| *spared == call) {
        return &[];
    }
    let known = ERRORS.iter().find(|(name, _)| *name == call);
    known.map_or(USUAL, |(_, errors)| errors)
}
