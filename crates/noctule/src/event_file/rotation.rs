//! The current event file, consisting of complete lines, and its rotation.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::Place;
use super::lines;
use crate::private;

/// The current file.
pub(super) struct Rotation {
    place: Place,
    /// `None` after a failed rotation or repair; the next write tries again.
    open: Option<Open>,
}

struct Open {
    file: File,
    /// Length of the file, all of which is complete lines.
    bytes: u64,
    /// Whether the file is a regular file. Devices and pipes have no length, and cannot be
    /// truncated or renamed.
    regular: bool,
    /// Whether the file ends within a line.
    torn: bool,
    /// Whether a pipe stayed full for too long. If so, writes do not wait until there is room
    /// again.
    full: bool,
}

/// Maximum size of an atomic write to a pipe.
const PIPE_BYTES: u64 = rustix::pipe::PIPE_BUF as u64;

/// Maximum time to wait for a full pipe.
const PATIENCE: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

impl Rotation {
    pub(super) fn open(place: Place) -> io::Result<Self> {
        let open = Some(Open::new(&place)?);
        Ok(Self { place, open })
    }

    pub(super) fn name(&self) -> std::path::Display<'_> {
        self.place.path.display()
    }

    /// Returns the time of the last event in this file, in nanoseconds since 1970. If this file is
    /// empty, returns the time of the last event in the previous file.
    pub(super) fn last_unix_ns(&self) -> Option<u64> {
        let open = self.open.as_ref().filter(|open| open.regular)?;
        if open.bytes > 0 {
            return lines::last_unix_ns(&open.file, open.bytes);
        }
        let before = File::open(self.numbered(1)).ok()?;
        let found = lines::whole(&before).ok()?;
        lines::last_unix_ns(&before, found.whole)
    }

    /// Returns the number of bytes that fit into the current file.
    pub(super) fn room(&self) -> u64 {
        match &self.open {
            Some(open) if open.regular => self.place.bytes.saturating_sub(open.bytes),
            Some(_) => PIPE_BYTES,
            None => 0,
        }
    }

    /// Closes the file; the next write reopens it by name.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// Closes the file if its name now refers to another file or does not exist, as after `rm` or
    /// logrotate. Lines written to the old file would not be found.
    pub(super) fn follow(&mut self) {
        let Some(open) = self.open.as_ref().filter(|open| open.regular) else {
            return;
        };
        let id = |found: fs::Metadata| (found.dev(), found.ino());
        let named = fs::symlink_metadata(&self.place.path).map(id);
        let written = open.file.metadata().map(id);
        let gone = match (&named, &written) {
            (Ok(named), Ok(written)) => named != written,
            (Err(error), _) => error.kind() == ErrorKind::NotFound,
            _ => false,
        };
        if gone {
            self.open = None;
            let path = self.name();
            tracing::warn!("{path}: was moved or removed; starting a new file");
        }
    }

    /// Starts the next file, unless this one is empty.
    pub(super) fn turn(&mut self) -> io::Result<()> {
        match &self.open {
            Some(open) if open.bytes == 0 || !open.regular => return Ok(()),
            Some(_) => self.shift()?,
            None => {}
        }
        // The old file was renamed, so no file is open until the new one is opened.
        self.open = None;
        self.open = Some(Open::new(&self.place)?);
        Ok(())
    }

    /// Appends complete lines with one write(2). On failure none of them remains in the file. A
    /// pipe can keep the beginning of lines that are longer than its atomic write size.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => Open::new(&self.place)?,
        };
        let written = open.append(lines);
        // If a file could not be truncated, it is reopened, which repairs it.
        if written.is_ok() || open.cut().is_ok() {
            self.open = Some(open);
        }
        written
    }

    /// Renames each file to the next number, up to the first free number. If none is free, the
    /// oldest file is overwritten. A rotation that is retried therefore loses no file.
    fn shift(&self) -> io::Result<()> {
        let there = |moved: io::Result<()>| match moved {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            moved => moved,
        };
        if self.place.keep == 0 {
            return there(fs::remove_file(&self.place.path));
        }
        let mut free = 1..self.place.keep;
        let free = free.find(|number| !self.numbered(*number).exists());
        for number in (0..free.unwrap_or(self.place.keep)).rev() {
            there(fs::rename(self.numbered(number), self.numbered(number + 1)))?;
        }
        Ok(())
    }

    fn numbered(&self, number: u32) -> PathBuf {
        if number == 0 {
            return self.place.path.clone();
        }
        let mut name = OsString::from(&self.place.path);
        name.push(format!(".{number}"));
        name.into()
    }
}

impl Open {
    /// Opens or creates the file for appending, and truncates a partial line.
    fn new(place: &Place) -> io::Result<Self> {
        let file = private::append(&place.path)?;
        let mut open = Self {
            bytes: 0,
            regular: file.metadata()?.is_file(),
            torn: false,
            full: false,
            file,
        };
        if open.regular {
            lock(&open.file)?;
            let found = lines::whole(&open.file)?;
            open.bytes = found.whole;
            if found.half > 0 {
                open.cut()?;
                let (path, half) = (place.path.display(), found.half);
                tracing::warn!("{path}: removed an incomplete last line ({half} bytes)");
            }
        }
        Ok(open)
    }

    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if !self.regular {
            return self.append_to_pipe(lines);
        }
        // This is a single write, unless the disk becomes full. If the disk is full, a second write
        // returns the error.
        (&self.file).write_all(lines)?;
        self.bytes += lines.len() as u64;
        Ok(())
    }

    fn append_to_pipe(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.torn {
            self.hand_over(b"\n").map_err(|(_, error)| error)?;
        }
        let taken = self.hand_over(lines);
        self.torn = matches!(taken, Err((1.., _)));
        taken.map_err(|(_, error)| error)
    }

    /// Waits for a slow reader of the pipe, but not for one that never reads. An error includes the
    /// number of bytes that were written before the error.
    fn hand_over(&mut self, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
        let mut taken = 0;
        while taken < bytes.len() {
            match (&self.file).write(&bytes[taken..]) {
                Ok(count) => {
                    taken += count;
                    self.full = false;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let mut wait = [PollFd::new(&self.file, PollFlags::OUT)];
                    self.full = self.full || poll(&mut wait, Some(&PATIENCE)) == Ok(0);
                    if self.full {
                        return Err((taken, error));
                    }
                }
                Err(error) => return Err((taken, error)),
            }
        }
        Ok(())
    }

    /// Truncates the file to its last complete line.
    fn cut(&self) -> io::Result<()> {
        if self.regular {
            self.file.set_len(self.bytes)?;
        }
        Ok(())
    }
}

/// Locks the file exclusively. A second writer would duplicate lines, and could truncate a line
/// that the first writer is writing.
fn lock(file: &File) -> io::Result<()> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(io::Error::other(
            "another noctule is writing to it: stop that one or choose another file",
        )),
        // Not every file system supports locks.
        _ => Ok(()),
    }
}
