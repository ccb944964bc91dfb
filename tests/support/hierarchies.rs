//! The mounted cgroup hierarchies, and the cgroups of processes in them.

use std::fs;
use std::path::{Path, PathBuf};

/// A mounted hierarchy.
pub(crate) struct Hierarchy {
    /// The mount point.
    pub(crate) mount: PathBuf,
    /// Controllers of v1, including `name=`; empty for v2.
    controllers: Vec<String>,
}

/// Returns all mounted hierarchies.
pub(crate) fn all() -> Vec<Hierarchy> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
    let parse = |line: &str| {
        let (fields, tail) = line.split_once(" - ")?;
        let tail: Vec<&str> = tail.split(' ').collect();
        let controllers = match tail[0] {
            "cgroup" => tail[2].split(',').map(str::to_owned).collect(),
            "cgroup2" => Vec::new(),
            _ => return None,
        };
        let mount = fields.split(' ').nth(4)?.into();
        Some(Hierarchy { mount, controllers })
    };
    mounts.lines().filter_map(parse).collect()
}

/// Returns the hierarchy with this v1 controller, or v2.
pub(crate) fn with(controller: &str) -> Hierarchy {
    let (mut v2, v1): (Vec<_>, Vec<_>) = all().into_iter().partition(|h| h.controllers.is_empty());
    let has = |h: &Hierarchy| h.controllers.iter().any(|c| c == controller);
    let v1 = v1.into_iter().find(has);
    v1.or_else(|| v2.pop()).expect("a cgroup hierarchy")
}

/// Returns the directory of a process in the hierarchy with this v1 controller, or of v2.
pub(crate) fn folder_of(pid: u32, controller: &str) -> PathBuf {
    let hierarchy = with(controller);
    let list = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("the process is there");
    let path = list.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        let here = match hierarchy.controllers.is_empty() {
            true => controllers.is_empty(),
            false => controllers.split(',').any(|c| c == controller),
        };
        here.then(|| fields.next()).flatten()
    });
    join(&hierarchy.mount, path.expect("a path"))
}

/// Joins a mount point and the path of a group as shown by `/proc`.
pub(crate) fn join(mount: &Path, path: &str) -> PathBuf {
    mount.join(path.trim_start_matches('/'))
}
