//! Programs for which the kernel refuses system calls.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use libc::{c_long, sock_filter};

/// Makes these calls fail with EPERM in the program and all its children. The filter requires root,
/// because the program can still gain privileges.
pub(crate) fn refuse(command: &mut Command, calls: &[c_long]) {
    refuse_with(libc::EPERM, command, calls);
}

/// Like [`refuse`], with another error.
pub(crate) fn refuse_with(errno: i32, command: &mut Command, calls: &[c_long]) {
    let op = |code: u32, jf, k| sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let give = |result| op(libc::BPF_RET | libc::BPF_K, 0, result);
    let mut program = vec![op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
    for &call in calls {
        program.push(op(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            1,
            call as u32,
        ));
        program.push(give(libc::SECCOMP_RET_ERRNO | errno as u32));
    }
    program.push(give(libc::SECCOMP_RET_ALLOW));
    let install = move || {
        let filter = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_ptr().cast_mut(),
        };
        // SAFETY: the filter points to as many instructions as it states, and the kernel copies
        // them.
        #[allow(unsafe_code, reason = "no safe call installs a filter")]
        let done = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                0,
                &raw const filter,
            )
        };
        match done {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    #[allow(unsafe_code, reason = "a filter is to be there before the program is")]
    unsafe {
        command.pre_exec(install);
    }
}
