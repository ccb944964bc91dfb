//! The directory of a recording: its lock, its segments and their removal at the limits.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDateTime};
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::age::Ages;
use crate::error::Error;
use crate::index;
use crate::private::{self, OpenFolder};

const LOCK: &str = "lock";

/// Name of a segment while it is being removed.
pub(crate) const REMOVING: &str = "removing";

/// Format of the start time in a segment's name.
const TIME: &str = "%Y%m%dT%H%M%SZ";

/// Minimum number of digits with which a segment's name starts.
const DIGITS: usize = 8;

/// A number above any that a recording reaches. A forged directory name can contain a larger one.
const MOST: u64 = 1 << 50;

/// How much of a recording is kept. The oldest segments are removed first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of all segments in bytes; `None` for no limit.
    pub bytes: Option<u64>,
    /// Maximum age of a segment's end in nanoseconds, as defined in docs/tape.md; `None` for no
    /// limit.
    pub age_ns: Option<u64>,
}

impl Limits {
    pub(crate) fn is_some(&self) -> bool {
        self.bytes.is_some() || self.age_ns.is_some()
    }
}

/// A file lock that is released on drop. A child process may still hold a copy of the open file
/// between fork and exec.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Without this call, the lock would last until the last copy of the file is closed.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

/// A directory that is locked by this writer.
#[derive(Debug)]
pub(crate) struct Folder {
    folder: OpenFolder,
    /// Held for the lifetime of the writer.
    _lock: Lock,
    next: u64,
    pub(crate) ages: Ages,
}

impl Folder {
    /// Creates the directory if it does not exist, and locks it.
    pub(crate) fn lock(path: &Path) -> Result<Self, Error> {
        let mut make = private::folders();
        make.recursive(true).create(path).map_err(Error::at(path))?;
        let folder = OpenFolder::open(path)?;
        let file = path.join(LOCK);
        if !file.exists() && segments(path)?.is_empty() && has_other_files(path)? {
            let path = path.display();
            return Err(Error::new(format!(
                "{path}: the folder has files but no recording: choose a new or empty folder"
            )));
        }
        let lock = folder.own_file(LOCK)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let path = path.display();
                return Err(Error::new(format!(
                    "{path}: another noctule process writes to this folder: stop it, or choose another folder"
                )));
            }
            Err(error) => return Err(Error::at(&file)(error.into())),
        }
        finish_removal(path)?;
        let last = segments(path)?.pop();
        let next = last
            .as_deref()
            .and_then(number)
            .map_or(1, |last| last.saturating_add(1));
        if let Some(last) = last.filter(|_| next > MOST) {
            let last = last.display();
            return Err(Error::new(format!(
                "{last}: the segment number is too high: move this folder away"
            )));
        }
        Ok(Self {
            folder,
            _lock: Lock(lock),
            next,
            ages: Ages::default(),
        })
    }

    /// Creates the directory of the next segment. The name starts with a number, because a clock
    /// can be set back.
    pub(crate) fn add(&mut self, started_unix_ns: u64) -> Result<OpenFolder, Error> {
        let time = DateTime::from_timestamp_nanos(started_unix_ns.cast_signed());
        let name = format!("{:0DIGITS$}-{}", self.next, time.format(TIME));
        let segment = self.folder.make(&name)?;
        self.next += 1;
        Ok(segment)
    }

    /// Removes the oldest segments until the remaining ones are within the limits. Keeps `current`,
    /// which is being written. The age limit also keeps the newest segment.
    pub(crate) fn enforce_limits(
        &mut self,
        limits: &Limits,
        current: Option<&Path>,
    ) -> Result<(), Error> {
        if !limits.is_some() {
            return Ok(());
        }
        let paths = segments(self.folder.path())?;
        let sizes: Vec<u64> = paths.iter().map(|path| size(path)).collect();
        let mut total: u64 = sizes.iter().sum();
        for (place, (path, size)) in paths.iter().zip(sizes).enumerate() {
            if Some(path.as_path()) == current {
                break;
            }
            let large = limits.bytes.is_some_and(|most| total > most);
            let is_last = place + 1 == paths.len();
            let old = |age_ns| !is_last && self.ages.is_older(&paths[place..], age_ns);
            if !large && !limits.age_ns.is_some_and(old) {
                break;
            }
            self.remove(path)?;
            total -= size;
        }
        Ok(())
    }

    /// Removes the oldest segment other than `current`. Returns whether there was one.
    pub(crate) fn remove_oldest(&mut self, current: Option<&Path>) -> Result<bool, Error> {
        let paths = segments(self.folder.path())?;
        let Some(path) = paths.iter().find(|path| Some(path.as_path()) != current) else {
            return Ok(false);
        };
        self.remove(path)?;
        Ok(true)
    }

    /// Removes a segment. The segment is renamed first, so that a concurrent reader finds it
    /// complete or not at all.
    fn remove(&mut self, segment: &Path) -> Result<(), Error> {
        finish_removal(self.folder.path())?;
        match fs::rename(segment, self.folder.path().join(REMOVING)) {
            Ok(()) => finish_removal(self.folder.path())?,
            // On a full disk, even a rename can fail.
            Err(_) => fs::remove_dir_all(segment).map_err(Error::at(segment))?,
        }
        self.ages.forget(segment);
        Ok(())
    }
}

