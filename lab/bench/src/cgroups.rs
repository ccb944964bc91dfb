//! Cgroups of the bench, in the hierarchy of a controller: v1 if that is mounted, v2 otherwise.
//! noctule reads the hierarchy of the cpu controller.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::leftovers;

/// Cgroups below one top-level group. Dropping this value removes all of them, once they are empty.
pub(super) struct Cgroups {
    mount: PathBuf,
    /// The original cgroup of the bench, to which the bench returns.
    home: PathBuf,
    top: PathBuf,
    made: RefCell<Vec<PathBuf>>,
}

impl Cgroups {
    /// Creates a group of this name at the top of the hierarchy.
    pub(super) fn new(controller: &str, name: &str) -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").context("mountinfo")?;
        let mount = find_mount(&mounts, controller).context("no cgroup hierarchy is mounted")?;
        let own = fs::read_to_string("/proc/self/cgroup").context("/proc/self/cgroup")?;
        let home = mount.join(own_path(&own, controller).trim_start_matches('/'));
        // A group that has processes or children is kept.
        leftovers::remove(&mount, |folder| fs::remove_dir(folder));
        let top = mount.join(name);
        fs::create_dir(&top).with_context(|| top.display().to_string())?;
        let made = RefCell::new(vec![top.clone()]);
        Ok(Self {
            mount,
            home,
            top,
            made,
        })
    }

    /// Returns the top-level group.
    pub(super) fn top(&self) -> &Path {
        &self.top
    }

    /// Creates a group below the top-level group, and any missing parents.
    pub(super) fn add(&self, path: &str) -> Result<PathBuf> {
        let mut folder = self.top.clone();
        for part in path.split('/') {
            folder.push(part);
            if folder.exists() {
                continue;
            }
            fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
            self.made.borrow_mut().push(folder.clone());
        }
        Ok(folder)
    }

    /// Moves the calling process back to its original group.
    pub(super) fn leave(&self) -> Result<()> {
        let home = if self.home.is_dir() {
            &self.home
        } else {
            &self.mount
        };
        fs::write(home.join("cgroup.procs"), "0").context("leaving the cgroup")
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        let _ = self.leave();
        for folder in self.made.borrow().iter().rev() {
            // The kernel allows the removal only a moment after the last process has ended.
            let gone = (0..200).any(|_| {
                let gone = fs::remove_dir(folder).is_ok() || !folder.exists();
                if !gone {
                    thread::sleep(Duration::from_millis(10));
                }
                gone
            });
            if !gone {
                super::say(&format!("cannot be removed: {}", folder.display()));
            }
        }
    }
}

fn find_mount(mountinfo: &str, controller: &str) -> Option<PathBuf> {
    let mut unified = None;
    for line in mountinfo.lines() {
        let (fields, tail) = line.split_once(" - ")?;
        let at = Path::new(fields.split(' ').nth(4)?);
        let tail: Vec<&str> = tail.split(' ').collect();
        let options = tail.get(2).copied().unwrap_or_default();
        match tail.first() {
            Some(&"cgroup") if options.split(',').any(|o| o == controller) => {
                return Some(at.into());
            }
            Some(&"cgroup2") => unified = Some(at.into()),
            _ => {}
        }
    }
    unified
}

/// Returns the bench's path in the controller's hierarchy, or in v2.
fn own_path<'a>(cgroup: &'a str, controller: &str) -> &'a str {
    let mut unified = "/";
    for line in cgroup.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        if controllers.split(',').any(|c| c == controller) {
            return path;
        }
        if controllers.is_empty() {
            unified = path;
        }
    }
    unified
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1: &str = "31 23 0:27 / /cg/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n";
    const SET: &str = "32 23 0:28 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n";

    #[test]
    fn v1_cpu_controller_takes_precedence() {
        let find = |text: &str| find_mount(text, "cpu");
        assert_eq!(find(V2), Some("/sys/fs/cgroup".into()));
        assert_eq!(find(&[V2, SET].concat()), Some("/sys/fs/cgroup".into()));
        assert_eq!(
            find(&[V2, SET, V1].concat()),
            Some("/cg/cpu,cpuacct".into())
        );
        assert_eq!(find(SET), None);
    }

    #[test]
    fn own_path_is_read_from_the_same_hierarchy() {
        assert_eq!(own_path("0::/user.slice\n", "cpu"), "/user.slice");
        let hybrid = "5:cpuset:/a\n4:cpu,cpuacct:/b\n0::/c\n";
        assert_eq!(own_path(hybrid, "cpu"), "/b");
        assert_eq!(own_path("", "cpu"), "/");
    }
}
