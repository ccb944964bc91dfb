//! Reading files that strangers may have made.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::de::DeserializeOwned;

/// Files larger than this are not read.
pub(crate) const MAX_BYTES: u64 = 4 << 20;

/// The same of files that a user makes, who could let them be read again and again.
pub(crate) const USER_BYTES: u64 = 512 << 10;

/// Why a file gave nothing.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It is not there (yet, or any more).
    Missing,
    /// It is there and of no use; in words.
    Unusable(String),
}

/// Reads a regular file of bounded size. Never waits for a peer: a FIFO or device is not read.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    read_within(path, MAX_BYTES)
}

fn read_within(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let unusable = |why: &str| Failure::Unusable(format!("{}: {why}", path.display()));
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Failure::Missing,
        _ => unusable(&error.to_string()),
    };
    // Opening a FIFO without O_NONBLOCK waits for a writer. Runtimes leave no links here; a user
    // could leave one to a device whose mere opening does something.
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

/// Reads a JSON file.
pub(crate) fn parse<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    parse_within(path, MAX_BYTES)
}

/// The same of no more than so many bytes.
pub(crate) fn parse_within<T: DeserializeOwned>(path: &Path, most: u64) -> Result<T, Failure> {
    let bytes = read_within(path, most)?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Failure::Unusable(format!("{}: {error}", path.display())))
}

/// Names in a directory, at most `limit`; none when it cannot be read.
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
    fn what_is_not_a_small_regular_file_is_refused_in_words() {
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
            let said = match parse::<serde_json::Value>(&at(name)) {
                Ok(_) => "ok".to_owned(),
                Err(Failure::Missing) => "missing".to_owned(),
                Err(Failure::Unusable(why)) => why,
            };
            assert!(said.contains(expected), "{name}: {said}");
        }
    }
}