/// Removes the remaining files of a segment whose removal was interrupted.
fn finish_removal(folder: &Path) -> Result<(), Error> {
    let rest = folder.join(REMOVING);
    match fs::remove_dir_all(&rest) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(Error::at(&rest)),
    }
}

/// Returns the directories of the segments, oldest first.
pub(crate) fn segments(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::at(folder))? {
        let path = entry.map_err(Error::at(folder))?.path();
        if let Some(number) = number(&path).filter(|_| path.is_dir()) {
            found.push((number, path));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Returns whether the directory contains anything except the `lost+found` of a file system root.
fn has_other_files(folder: &Path) -> Result<bool, Error> {
    for entry in fs::read_dir(folder).map_err(Error::at(folder))? {
        let name = entry.map_err(Error::at(folder))?.file_name();
        if name != "lost+found" {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the number of a segment, or `None` for any other name, which must not be removed.
fn number(path: &Path) -> Option<u64> {
    let (number, time) = path.file_name()?.to_str()?.split_once('-')?;
    let digits = number.len() >= DIGITS && number.bytes().all(|byte| byte.is_ascii_digit());
    NaiveDateTime::parse_from_str(time, TIME).ok()?;
    digits.then(|| number.parse().ok()).flatten()
}

/// Returns the total size of a segment's files in bytes.
pub(crate) fn size(segment: &Path) -> u64 {
    let files = fs::read_dir(segment).into_iter().flatten().flatten();
    let sizes = files.filter_map(|file| file.metadata().ok().map(|data| data.len()));
    sizes.sum()
}

/// Returns whether a path is a single segment instead of a directory of segments.
pub(crate) fn is_segment(path: &Path) -> bool {
    path.join(index::FILE).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicated_lock_does_not_hold_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = Folder::lock(folder.path()).expect("nobody has it");
        let copy = first._lock.0.try_clone().expect("a copy");
        assert!(Folder::lock(folder.path()).is_err(), "it is taken");
        drop(first);
        Folder::lock(folder.path()).expect("it is free, whoever has a copy");
        drop(copy);
    }

    #[test]
    fn foreign_folder_is_refused_and_left_unchanged() {
        let folder = tempfile::tempdir().expect("a folder");
        let theirs = folder.path().join("20250101-holidays");
        fs::create_dir(&theirs).expect("a folder");
        let Err(refused) = Folder::lock(folder.path()) else {
            panic!("it is theirs");
        };
        assert!(refused.to_string().contains("files but no recording"));
        assert!(!folder.path().join(LOCK).exists());
        fs::remove_dir(&theirs).expect("it is empty");
        fs::create_dir(folder.path().join("lost+found")).expect("a folder");
        Folder::lock(folder.path()).expect("the root of a file system is as good as empty");
    }

    #[test]
    fn exhausted_segment_numbers_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let name = format!("{}-20261124T031000Z", u64::MAX);
        fs::create_dir(folder.path().join(name)).expect("a folder");
        fs::write(folder.path().join(LOCK), "").expect("room");
        let refused = Folder::lock(folder.path()).expect_err("there is no next one");
        assert!(refused.to_string().contains("move this folder away"));
    }

    #[test]
    fn foreign_files_beside_the_segments_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut tape = Folder::lock(folder.path()).expect("nobody has it");
        let theirs = folder.path().join("00000000-holidays");
        fs::create_dir(&theirs).expect("a folder");
        let mut add = || tape.add(0).expect("a segment").path().to_owned();
        let (first, second) = (add(), add());
        assert_eq!(
            segments(folder.path()).expect("a folder"),
            [&*first, &*second]
        );
        let none = Limits {
            bytes: Some(0),
            age_ns: Some(0),
        };
        tape.enforce_limits(&none, Some(&second))
            .expect("they can go");
        assert!(!first.exists(), "it was the oldest");
        assert!(theirs.exists() && second.exists());
        assert!(!tape.remove_oldest(Some(&second)).expect("a folder"));
    }
}
