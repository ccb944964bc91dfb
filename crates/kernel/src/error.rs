use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;

use crate::facts::Facts;
use crate::kernel_types::VMLINUX;

/// The kind of action that fixes an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The process lacks a privilege, which the message names.
    Privileges,
    /// The kernel lacks a feature, or forbids its use to all processes (lockdown).
    Kernel,
    /// Anything else, as described by the message and the source.
    Other,
}

/// An error with its context.
#[derive(Debug, thiserror::Error)]
#[error("{context}")]
pub struct Error {
    kind: ErrorKind,
    context: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Creates an error without a source.
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Self {
        Self {
            kind,
            context: context.into(),
            source: None,
        }
    }

    /// Returns the kind of action that fixes the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the error with its causes, in one line.
    pub(crate) fn chain(&self) -> String {
        let mut words = self.context.clone();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            words += &format!(": {error}");
            cause = error.source();
        }
        words
    }
}

/// Advice if a kernel rejects a program that it should accept.
pub(crate) const REPORT: &str = "report this as a bug, with the kernel release (uname -r)";

/// An error of libbpf or of the system.
pub(crate) trait Cause {
    fn context(self, context: impl Into<String>) -> Error;
}

/// Adds context to the error of a result.
pub(crate) trait Context<T> {
    fn context(self, context: impl Into<String>) -> Result<T, Error>;
}

impl<T, E: Cause> Context<T> for Result<T, E> {
    fn context(self, context: impl Into<String>) -> Result<T, Error> {
        self.map_err(|error| error.context(context))
    }
}

impl Cause for libbpf_rs::Error {
    fn context(self, context: impl Into<String>) -> Error {
        Error {
            kind: kind(&self),
            context: context.into() + &without_types(&self, Path::new(VMLINUX)),
            source: Some(Box::new(self)),
        }
    }
}

impl Cause for std::io::Error {
    fn context(self, context: impl Into<String>) -> Error {
        Error {
            kind: match self.kind() {
                std::io::ErrorKind::PermissionDenied => ErrorKind::Privileges,
                _ => ErrorKind::Other,
            },
            context: context.into(),
            source: Some(Box::new(self)),
        }
    }
}

/// Explains a libbpf error. libbpf returns "no such process" if it could not read the kernel's
/// types, for any reason. This function determines the reason.
fn without_types(error: &libbpf_rs::Error, file: &Path) -> String {
    if error.to_string() != Errno::SRCH.to_string() {
        return String::new();
    }
    // libbpf makes the same check.
    match accessat(CWD, file, Access::READ_OK, AtFlags::EACCESS) {
        Ok(()) => " (libbpf did not find the kernel's BTF, or the function in it)".to_owned(),
        Err(error) => format!(" ({}: {error})", file.display()),
    }
}

/// Returns the error of an object that could not be loaded, and adds the likely cause if the
/// kernel's own error does not include it.
pub(crate) fn not_loaded(object: &str, facts: &Facts) -> impl FnOnce(libbpf_rs::Error) -> Error {
    let object = object.to_owned();
    let locked_down = facts.lockdown.as_deref() == Some("confidentiality");
    let limit = facts.memory_limit;
    move |error| {
        let denied = error.kind() == libbpf_rs::ErrorKind::PermissionDenied;
        let cause = match limit {
            _ if locked_down => " (kernel lockdown keeps BPF programs from reading kernel memory: \
                boot without lockdown=confidentiality)"
                .to_owned(),
            Some(limit) if denied => format!(
                " (before Linux 5.11, RLIMIT_MEMLOCK limits BPF memory; it is {limit} bytes: run \
                ulimit -l unlimited, or add CAP_SYS_RESOURCE)"
            ),
            _ => without_types(&error, Path::new(VMLINUX)),
        };
        Error {
            kind: kind(&error),
            context: format!("loading the BPF object `{object}`{cause}"),
            source: Some(Box::new(error)),
        }
    }
}

fn kind(error: &libbpf_rs::Error) -> ErrorKind {
    match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => ErrorKind::Privileges,
        libbpf_rs::ErrorKind::NotFound | libbpf_rs::ErrorKind::InvalidInput => ErrorKind::Kernel,
        _ => ErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_btf_error_explains_the_reason() {
        let words = |errno: i32, file| {
            without_types(&libbpf_rs::Error::from_raw_os_error(errno), Path::new(file))
        };
        assert_eq!(words(libc::ENOMEM, "/none"), "");
        let missing = words(libc::ESRCH, "/none");
        assert_eq!(missing, " (/none: No such file or directory (os error 2))");
        let there = words(libc::ESRCH, "/dev/null");
        assert!(there.contains("did not find"), "{there}");
    }
}
