//! Removes what an earlier, killed bench left behind.

use std::fs;
use std::io;
use std::path::Path;

/// Removes directories whose names contain the pid of a bench that has ended. Directories that
/// cannot be removed stay.
pub(super) fn remove(place: &Path, remove: impl Fn(&Path) -> io::Result<()>) {
    let folders = fs::read_dir(place).into_iter().flatten().flatten();
    for folder in folders.map(|entry| entry.path()) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let gone = |pid: u32| !Path::new(&format!("/proc/{pid}")).exists();
        if owner(&name).is_some_and(gone) {
            let _ = remove(&folder);
        }
    }
}

/// Returns the process whose pid the directory's name contains.
fn owner(name: &str) -> Option<u32> {
    let rest = name.strip_prefix("noctule-bench-")?;
    rest.rsplit('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_a_bench_have_an_owner() {
        assert_eq!(owner("noctule-bench-7"), Some(7));
        assert_eq!(owner("noctule-bench-oom-8"), Some(8));
        assert_eq!(owner("noctule-bench-"), None);
        assert_eq!(owner("noctule-test-7"), None);
    }
}
