//! Reads files that untrusted users may have created.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use serde::de::DeserializeOwned;

/// Maximum size of a file that is read.
pub(crate) const MAX_BYTES: u64 = 4 << 20;

/// Maximum size of a file created by a user, who could cause the agent to read it repeatedly.
pub(crate) const USER_BYTES: u64 = 512 << 10;

/// Why a file could not be used.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The file does not exist: it may not have been created yet, or it was removed.
    Missing,
    /// The file exists but cannot be used, for this reason.
    Unusable(String),
}

/// Reads a regular file of bounded size. Never waits for another process, because FIFOs and devices
/// are not read.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    read_within(path, MAX_BYTES)
}

/// Maximum number of consecutive symbolic links to follow.
const MOST_LINKS: usize = 8;

/// Reads a file of the administrator, which may be a symbolic link. `path` and link targets are
/// paths on the node, whose root directory is `root`.
pub(crate) fn read_linked(root: &Path, path: &str) -> Result<Vec<u8>, Failure> {
    let mut file = below(root, path);
    for _ in 0..MOST_LINKS {
        let Ok(target) = std::fs::read_link(&file) else {
            break;
        };
        let folder = file.parent().and_then(|it| it.strip_prefix(root).ok());
        // An absolute target replaces the directory.
        file = below(root, folder.unwrap_or(Path::new("")).join(target));
    }
    read(&file)
}

/// Converts a path on the node to a path of this process. The result is never above `root`.
pub(crate) fn below(root: &Path, path: impl AsRef<Path>) -> PathBuf {
    let mut below = PathBuf::new();
    for component in path.as_ref().components() {
        match component {
            Component::Normal(name) => below.push(name),
            Component::ParentDir => {
                below.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    root.join(below)
}

/// Like [`read`], with a limit of `most` bytes.
pub(crate) fn read_within(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let unusable = |why: &str| Failure::Unusable(format!("{}: {why}", path.display()));
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Failure::Missing,
        _ => unusable(&error.to_string()),
    };
    // Opening a FIFO without O_NONBLOCK would wait for a writer. Runtimes create no symbolic links
    // here. A user could create a link to a device that has side effects when it is opened.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY)
        .open(path)
        .map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(unusable("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > most {
        return Err(unusable("too large"));
    }
    Ok(bytes)
}

/// Reads a JSON file of at most `most` bytes.
pub(crate) fn parse_within<T: DeserializeOwned>(path: &Path, most: u64) -> Result<T, Failure> {
    let bytes = read_within(path, most)?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Failure::Unusable(format!("{}: {error}", path.display())))
}

/// Returns up to `limit` names in a directory. Returns none if the directory cannot be read.
pub(crate) fn names_in(directory: &Path, limit: usize) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .take(limit)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    #[test]
    fn symbolic_links_stay_below_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("etc/docker")).unwrap();
        fs::create_dir_all(root.join("opt")).unwrap();
        fs::write(root.join("opt/real"), "inside").unwrap();
        fs::write(dir.path().join("opt"), "outside").unwrap();
        let links = [
            ("absolute", "/opt/real"),
            ("relative", "../../opt/real"),
            ("above", "../../../../opt/real"),
            ("twice", "absolute"),
            ("round", "round"),
            ("out", "../../../opt"),
        ];
        for (link, target) in links {
            std::os::unix::fs::symlink(target, root.join("etc/docker").join(link)).unwrap();
            let text = read_linked(&root, &format!("/etc/docker/{link}")).ok();
            let expected = (!matches!(link, "round" | "out")).then(|| b"inside".to_vec());
            assert_eq!(text, expected, "{link}");
        }
    }

    #[test]
    fn only_small_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("good"), "{\"a\":1}").unwrap();
        fs::write(at("torn"), "{\"a\":").unwrap();
        fs::write(at("large"), vec![b' '; MAX_BYTES as usize + 1]).unwrap();
        std::os::unix::fs::symlink(at("good"), at("link")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        let made = Command::new("mkfifo").arg(at("fifo")).status().unwrap();
        assert!(made.success());
        let cases = [
            ("good", "ok"),
            ("torn", "EOF"),
            ("large", "too large"),
            ("link", "symbolic link"),
            ("directory", "not a regular file"),
            ("fifo", "not a regular file"),
            ("none", "missing"),
            ("good/none", "missing"),
        ];
        for (name, expected) in cases {
            let said = match parse_within::<serde_json::Value>(&at(name), MAX_BYTES) {
                Ok(_) => "ok".to_owned(),
                Err(Failure::Missing) => "missing".to_owned(),
                Err(Failure::Unusable(why)) => why,
            };
            assert!(said.contains(expected), "{name}: {said}");
        }
    }
}
