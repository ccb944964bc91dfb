//! Files that only their owner may read, because program arguments can be secrets.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;
use tempfile::TempPath;

use crate::bounded;

/// Mode bits that a private file must not have: write access for its group, and any access for
/// others.
const FOREIGN: u32 = 0o027;

/// Opens a file for appending, or creates one that only its owner can read.
///
/// Links, files of other users, files with a second name, and files that others can read or write
/// are refused. The user who placed such a file could choose where data is written, or could read
/// the data. Pipes, devices and descriptors are accepted and never block.
pub(crate) fn append(path: &Path) -> io::Result<File> {
    let direct = Direct::of(path);
    let (path, flags) = match &direct {
        Some(direct) => (&*direct.path, direct.flags),
        None => (path, OFlags::NOFOLLOW),
    };
    let regular = std::fs::metadata(path).map_or(true, |found| found.is_file());
    let file = OpenOptions::new()
        .read(regular)
        .append(true)
        .create(direct.is_none())
        .mode(0o600)
        .custom_flags((OFlags::NONBLOCK | flags).bits().cast_signed())
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(code) if code == Errno::LOOP.raw_os_error() => {
                refused("is a symbolic link: name the file itself")
            }
            _ => error,
        })?;
    let found = file.metadata()?;
    if direct.is_some() {
        return Ok(file);
    }
    if found.uid() != geteuid().as_raw() {
        let words = format!(
            "belongs to another user ({}): name another file",
            found.uid()
        );
        return Err(refused(&words));
    }
    if found.nlink() != 1 {
        return Err(refused("has another hard link: name another file"));
    }
    let mode = found.mode() & 0o777;
    if mode & FOREIGN != 0 {
        let words = format!("can be read or written by others (mode {mode:03o}): chmod 600 it");
        return Err(refused(&words));
    }
    Ok(file)
}

/// Other users who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Everyone; the file is not secret.
    All,
    /// Members of the file's group.
    Group,
}

/// The contents of a file.
pub(crate) struct Found {
    pub(crate) bytes: Vec<u8>,
    /// Whether every user can read the file.
    pub(crate) shown: bool,
}

/// Reads a file that controls access. Refuses files that other users own or can write, and secrets
/// that other users can read. Links are followed, because certificates are often renewed through a
/// link.
pub(crate) fn read(path: &Path, readers: Readers) -> io::Result<Found> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(refused("is not a regular file"));
    }
    let (owner, mode) = (found.uid(), found.mode() & 0o777);
    if owner != 0 && owner != geteuid().as_raw() {
        let words = format!("belongs to another user ({owner}): chown it to root");
        return Err(refused(&words));
    }
    if mode & 0o022 != 0 {
        let words = format!("can be written by others (mode {mode:03o}): chmod go-w it");
        return Err(refused(&words));
    }
    if readers == Readers::Group && mode & 0o007 != 0 {
        let words = format!("can be read by every user (mode {mode:03o}): chmod 640 or 600 it");
        return Err(refused(&words));
    }
    let bytes = bounded::read(file, bounded::SETTINGS_MIB)?;
    let shown = mode & 0o004 != 0;
    Ok(Found { bytes, shown })
}

/// An output file. An existing file with the same name is replaced only by [`Answer::keep`].
pub(crate) struct Answer {
    file: File,
    path: PathBuf,
    unnamed: Option<TempPath>,
}

/// Creates an output file that only its owner can read, as a new file in the directory of `path`.
/// `keep` replaces a link or file with this name, without writing through it. Pipes, devices and
/// descriptors are written directly.
pub(crate) fn create(path: &Path) -> io::Result<Answer> {
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        return Err(Errno::ISDIR.into());
    }
    let (file, unnamed) = match Direct::of(path) {
        Some(direct) => {
            let flags = direct.flags.bits().cast_signed();
            let mut options = OpenOptions::new();
            options.append(true).custom_flags(flags);
            (options.open(&direct.path)?, None)
        }
        None => {
            let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            let made = tempfile::Builder::new()
                .prefix(".noctule-")
                .tempfile_in(folder)?;
            let (file, name) = made.into_parts();
            (file, Some(name))
        }
    };
    Ok(Answer {
        file,
        path: path.to_owned(),
        unnamed,
    })
}

