//! Restricts the system calls of a thread with seccomp and Landlock, if the kernel has them.
//!
//! The restrictions apply permanently to the calling thread and the threads that it starts. The
//! filters are written by hand because they are short, and because existing crates do not set
//! `SECCOMP_FILTER_FLAG_SPEC_ALLOW`. Without this flag the kernel enables speculation mitigations,
//! which cost more than the filter.

use std::io;

use libc::{c_long, sock_filter};

/// Whether the kernel supports seccomp, and which version of Landlock it supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Whether the kernel supports seccomp filters.
    pub seccomp: bool,
    /// Landlock, which restricts access to files and the network.
    pub landlock: Landlock,
}

/// Result of probing for Landlock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Landlock {
    /// Not available (`ENOSYS`), or disabled at boot (`EOPNOTSUPP`).
    #[default]
    Absent,
    /// The ABI version of Landlock.
    Version(u32),
    /// Another error. The kernel may have Landlock, but something rejected the call.
    Unknown(i32),
}

impl Sandbox {
    /// Asks the running kernel whether it supports seccomp and Landlock.
    pub fn probe() -> Self {
        // SAFETY: the call reads no memory, only the state of this thread.
        #[allow(unsafe_code, reason = "rustix does not support this prctl option")]
        let asked = unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) };
        Self {
            seccomp: asked >= 0,
            landlock: Landlock::probe(),
        }
    }
}

impl Landlock {
    fn probe() -> Self {
        // SAFETY: with a null pointer of size 0, the call returns the version.
        #[allow(unsafe_code, reason = "the C library has no wrappers for Landlock")]
        let version = unsafe {
            let none = std::ptr::null::<Ruleset>();
            libc::syscall(libc::SYS_landlock_create_ruleset, none, 0, 1)
        };
        match checked(version).map_err(|error| error.raw_os_error()) {
            Ok(version) => Self::Version(u32::try_from(version).unwrap_or(u32::MAX)),
            Err(Some(libc::ENOSYS | libc::EOPNOTSUPP)) => Self::Absent,
            Err(errno) => Self::Unknown(errno.unwrap_or_default()),
        }
    }
}

/// A restriction that failed although the kernel has it or may have it.
#[derive(Debug)]
pub struct Unconfined {
    /// `no_new_privs`, `Landlock` or `seccomp`.
    pub step: &'static str,
    pub error: io::Error,
}

/// Restricts a thread that handles requests of clients. The thread keeps its sockets and memory,
/// but cannot open files, connect, or start programs. Returns the steps that failed; the other
/// steps are in effect.
pub fn only_answer() -> Vec<Unconfined> {
    let found = Sandbox::probe();
    let mut steps = vec![("no_new_privs", no_new_privileges())];
    match found.landlock {
        Landlock::Absent => {}
        Landlock::Version(version) => steps.push(("Landlock", deny_files(version))),
        Landlock::Unknown(errno) => {
            steps.push(("Landlock", Err(io::Error::from_raw_os_error(errno))));
        }
    }
    if found.seccomp {
        steps.push(("seccomp", install(&allowed(ANSWERS))));
    }
    failed(steps)
}

/// Restricts all other threads: they cannot start programs, access other processes, mount, or load
/// modules. Returns the steps that failed.
pub fn no_programs() -> Vec<Unconfined> {
    let mut steps = vec![("no_new_privs", no_new_privileges())];
    if Sandbox::probe().seccomp {
        steps.push(("seccomp", install(&denied(PROGRAMS))));
    }
    failed(steps)
}

fn failed(steps: Vec<(&'static str, io::Result<()>)>) -> Vec<Unconfined> {
    let errors = steps.into_iter().filter_map(|(step, done)| {
        let error = done.err()?;
        Some(Unconfined { step, error })
    });
    errors.collect()
}

/// System calls of a thread that handles requests of clients. System calls with conditions are in
/// `allowed`.
const ANSWERS: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_close,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_fcntl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_ctl,
    libc::SYS_ppoll,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
];

/// System calls that no thread of the agent needs, but that an attacker would use.
const PROGRAMS: &[c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
];

/// `AUDIT_ARCH_*` of this architecture.
#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;

/// The flag in the numbers of x32 system calls. x32 numbers differ from x86-64 numbers.
const X32: u32 = 0x4000_0000;

