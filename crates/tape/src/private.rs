//! Directories and files that only their owner may read, because arguments of programs can contain
//! secrets.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, mkdirat, openat, renameat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::error::Error;

const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;

/// Returns a builder of directories that only their owner can enter.
pub(crate) fn folders() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(FOLDER);
    builder
}

/// Creates a file, and fails if it exists.
pub(crate) fn new_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true).mode(FILE).open(path)
}

/// An open directory. Files are created relative to its descriptor, because another user may move
/// the directory away and put a different one at its path.
#[derive(Debug)]
pub(crate) struct OpenFolder {
    path: PathBuf,
    folder: File,
}

impl OpenFolder {
    /// Opens a directory, also through a symbolic link. Rejects a directory of another user.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let folder = File::options()
            .read(true)
            .custom_flags(OFlags::DIRECTORY.bits().cast_signed())
            .open(path);
        Self::owned(path.to_owned(), folder)
    }

    fn owned(path: PathBuf, folder: io::Result<File>) -> Result<Self, Error> {
        let folder = folder.map_err(Error::at(&path))?;
        let owner = folder.metadata().map_err(Error::at(&path))?.uid();
        match foreign_owner_error(owner, geteuid().as_raw()) {
            None => Ok(Self { path, folder }),
            Some(words) => Err(Error::new(format!("{}: it {words}", path.display()))),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a directory inside this one.
    pub(crate) fn make(&self, name: &str) -> Result<Self, Error> {
        let path = self.path.join(name);
        let made = mkdirat(&self.folder, name, Mode::from_raw_mode(FOLDER));
        made.map_err(io::Error::from).map_err(Error::at(&path))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(&self.folder, name, flags, Mode::empty());
        Self::owned(path, folder.map(File::from).map_err(io::Error::from))
    }

    /// Creates a file in this directory, and fails if it exists.
    pub(crate) fn new_file(&self, name: &str) -> Result<File, Error> {
        self.file(name, OFlags::EXCL)
            .map_err(|error| Error::at(&self.path.join(name))(error.into()))
    }

    /// Opens a file in this directory, or creates it. Rejects symbolic links and files of other
    /// users.
    pub(crate) fn own_file(&self, name: &str) -> Result<File, Error> {
        let path = self.path.join(name);
        let file = match self.file(name, OFlags::NONBLOCK) {
            Err(Errno::LOOP) => {
                let path = path.display();
                return Err(Error::new(format!(
                    "{path}: it is a symbolic link: remove it"
                )));
            }
            file => file.map_err(io::Error::from).map_err(Error::at(&path))?,
        };
        let owner = file.metadata().map_err(Error::at(&path))?.uid();
        match foreign_owner_error(owner, geteuid().as_raw()) {
            None => Ok(file),
            Some(words) => Err(Error::new(format!("{}: it {words}", path.display()))),
        }
    }

    fn file(&self, name: &str, more: OFlags) -> Result<File, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | more;
        openat(&self.folder, name, flags, Mode::from_raw_mode(FILE)).map(File::from)
    }

    /// Renames a file in this directory.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        let renamed = renameat(&self.folder, from, &self.folder, to);
        renamed.map_err(|error| Error::at(&self.path.join(to))(error.into()))
    }
}

/// Returns an error message if a directory or file for secrets belongs to another user, who could
/// replace its content. Root may own it, because root can read everything anyway.
fn foreign_owner_error(owner: u32, me: u32) -> Option<String> {
    (owner != 0 && owner != me).then(|| {
        format!(
            "belongs to another user ({owner}), who could read or replace the recording: choose another \
             folder, or chown it to {me}"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").mode() & 0o777
    }

    #[test]
    fn file_of_another_user_is_refused() {
        let cases = [
            (0, 0, true),
            (65534, 0, false),
            (1000, 1000, true),
            (0, 1000, true),
            (1001, 1000, false),
        ];
        for (owner, me, good) in cases {
            let said = foreign_owner_error(owner, me);
            assert_eq!(said.is_none(), good, "{owner} {me}");
            let names = |said: String| said.contains(&format!("({owner})"));
            assert!(said.is_none_or(names), "{owner} {me}");
        }
    }

    #[test]
    fn files_are_created_in_the_opened_folder() {
        let all = tempfile::tempdir().expect("a folder");
        let (before, after) = (all.path().join("tape"), all.path().join("moved"));
        folders().create(&before).expect("a folder");
        let folder = OpenFolder::open(&before).expect("it is ours");
        fs::rename(&before, &after).expect("our folder");
        fs::create_dir(&before).expect("another one in its place");
        let part = folder.make("part").expect("room");
        fs::rename(after.join("part"), after.join("away")).expect("our folder");
        symlink(&before, after.join("part")).expect("our folder");
        part.new_file("a").expect("room");
        part.rename("a", "b").expect("our file");
        assert!(part.new_file("b").is_err(), "it is there");
        assert_eq!(fs::read_dir(&before).expect("a folder").count(), 0);
        let (made, file) = (after.join("away"), after.join("away/b"));
        assert_eq!((mode(&made), mode(&file)), (0o700, 0o600));
    }

    #[test]
    fn symbolic_link_is_not_followed() {
        let all = tempfile::tempdir().expect("a folder");
        let at = |name: &str| all.path().join(name);
        fs::write(at("theirs"), "").expect("room");
        symlink(at("theirs"), at("link")).expect("our folder");
        symlink(at("nothing"), at("dangling")).expect("our folder");
        let folder = OpenFolder::open(all.path()).expect("it is ours");
        for name in ["link", "dangling"] {
            let error = folder.own_file(name).expect_err("a link").to_string();
            assert!(error.contains("symbolic link: remove it"), "{error}");
            folder.new_file(name).expect_err("it is there");
        }
        assert!(!at("nothing").exists());
        folder.own_file("own").expect("room");
        folder.own_file("own").expect("it is ours");
        assert_eq!(mode(&at("own")), 0o600);
    }
}
