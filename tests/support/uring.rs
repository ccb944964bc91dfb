//! Calls made through `io_uring` instead of system calls.

use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use io_uring::{IoUring, opcode, squeue, types};

/// The thread that opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The submitting thread if the call does not block, otherwise a kernel worker.
    Itself,
    /// Always a kernel worker.
    Worker,
}

/// A ring of this process.
pub(crate) struct Ring(IoUring);

impl Ring {
    /// Creates a ring. Returns `None` if the kernel does not offer one to this process.
    pub(crate) fn new() -> Option<Self> {
        IoUring::new(2).ok().map(Self)
    }

    /// Opens a file, and waits for the result.
    pub(crate) fn open(&mut self, path: &Path, flags: i32, by: By) -> io::Result<OwnedFd> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let call = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), path.as_ptr());
        let asked = call.flags(flags | libc::O_CLOEXEC).mode(0o600).build();
        let asked = match by {
            By::Itself => asked,
            By::Worker => asked.flags(squeue::Flags::ASYNC),
        };
        #[allow(unsafe_code, reason = "the ring takes a pointer to the path")]
        // SAFETY: the path lives until the result has arrived.
        unsafe {
            self.0.submission().push(&asked).expect("the ring is empty");
        }
        self.0.submit_and_wait(1)?;
        let answer = self.0.completion().next().expect("it was waited for");
        match answer.result() {
            #[allow(unsafe_code, reason = "the ring gives a number")]
            // SAFETY: the descriptor is new and has no other owner.
            number @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(number) }),
            error => Err(io::Error::from_raw_os_error(-error)),
        }
    }
}