impl Answer {
    /// Gives the file its name, unless an earlier call did.
    pub(crate) fn keep(&mut self) -> io::Result<()> {
        match self.unnamed.take() {
            Some(unnamed) => Ok(unnamed.persist(&self.path)?),
            None => Ok(()),
        }
    }
}

impl AsFd for Answer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Write for Answer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A pipe, device or descriptor that is written directly.
struct Direct {
    path: PathBuf,
    flags: OFlags,
}

impl Direct {
    /// Maximum number of links to follow.
    const MOST_LINKS: usize = 8;

    /// Resolves a path, unless it is a file or a link that another user may have created. Links are
    /// followed only in device directories, in which only root can create links. `/dev/shm` is
    /// excluded, because every user can create links there.
    fn of(path: &Path) -> Option<Self> {
        let mut path = std::path::absolute(path).ok()?;
        for _ in 0..Self::MOST_LINKS {
            let folder = path.parent()?.canonicalize().ok()?;
            path = folder.join(path.file_name()?);
            if is_of_descriptors(&folder) {
                let flags = OFlags::empty();
                return is_safe(&folder).then_some(Self { path, flags });
            }
            let kind = std::fs::symlink_metadata(&path).ok()?.file_type();
            if !kind.is_symlink() {
                let flags = OFlags::NOFOLLOW;
                return (!kind.is_file() && !kind.is_dir()).then_some(Self { path, flags });
            }
            if !folder.starts_with("/dev") || !is_safe(&folder) {
                return None;
            }
            path = folder.join(std::fs::read_link(&path).ok()?);
        }
        None
    }
}

/// Returns whether the directory is `/proc/PID/fd`.
fn is_of_descriptors(folder: &Path) -> bool {
    let process = folder.strip_prefix("/proc");
    process.is_ok_and(|process| process.components().count() == 2 && process.ends_with("fd"))
}

/// Returns whether only root and this user can create links in the directory.
fn is_safe(folder: &Path) -> bool {
    std::fs::metadata(folder).is_ok_and(|found| {
        let owner = found.uid();
        (owner == 0 || owner == geteuid().as_raw()) && found.mode() & 0o022 == 0
    })
}

