//! Loads a program that is given as instructions.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;

use libbpf_rs::libbpf_sys as sys;

use crate::object::{REASON, STEPS, owned, until_nul};

pub(crate) struct Instructions<'a> {
    pub(crate) kind: sys::bpf_prog_type,
    pub(crate) attach: sys::bpf_attach_type,
    pub(crate) name: &'a str,
    pub(crate) license: &'a str,
    /// The kernel version for which the program was written. Kernels before 5.0 checked it.
    pub(crate) kernel_version: u32,
    pub(crate) insns: &'a [[u8; 8]],
    /// Size of the verifier log that explains a rejection.
    pub(crate) log_bytes: usize,
}

impl Instructions<'_> {
    /// Loads the program, or returns the kernel's error and the verifier's log. The log is requested
    /// only after a rejection, because a log of every step takes longer than the verification.
    pub(crate) fn load(&self) -> Result<OwnedFd, (io::Error, String)> {
        self.load_logged(None).or_else(|error| {
            let mut log = vec![0; self.log_bytes];
            let again = self.load_logged(Some((STEPS, log.as_mut_slice())));
            let again = again.or_else(|error| {
                if error.raw_os_error() != Some(libc::ENOSPC) {
                    return Err(error);
                }
                log.fill(0);
                self.load_logged(Some((REASON, log.as_mut_slice())))
            });
            // The second attempt may succeed, for example if memory was short at the first.
            again.map_err(|_| (error, until_nul(&log)))
        })
    }

    fn load_logged(&self, log: Option<(u32, &mut [u8])>) -> io::Result<OwnedFd> {
        let name = CString::new(kernel_name(self.name))?;
        let license = CString::new(self.license)?;
        let mut options = sys::bpf_prog_load_opts {
            sz: size_of::<sys::bpf_prog_load_opts>() as _,
            expected_attach_type: self.attach,
            kern_version: self.kernel_version,
            ..Default::default()
        };
        if let Some((level, log)) = log {
            options.log_level = level;
            options.log_size = u32::try_from(log.len()).unwrap_or(u32::MAX);
            options.log_buf = log.as_mut_ptr().cast();
        }
        #[allow(unsafe_code, reason = "libbpf-rs loads only whole objects")]
        // SAFETY: all pointers are to memory that lives for the call: two strings with their NUL,
        // whole instructions of eight bytes, and options that contain their size. libbpf passes the
        // address of the instructions on to the kernel and needs no alignment.
        owned(unsafe {
            sys::bpf_prog_load(
                self.kind,
                name.as_ptr(),
                license.as_ptr(),
                self.insns.as_ptr().cast(),
                self.insns.len() as _,
                &raw mut options,
            )
        })
    }
}

/// Returns the part of the name that the kernel accepts and keeps. The kernel does not require a
/// name.
pub(crate) fn kernel_name(name: &str) -> String {
    let fits = |c: &char| c.is_ascii_alphanumeric() || "_.".contains(*c);
    name.chars().filter(fits).take(15).collect()
}
