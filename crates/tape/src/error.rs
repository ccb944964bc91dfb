//! What can go wrong with a tape.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The tape as a whole cannot be written or read.
#[derive(Debug)]
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

    /// The disk has no room.
    pub(crate) fn is_full(&self) -> bool {
        let kind = self.source.as_ref().map(io::Error::kind);
        matches!(
            kind,
            Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

/// A part of a tape cannot be read; what stands before it can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where in the file, bytes from its begin; `None`: it is a segment that was removed while it was read.
    pub offset: Option<u64>,
    /// What is wrong there.
    pub reason: String,
}

impl Damage {
    /// A segment is no longer there: the oldest goes where a recording reaches its limits.
    pub(crate) fn removed(segment: &Path) -> Self {
        Self {
            path: segment.to_owned(),
            offset: None,
            reason: "was removed while the recording was read, so that what it had is missing"
                .into(),
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
