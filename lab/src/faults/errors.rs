//! Errors that the kernel can return for a system call.

/// System calls that never get a fault, and the reason.
const EXCLUDED: &[(&str, &str)] = &[
    (
        "arch_prctl",
        "called by the C library before the program starts",
    ),
    ("brk", "returns the end of the heap instead of an error"),
    ("clock_gettime", "fails only for an invalid clock"),
    ("execve", "starts the program"),
    ("exit", "cannot fail"),
    ("exit_group", "cannot fail"),
    (
        "futex",
        "an injected fault would lose a wake-up, which the kernel never does",
    ),
    ("getpid", "cannot fail"),
    ("gettid", "cannot fail"),
    ("geteuid", "cannot fail"),
    ("getuid", "cannot fail"),
    ("restart_syscall", "continues another system call"),
    ("rseq", "called by the C library before the program starts"),
    ("rt_sigaction", "fails only for an invalid signal number"),
    ("rt_sigreturn", "cannot fail"),
    (
        "set_robust_list",
        "called by the C library before the program starts",
    ),
    ("set_tid_address", "cannot fail"),
    ("uname", "cannot fail"),
    ("sched_yield", "cannot fail"),
];

/// Errors of each call, the most likely first. Calls that are not listed get [`DEFAULT_ERRORS`].
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

const DEFAULT_ERRORS: &[&str] = &["ENOMEM", "EPERM"];

/// Failures that other software causes: the system call, words of the verdict, and the cause.
const FOREIGN_FAILURES: &[(&str, &str, &str)] = &[
    (
        "clone",
        "crates/web/src/server.rs",
        "tokio panics if a thread cannot be started; the agent then exits with a message",
    ),
    (
        "close",
        "library/std/src/sys/fs",
        "the Rust runtime: a directory cannot be closed",
    ),
    (
        "sendto",
        "the agent hung",
        "signal-hook: it reports SIGTERM by a byte in a socket pair and ignores errors",
    ),
    (
        "write",
        "runtime/io/driver.rs",
        "tokio: a wake-up through an eventfd, which never fails in practice",
    ),
    (
        "mmap",
        "signal 11",
        "the dynamic loader, before the program starts",
    ),
    (
        "mmap",
        "stack_overflow.rs",
        "the Rust runtime: no signal stack for a new thread",
    ),
];

/// Returns the cause if a failure is not the agent's fault.
pub(super) fn known_cause(call: &str, verdict: &str) -> Option<&'static str> {
    let known = FOREIGN_FAILURES
        .iter()
        .find(|(name, part, _)| *name == call && verdict.contains(part));
    known.map(|(_, _, cause)| *cause)
}

/// Returns the errors to inject for a call. Returns none for excluded calls.
pub(super) fn errors_of(call: &str) -> &'static [&'static str] {
    if EXCLUDED.iter().any(|(excluded, _)| *excluded == call) {
        return &[];
    }
    let known = ERRORS.iter().find(|(name, _)| *name == call);
    known.map_or(DEFAULT_ERRORS, |(_, errors)| errors)
}
