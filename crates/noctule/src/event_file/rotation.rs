//! A file of whole lines, and the older ones beside it.

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

/// The file that is written now.
pub(super) struct Rotation {
    place: Place,
    /// `None` after a rotation or a repair that did not succeed; the next write tries again.
    open: Option<Open>,
}

struct Open {
    file: File,
    /// Its length: all of it whole lines.
    bytes: u64,
    /// Devices and pipes have no length, cannot be cut, and are not to be renamed.
    regular: bool,
    /// It ends within a line.
    torn: bool,
    /// It was full for so long that nobody seems to read it: it is waited for no more until there is
    /// room.
    full: bool,
}

/// What a pipe takes as a whole or not at all.
const PIPE_BYTES: u64 = rustix::pipe::PIPE_BUF as u64;

/// How long a reader of a pipe may leave it full.
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

    /// When the last event was that is there, in this file or, if that is empty, the one before, in
    /// nanoseconds since 1970.
    pub(super) fn last_unix_ns(&self) -> Option<u64> {
        let open = self.open.as_ref().filter(|open| open.regular)?;
        if open.bytes > 0 {
            return lines::last_unix_ns(&open.file, open.bytes);
        }
        let before = File::open(self.numbered(1)).ok()?;
        let found = lines::whole(&before).ok()?;
        lines::last_unix_ns(&before, found.whole)
    }

    /// How much the present file has room for.
    pub(super) fn room(&self) -> u64 {
        match &self.open {
            Some(open) if open.regular => self.place.bytes.saturating_sub(open.bytes),
            Some(_) => PIPE_BYTES,
            None => 0,
        }
    }

    /// Lets go of the file: the next write opens it by its name.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// Lets go of the file where its name is another's by now, or nobody's: `rm` and logrotate leave the old
    /// one to be written, and nobody would find what is in it.
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
            tracing::warn!("{path}: was moved or removed: a new one is begun");
        }
    }

    /// Begins the next file, unless nothing is in this one.
    pub(super) fn turn(&mut self) -> io::Result<()> {
        match &self.open {
            Some(open) if open.bytes == 0 || !open.regular => return Ok(()),
            Some(_) => self.shift()?,
            None => {}
        }
        // Until the new one is open there is none: the old one has another name.
        self.open = None;
        self.open = Some(Open::new(&self.place)?);
        Ok(())
    }

    /// Appends whole lines with one write(2). When it fails, nothing of them is in the file; a pipe can
    /// have the beginning of one that is longer than it takes at once.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => Open::new(&self.place)?,
        };
        let written = open.append(lines);
        // A file that could not be cut is opened anew, and repaired then.
        if written.is_ok() || open.cut().is_ok() {
            self.open = Some(open);
        }
        written
    }

    /// Gives each file the next number, up to the first that is missing; without one the oldest is
    /// overwritten. So a rotation that is tried again and again drops nothing.
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
    /// Opens the file to append to it, makes it if it is missing, and cuts off half a line.
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
                tracing::warn!("{path}: cut off half a line at its end, {half} bytes");
            }
        }
        Ok(open)
    }

    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if !self.regular {
            return self.append_to_pipe(lines);
        }
        // One call, unless the disk becomes full in the middle; then the second returns the error.
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

    /// Waits for a reader that is slower, but not for one that does not read. With an error, how many
    /// bytes were taken before it.
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

    /// Takes away what is behind the last whole line.
    fn cut(&self) -> io::Result<()> {
        if self.regular {
            self.file.set_len(self.bytes)?;
        }
        Ok(())
    }
}

/// Takes the file, which nobody else may write meanwhile: each line would be there twice, and one that the other has
/// begun would be cut off.
fn lock(file: &File) -> io::Result<()> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(io::Error::other(
            "another noctule writes to it: end that, or name another file",
        )),
        // Not every file system has locks.
        _ => Ok(()),
    }
}
