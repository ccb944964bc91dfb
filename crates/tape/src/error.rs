//! Errors and damage of recordings.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A recording that cannot be written or read at all.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub struct Error {
    words: String,
    source: Option<io::Error>,
}

impl Error {
    pub(crate) fn new(words: impl Into<String>) -> Self {
        Self {
            words: words.into(),
            source: None,
        }
    }

    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        Self::of(path.display().to_string())
    }

    pub(crate) fn of(words: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let words = words.into();
        |source| Self {
            words,
            source: Some(source),
        }
    }

    /// Whether the disk is full or over quota.
    pub(crate) fn is_full(&self) -> bool {
        let kind = self.source.as_ref().map(io::Error::kind);
        matches!(
            kind,
            Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        )
    }
}

/// Data of a recording that cannot be read. The data before it remains readable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub path: PathBuf,
    /// Offset in the file in bytes; `None` if a segment was removed while it was read.
    pub offset: Option<u64>,
    pub reason: String,
}

impl Damage {
    /// Reports a segment that no longer exists. To stay within its limits, a recorder removes the
    /// oldest segment.
    pub(crate) fn removed(segment: &Path) -> Self {
        Self {
            path: segment.to_owned(),
            offset: None,
            reason: "was removed while the recording was read, so its data is missing".into(),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, reason) = (self.path.display(), &self.reason);
        match self.offset {
            Some(offset) => write!(f, "{path} is damaged at byte {offset}: {reason}"),
            None => write!(f, "{path} {reason}"),
        }
    }
}
