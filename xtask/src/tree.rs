//! The files that the checks examine.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// A file of the repository.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// Path from the root of the repository, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
    /// Whether git tracks the file. New files that are not ignored are also included, so that
    /// checks find problems before the commit.
    pub(crate) tracked: bool,
}

/// The files of the repository, sorted by path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    files: Vec<File>,
}

impl Tree {
    /// Reads the working tree as listed by git. Files that are not UTF-8 have empty text. Without a
    /// repository (an unpacked archive), all files except those in .gitignore count as tracked.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let (tracked, new) = if root.join(".git").exists() {
            let new = list(root, &["--others", "--exclude-standard"])?;
            (list(root, &["--cached"])?, new)
        } else {
            (walk(root)?, Vec::new())
        };
        let paths = tracked.into_iter().map(|path| (path, true));
        let mut files = Vec::new();
        for (path, tracked) in paths.chain(new.into_iter().map(|path| (path, false))) {
            // Git also lists deleted files and links.
            let is_file = fs::symlink_metadata(root.join(&path)).is_ok_and(|m| m.is_file());
            if !is_file {
                continue;
            }
            let bytes = fs::read(root.join(&path)).with_context(|| path.clone())?;
            files.push(File {
                path,
                text: String::from_utf8(bytes).unwrap_or_default(),
                tracked,
            });
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// Returns files whose path has this suffix.
    pub(crate) fn ending(&self, end: &str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |f| f.path.ends_with(end))
    }

    pub(crate) fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|f| f.path == path)
    }
}

#[cfg(test)]
impl Tree {
    /// Creates a tree of tracked files, for tests of the checks.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| File {
            path: path.into(),
            text: text.into(),
            tracked: true,
        };
        Self {
            files: files.iter().map(file).collect(),
        }
    }

    /// Adds a file that git does not track.
    pub(crate) fn with_new(mut self, path: &str, text: &str) -> Self {
        self.files.push(File {
            path: path.into(),
            text: text.into(),
            tracked: false,
        });
        self
    }
}

fn list(root: &Path, which: &[&str]) -> Result<Vec<String>> {
    // In a container, the directory often belongs to another user, and git would refuse to list it.
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files", "-z"])
        .args(which)
        .current_dir(root)
        .output()
        .context("starting git to list the files")?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("git ls-files: {}", words.trim());
    }
    let text = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    Ok(text.split_terminator('\0').map(str::to_owned).collect())
}

/// Lists files below the root, except top-level entries in .gitignore.
fn walk(root: &Path) -> Result<Vec<String>> {
    let ignore = fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
    let ignored: Vec<&str> = ignore.lines().map(|l| l.trim_matches('/')).collect();
    let mut files = Vec::new();
    let mut open = vec![String::new()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(root.join(&folder)).with_context(|| folder.clone())? {
            let entry = entry?;
            let name = entry.file_name();
            let path = format!("{folder}{}", name.to_str().context("a name is not UTF-8")?);
            if ignored.contains(&path.as_str()) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                open.push(format!("{path}/"));
            } else {
                files.push(path);
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_the_repository() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let tree = Tree::read(root).expect("git lists it");
        let lock = tree.get("Cargo.lock").expect("a lock file");
        assert!(lock.text.contains("noctule-model"));
        assert!(tree.get("xtask/src/tree.rs").is_some());
        assert!(!tree.files().any(|f| f.path.starts_with("target/")));
    }

    #[test]
    fn finds_the_same_files_without_git() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let walked = walk(root).expect("can be read");
        assert!(!walked.iter().any(|path| path.starts_with("target/")));
        for file in Tree::read(root).expect("git lists it").files() {
            assert!(walked.contains(&file.path), "{}", file.path);
        }
    }
}