fn refused(words: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, words)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::io::Write as _;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn key_accessible_to_others_is_refused_with_a_fix() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        fs::write(&path, "secret").expect("our file");
        let said = |mode, readers| {
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("our file");
            read(&path, readers).map_or_else(|error| error.to_string(), |_| String::new())
        };
        for (mode, of_key, of_certificate) in [
            (0o600, "", ""),
            (0o640, "", ""),
            (0o644, "mode 644): chmod 640", ""),
            (0o660, "mode 660): chmod go-w", "mode 660): chmod go-w"),
            (0o602, "chmod go-w", "chmod go-w"),
        ] {
            for (readers, expected) in [(Readers::Group, of_key), (Readers::All, of_certificate)] {
                let said = said(mode, readers);
                let right = said.contains(expected) && said.is_empty() == expected.is_empty();
                assert!(right, "{mode:o} {readers:?}: {said}");
            }
        }
        let of_folder = read(folder.path(), Readers::All).map(|_| ()).unwrap_err();
        assert!(
            of_folder.to_string().contains("not a regular file"),
            "{of_folder}"
        );
    }

    #[test]
    fn file_accessible_to_others_is_refused_with_a_fix() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let file = |name: &str, mode: u32| {
            fs::write(at(name), "old").expect("our file");
            fs::set_permissions(at(name), Permissions::from_mode(mode)).expect("our file");
        };
        file("own", 0o600);
        file("group", 0o640);
        file("open", 0o666);
        file("shown", 0o644);
        symlink(at("own"), at("link")).expect("our folder");
        symlink(at("nothing"), at("dangling")).expect("our folder");
        file("twice", 0o600);
        fs::hard_link(at("twice"), at("again")).expect("our folder");
        let cases = [
            ("own", ""),
            ("group", ""),
            ("new", ""),
            ("open", "mode 666): chmod 600"),
            ("shown", "mode 644): chmod 600"),
            ("link", "symbolic link"),
            ("dangling", "symbolic link"),
            ("again", "hard link"),
        ];
        for (name, expected) in cases {
            let said = append(&at(name)).map_or_else(|error| error.to_string(), |_| String::new());
            assert!(
                said.contains(expected) && said.is_empty() == expected.is_empty(),
                "{name}: {said}"
            );
        }
        assert!(!at("nothing").exists());
        let mode = fs::metadata(at("new"))
            .expect("it was made")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read(at("twice")).expect("our file"), b"old");
    }

    #[test]
    fn links_in_shared_folders_below_dev_are_not_followed() {
        let shared = Path::new("/dev/shm");
        if !shared.is_dir() {
            return;
        }
        let folder = tempfile::tempdir_in(shared).expect("a folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("our folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("victim"), "old").expect("our file");
        symlink(at("victim"), at("link")).expect("our folder");
        symlink("/dev/full", at("device")).expect("our folder");
        for name in ["link", "device"] {
            let error = append(&at(name)).unwrap_err().to_string();
            assert!(error.contains("symbolic link"), "{error}");
            let mut answer = create(&at(name)).expect("our folder");
            answer.write_all(b"new").expect("our file");
            answer.keep().expect("our folder");
            assert_eq!(fs::read_to_string(at(name)).expect("our file"), "new");
        }
        assert_eq!(fs::read_to_string(at("victim")).expect("our file"), "old");
    }

    #[test]
    fn output_replaces_links_without_writing_through_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let read = |name: &str| fs::read_to_string(at(name)).unwrap_or_default();
        for name in ["victim", "shown"] {
            fs::write(at(name), "old").expect("our file");
        }
        symlink(at("victim"), at("link")).expect("our folder");
        fs::hard_link(at("victim"), at("twice")).expect("our folder");
        symlink(at("nothing"), at("dangling")).expect("our folder");
        for name in ["new", "shown", "link", "twice", "dangling"] {
            let mut answer = create(&at(name)).expect("our folder");
            answer.write_all(b"new").expect("our file");
            let before = read(name);
            assert_ne!(before, "new", "{name}");
            answer.keep().expect("our folder");
            let kept = fs::symlink_metadata(at(name)).expect("it was kept");
            assert_eq!(
                (kept.is_file(), kept.mode() & 0o777),
                (true, 0o600),
                "{name}"
            );
            answer.write_all(b"er").expect("our file");
            assert_eq!(read(name), "newer");
        }
        assert_eq!(read("victim"), "old");
        assert!(!at("nothing").exists());
        // Simulates a command that fails.
        drop(create(&at("shown")).expect("our folder"));
        assert_eq!(read("shown"), "newer");
        let left = fs::read_dir(folder.path()).expect("our folder").count();
        assert_eq!(left, 6, "the files above and no others");
        let error = create(folder.path()).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        let null = File::open("/dev/null").expect("a device");
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&null);
        for direct in ["/dev/null", "/dev/stdout", &format!("/dev/fd/{descriptor}")] {
            assert!(
                create(Path::new(direct))
                    .expect("a device")
                    .unnamed
                    .is_none()
            );
        }
        let device = create(Path::new("/dev/full")).and_then(|mut it| it.write_all(b"x"));
        assert_eq!(device.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
