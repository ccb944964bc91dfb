//! Errors of loading and reading.

use std::fmt;

/// Who can mend it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The process lacks a right; the words name it.
    Privileges,
    /// The kernel lacks what is needed, or forbids it to everybody (lockdown).
    Kernel,
    /// Anything else: the words and the source say what.
    Other,
}

/// An error with the place where it happened.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    context: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error without a cause below it.
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Self {
        Self {
            kind,
            context: context.into(),
            source: None,
        }
    }

    /// Who can mend it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|e| e.as_ref() as _)
    }
}

/// Adds the place to an error of libbpf or of the system.
pub(crate) trait Context<T> {
    fn context(self, context: impl Into<String>) -> Result<T, Error>;
}

impl<T> Context<T> for Result<T, libbpf_rs::Error> {
    fn context(self, context: impl Into<String>) -> Result<T, Error> {
        self.map_err(|source| {
            let kind = match source.kind() {
                libbpf_rs::ErrorKind::PermissionDenied => ErrorKind::Privileges,
                libbpf_rs::ErrorKind::NotFound | libbpf_rs::ErrorKind::InvalidInput => {
                    ErrorKind::Kernel
                }
                _ => ErrorKind::Other,
            };
            Error {
                kind,
                context: context.into(),
                source: Some(Box::new(source)),
            }
        })
    }
}

impl<T> Context<T> for std::io::Result<T> {
    fn context(self, context: impl Into<String>) -> Result<T, Error> {
        self.map_err(|source| Error {
            kind: match source.kind() {
                std::io::ErrorKind::PermissionDenied => ErrorKind::Privileges,
                _ => ErrorKind::Other,
            },
            context: context.into(),
            source: Some(Box::new(source)),
        })
    }
}