// Offsets in `struct seccomp_data`. Arguments are 64-bit, with the lower half first.
const NR: u32 = 0;
const ARCH_AT: u32 = 4;
const ARGS: u32 = 16;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;

const fn errno(error: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | error as u32
}

const fn op(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    let code = code as u16;
    sock_filter { code, jt, jf, k }
}

const fn load(at: u32) -> sock_filter {
    op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at)
}

const fn give(result: u32) -> sock_filter {
    op(libc::BPF_RET | libc::BPF_K, 0, 0, result)
}

/// Skips `skip` instructions if the accumulator is not equal to `value`.
const fn unless(value: u32, skip: u8) -> sock_filter {
    op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, skip, value)
}

/// Returns the common start of a filter, which rejects other ABIs and loads the system call number.
fn begin() -> Vec<sock_filter> {
    let mut program = vec![
        load(ARCH_AT),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0, ARCH),
        give(errno(libc::EPERM)),
        load(NR),
    ];
    if cfg!(target_arch = "x86_64") {
        program.push(op(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32));
        program.push(give(errno(libc::EPERM)));
    }
    program
}

/// Returns a filter that allows only these calls.
fn allowed(calls: &[c_long]) -> Vec<sock_filter> {
    let mut program = begin();
    for &call in calls {
        program.extend([unless(call as u32, 1), give(ALLOW)]);
    }
    // If clone3 fails with ENOSYS, the C library uses clone instead, whose flags the filter can
    // check.
    program.extend([
        unless(libc::SYS_clone3 as u32, 1),
        give(errno(libc::ENOSYS)),
    ]);
    // Allow threads of this process.
    let thread = (libc::CLONE_THREAD | libc::CLONE_VM) as u32;
    program.extend([
        unless(libc::SYS_clone as u32, 5),
        load(ARGS),
        op(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, thread),
        unless(thread, 1),
        give(ALLOW),
        give(errno(libc::EPERM)),
    ]);
    // Allow memory that is not executable.
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        let code = libc::PROT_EXEC as u32;
        program.extend([
            unless(call as u32, 5),
            load(ARGS + 2 * 8),
            op(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, code),
            unless(0, 1),
            give(ALLOW),
            give(errno(libc::EPERM)),
        ]);
    }
    // Allow setting a thread name.
    program.extend([
        unless(libc::SYS_prctl as u32, 3),
        load(ARGS),
        unless(libc::PR_SET_NAME as u32, 1),
        give(ALLOW),
    ]);
    program.push(give(errno(libc::EPERM)));
    program
}

/// Returns a filter that rejects only these calls.
fn denied(calls: &[c_long]) -> Vec<sock_filter> {
    denied_with(libc::EPERM, calls)
}

fn denied_with(error: i32, calls: &[c_long]) -> Vec<sock_filter> {
    let mut program = begin();
    for &call in calls {
        program.extend([unless(call as u32, 1), give(errno(error))]);
    }
    program.push(give(ALLOW));
    program
}

/// Sets `no_new_privs`. Otherwise only root may install filters, because a setuid program would run
/// with restricted privileges.
fn no_new_privileges() -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    Ok(())
}

fn install(program: &[sock_filter]) -> io::Result<()> {
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(io::Error::other)?,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the filter has the given number of instructions, which the kernel copies and checks.
    #[allow(unsafe_code, reason = "the C library has no wrapper for seccomp")]
    let done = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW,
            &raw const filter,
        )
    };
    checked(done).map(|_| ())
}

