//! Directories in the cache. Each is created once, and exists only if it is complete.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Fills the directory if it does not exist, or always if `anew` is set.
pub(super) fn folder(
    folder: &Path,
    anew: bool,
    fill: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    if folder.exists() && !anew {
        return Ok(());
    }
    let mut part = OsString::from(folder);
    part.push(".part");
    let part = PathBuf::from(part);
    remove(&part)?;
    fs::create_dir_all(&part).with_context(|| part.display().to_string())?;
    fill(&part)?;
    remove(folder)?;
    fs::rename(&part, folder).with_context(|| folder.display().to_string())
}

/// Removes the directory, if it exists.
pub(super) fn remove(folder: &Path) -> Result<()> {
    match folder.exists() {
        true => fs::remove_dir_all(folder).with_context(|| folder.display().to_string()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    #[test]
    fn only_complete_folders_exist() {
        let place = tempfile::tempdir().expect("a folder of our own");
        // Names that differ only after a dot must not collide.
        let [one, other] = ["6.1", "6.12"].map(|name| place.path().join(name));
        let fails = folder(&one, false, |part| {
            fs::write(part.join("half"), "")?;
            folder(&other, false, |part| Ok(fs::write(part.join("whole"), "")?))?;
            bail!("no more")
        });
        assert!(fails.is_err() && !one.exists());
        assert!(other.join("whole").exists());
        folder(&one, false, |part| Ok(fs::write(part.join("whole"), "")?)).expect("made");
        assert!(one.join("whole").exists() && !one.join("half").exists());
        folder(&one, false, |_| bail!("it is there")).expect("kept");
        folder(&one, true, |_| Ok(())).expect("made anew");
        assert!(!one.join("whole").exists());
    }
}