fn checked(returned: c_long) -> io::Result<c_long> {
    match returned {
        0.. => Ok(returned),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `struct landlock_ruleset_attr` up to version 5.
#[repr(C)]
struct Ruleset {
    files: u64,
    network: u64,
}

/// Returns the file rights that this version of Landlock knows, as a bit mask.
const fn file_rights(version: u32) -> u64 {
    let bits = match version {
        0 => 0,
        1 => 13,
        2 => 14,
        3 | 4 => 15,
        _ => 16,
    };
    (1 << bits) - 1
}

/// Denies access to files, TCP connections and ports by a ruleset without rules.
fn deny_files(version: u32) -> io::Result<()> {
    let network = if version >= 4 { 0b11 } else { 0 };
    let ruleset = Ruleset {
        files: file_rights(version),
        network,
    };
    let size = if version >= 4 { 16_usize } else { 8 };
    // SAFETY: the kernel reads `size` bytes of the structure, which has at least that size.
    #[allow(unsafe_code, reason = "the C library has no wrappers for Landlock")]
    let made = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const ruleset,
            size,
            0,
        )
    };
    let made = checked(made)?;
    // SAFETY: the descriptor was just created, and is closed once, here.
    #[allow(unsafe_code, reason = "the C library has no wrappers for Landlock")]
    let done = unsafe {
        let done = libc::syscall(libc::SYS_landlock_restrict_self, made, 0);
        let error = checked(done);
        libc::close(made as i32);
        error
    };
    done.map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::{TcpListener, TcpStream};
    use std::process::Command;
    use std::thread;

    use super::*;

    /// Runs a function on a new thread, which stays restricted.
    fn apart<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
        thread::spawn(act).join().unwrap()
    }

    fn refused<T>(done: io::Result<T>) -> bool {
        done.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    }

    #[test]
    fn answering_thread_can_open_no_file_and_start_no_program() {
        let sandbox = Sandbox::probe();
        assert!(sandbox.seccomp, "this kernel has no seccomp");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        apart(move || {
            assert!(only_answer().is_empty());
            assert!(refused(File::open("/proc/self/status")));
            assert!(refused(File::create("/tmp/noctule-sandbox")));
            assert!(refused(TcpStream::connect(address)));
            assert!(refused(Command::new("/bin/true").status()));
            assert_eq!(vec![1_u8; 4 << 20].len(), 4 << 20);
            // Threads that the thread starts inherit the restrictions.
            let below = thread::Builder::new().name("below".into());
            let below = below.spawn(|| refused(File::open("/proc/self/status")));
            assert!(below.unwrap().join().unwrap());
        });
        // Other threads are not restricted.
        File::open("/proc/self/status").unwrap();
        TcpStream::connect(address).unwrap();
    }

    #[test]
    fn other_threads_cannot_start_programs() {
        apart(|| {
            assert!(no_programs().is_empty());
            File::open("/proc/self/status").unwrap();
            assert!(refused(Command::new("/bin/true").status()));
        });
    }

    #[test]
    fn failed_sandbox_step_is_named_and_others_still_apply() {
        let landlock = Sandbox::probe().landlock != Landlock::Absent;
        apart(move || {
            no_new_privileges().unwrap();
            let refused = [libc::SYS_seccomp, libc::SYS_landlock_restrict_self];
            install(&denied(&refused)).unwrap();
            let steps = |failed: Vec<Unconfined>| {
                let denied = |it: &Unconfined| it.error.raw_os_error() == Some(libc::EPERM);
                assert!(failed.iter().all(denied), "{failed:?}");
                failed.iter().map(|it| it.step).collect::<Vec<_>>()
            };
            assert_eq!(steps(no_programs()), ["seccomp"]);
            let of_both: &[_] = match landlock {
                true => &["Landlock", "seccomp"],
                false => &["seccomp"],
            };
            assert_eq!(steps(only_answer()), of_both);
        });
        apart(move || {
            no_new_privileges().unwrap();
            install(&denied(&[libc::SYS_landlock_restrict_self])).unwrap();
            assert_eq!(only_answer().len(), usize::from(landlock));
            assert!(refused(Command::new("/bin/true").status()));
        });
    }

    #[test]
    fn refused_landlock_query_does_not_mean_absence() {
        let asked = [libc::SYS_landlock_create_ruleset];
        let answered = |errno| {
            apart(move || {
                no_new_privileges().unwrap();
                install(&denied_with(errno, &asked)).unwrap();
                let found = Sandbox::probe().landlock;
                let failed = only_answer();
                let steps = failed.iter().map(|it| (it.step, it.error.raw_os_error()));
                (found, steps.collect::<Vec<_>>())
            })
        };
        for errno in [libc::EPERM, libc::ENOMEM] {
            let step = ("Landlock", Some(errno));
            assert_eq!(answered(errno), (Landlock::Unknown(errno), vec![step]));
        }
        for errno in [libc::ENOSYS, libc::EOPNOTSUPP] {
            assert_eq!(answered(errno), (Landlock::Absent, Vec::new()));
        }
    }

    #[test]
    fn landlock_alone_denies_files() {
        let Landlock::Version(version) = Sandbox::probe().landlock else {
            return;
        };
        apart(move || {
            no_new_privileges().unwrap();
            deny_files(version).unwrap();
            assert!(refused(File::open("/proc/self/status")));
        });
    }
}
