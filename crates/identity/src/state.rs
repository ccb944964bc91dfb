//! Finds containers of plain runc and crun, whose state files contain the path of their cgroup.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use noctule_model::Runtime;
use serde::Deserialize;

use crate::files;
use crate::text::user_of;

/// Maximum number of entries to read in a directory of the node, and in a directory created by a
/// user.
const MAX_ENTRIES: usize = 4096;
const USER_ENTRIES: usize = 256;

/// A directory in which a runtime has a subdirectory for each container.
struct Place {
    directory: &'static str,
    /// Whether there is a level of namespaces between the directory and the containers.
    namespaces: bool,
    format: Format,
    runtime: Runtime,
}

#[derive(Clone, Copy)]
enum Format {
    Runc,
    Crun,
}

impl Format {
    const fn file(self) -> &'static str {
        match self {
            Self::Runc => "state.json",
            Self::Crun => "status",
        }
    }
}

const fn place(
    directory: &'static str,
    namespaces: bool,
    format: Format,
    runtime: Runtime,
) -> Place {
    Place {
        directory,
        namespaces,
        format,
        runtime,
    }
}

/// Directories of the node. These directories include the roots that containerd and Docker pass to
/// runc, because a container may have a custom cgroup path (`ctr run` uses
/// `/<namespace>/<any name>`).
const PLACES: &[Place] = &[
    place("run/runc", false, Format::Runc, Runtime::Oci),
    place("run/crun", false, Format::Crun, Runtime::Oci),
    place(
        "run/containerd/runc",
        true,
        Format::Runc,
        Runtime::Containerd,
    ),
    place(
        "run/docker/runtime-runc",
        true,
        Format::Runc,
        Runtime::Docker,
    ),
];

/// Directories of a user, below `run/user/<uid>`.
const USER_PLACES: &[Place] = &[
    place("runc", false, Format::Runc, Runtime::Oci),
    place("crun", false, Format::Crun, Runtime::Oci),
];

/// The fields of runc's state that noctule requires. The map contains the absolute directory for
/// each controller; on v2 the key is "".
#[derive(Deserialize)]
struct RuncState {
    id: String,
    cgroup_paths: Option<HashMap<String, String>>,
}

/// The fields of crun's status that noctule requires. The path starts at the root of the hierarchy.
#[derive(Deserialize)]
struct CrunStatus {
    #[serde(rename = "cgroup-path")]
    cgroup_path: Option<String>,
}

/// A container with a state file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stateful {
    pub(crate) id: String,
    pub(crate) runtime: Runtime,
}

/// Content of a state file, and its version.
struct Seen {
    version: (u64, i64, i64),
    /// The user whose directory has the file; `None` for the node's directories.
    user: Option<String>,
    /// The cgroup, if it is in the hierarchy that the kernel side reads.
    path: Option<String>,
    container: Stateful,
}

/// Containers with state files, by cgroup path.
pub(crate) struct StateIndex {
    root: PathBuf,
    /// Mount points of the hierarchy as runtimes see it: the given mount point, and the target if
    /// it is a symbolic link.
    mounts: Vec<PathBuf>,
    seen: HashMap<PathBuf, Seen>,
    by_path: HashMap<String, Stateful>,
}

impl StateIndex {
    /// `cgroup_mount` is the mount point as this process sees it. Runtimes see the mount point
    /// without `root`.
    pub(crate) fn new(root: &Path, cgroup_mount: &Path) -> Self {
        let outside = |mount: &Path| match mount.strip_prefix(root) {
            Ok(rest) => Path::new("/").join(rest),
            Err(_) => mount.to_owned(),
        };
        let mut mounts = vec![outside(cgroup_mount)];
        // On v1, `cpu` is often a symbolic link to `cpu,cpuacct`, and runc records the target.
        if let (Ok(mount), Ok(root)) = (cgroup_mount.canonicalize(), root.canonicalize()) {
            mounts.push(match mount.strip_prefix(root) {
                Ok(rest) => Path::new("/").join(rest),
                Err(_) => mount,
            });
        }
        Self {
            root: root.to_owned(),
            mounts,
            seen: HashMap::new(),
            by_path: HashMap::new(),
        }
    }

    /// Finds new and changed state files of the node or of a user, and drops those that no longer
    /// exist.
    pub(crate) fn refresh(&mut self, user: Option<&str>) {
        let mut present = HashSet::new();
        let (base, places) = match user {
            None => (self.root.clone(), PLACES),
            Some(user) => (self.root.join("run/user").join(user), USER_PLACES),
        };
        for place in places {
            self.scan(place, &base.join(place.directory), user, &mut present);
        }
        self.seen
            .retain(|file, seen| seen.user.as_deref() != user || present.contains(file));
        let known = self.seen.values();
        self.by_path = known
            .filter_map(|seen| Some((seen.path.clone()?, seen.container.clone())))
            .collect();
    }

    /// Returns the nearest container at or above this path, with the path of its group.
    pub(crate) fn lookup<'a>(&self, path: &'a str) -> Option<(&'a str, &Stateful)> {
        let mut path = path;
        while !path.is_empty() {
            if let Some(container) = self.by_path.get(path) {
                return Some((path, container));
            }
            path = path.rsplit_once('/')?.0;
        }
        None
    }

    fn scan(
        &mut self,
        place: &Place,
        directory: &Path,
        user: Option<&str>,
        present: &mut HashSet<PathBuf>,
    ) {
        if place.namespaces {
            for namespace in files::names_in(directory, MAX_ENTRIES) {
                let runtime = match namespace.as_str() {
                    "moby" => Runtime::Docker,
                    _ => place.runtime,
                };
                self.scan_flat(
                    place.format,
                    runtime,
                    &directory.join(namespace),
                    user,
                    present,
                );
            }
        } else {
            self.scan_flat(place.format, place.runtime, directory, user, present);
        }
    }

    fn scan_flat(
        &mut self,
        format: Format,
        runtime: Runtime,
        directory: &Path,
        user: Option<&str>,
        present: &mut HashSet<PathBuf>,
    ) {
        let (entries, most) = match user {
            None => (MAX_ENTRIES, files::MAX_BYTES),
            Some(_) => (USER_ENTRIES, files::USER_BYTES),
        };
        for id in files::names_in(directory, entries) {
            let file = directory.join(&id).join(format.file());
            let Ok(meta) = fs::symlink_metadata(&file) else {
                continue;
            };
            // The runtimes runc and crun replace the file when they write it.
            let version = (meta.ino(), meta.mtime(), meta.mtime_nsec());
            let known = self.seen.get(&file).is_some_and(|s| s.version == version);
            if !known {
                let Some((id, path)) = self.read(format, &file, id, most) else {
                    continue;
                };
                // A user may write any path here, but may only claim groups in the user's own
                // slice.
                let path = path.filter(|p| user.is_none_or(|user| user_of(p) == Some(user)));
                let container = Stateful { id, runtime };
                let seen = Seen {
                    version,
                    user: user.map(str::to_owned),
                    path,
                    container,
                };
                self.seen.insert(file.clone(), seen);
            }
            present.insert(file);
        }
    }

    /// Returns id and cgroup path of a state file. Returns `None` if the file cannot be read, so
    /// that the read is repeated later.
    fn read(
        &self,
        format: Format,
        file: &Path,
        id: String,
        most: u64,
    ) -> Option<(String, Option<String>)> {
        match format {
            Format::Runc => {
                let state: RuncState = files::parse_within(file, most).ok()?;
                let paths = state.cgroup_paths.unwrap_or_default();
                let path = paths.values().find_map(|path| self.relative(path));
                Some((state.id, path))
            }
            Format::Crun => {
                let status: CrunStatus = files::parse_within(file, most).ok()?;
                let path = status.cgroup_path.as_deref().unwrap_or_default();
                Some((id, hierarchy_path(crun_group(path))))
            }
        }
    }

    /// Converts a directory that a runtime recorded to a path in the hierarchy.
    fn relative(&self, directory: &str) -> Option<String> {
        let directory = Path::new(directory);
        self.mounts.iter().find_map(|mount| {
            let rest = directory.strip_prefix(mount).ok()?;
            hierarchy_path(&rest.to_string_lossy())
        })
    }
}

/// Removes the level below the scope in which crun may put the container's tasks.
fn crun_group(path: &str) -> &str {
    match path.strip_suffix("/container") {
        Some(scope) if scope.ends_with(".scope") => scope,
        _ => path,
    }
}

/// Returns the path with one leading slash; `None` for the root, which is not a container.
fn hierarchy_path(path: &str) -> Option<String> {
    let path = path.trim_matches('/');
    (!path.is_empty()).then(|| format!("/{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: &str = r#"{"id":"web","init_process_pid":1,"cgroup_paths":{"":"/sys/fs/cgroup/unified/x/web","cpu":"/sys/fs/cgroup/cpu,cpuacct/y/web","cpuset":"/sys/fs/cgroup/cpuset/z"}}"#;
    const V2: &str =
        r#"{"id":"v2","cgroup_paths":{"":"/sys/fs/cgroup/cpu/system.slice/runc-v2.scope"}}"#;
    const SPOOF: &str =
        r#"{"id":"mine","cgroup_paths":{"":"/sys/fs/cgroup/cpu/system.slice/ssh.service"}}"#;
    const OWN: &str =
        r#"{"id":"own","cgroup_paths":{"":"/sys/fs/cgroup/cpu/user.slice/user-1000.slice/own"}}"#;

    #[test]
    fn groups_are_found_by_state_files() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let cgroup = root.join("sys/fs/cgroup");
        fs::create_dir_all(cgroup.join("cpu,cpuacct")).unwrap();
        std::os::unix::fs::symlink("cpu,cpuacct", cgroup.join("cpu")).unwrap();
        let files = [
            ("run/runc/web/state.json", STATE),
            ("run/runc/torn/state.json", "{\"id\":"),
            (
                "run/runc/rootless/state.json",
                r#"{"id":"rootless","cgroup_paths":null}"#,
            ),
            (
                "run/runc/top/state.json",
                r#"{"id":"top","cgroup_paths":{"":"/sys/fs/cgroup/cpu"}}"#,
            ),
            (
                "run/crun/job/status",
                r#"{"pid":7,"cgroup-path":"/system.slice/crun-job.scope/container"}"#,
            ),
            ("run/crun/none/status", r#"{"pid":7,"cgroup-path":""}"#),
            ("run/containerd/runc/default/c/state.json", V2),
            ("run/user/1000/runc/mine/state.json", SPOOF),
            ("run/user/1000/runc/own/state.json", OWN),
        ];
        for (file, text) in files {
            let file = root.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let mut index = StateIndex::new(root, &cgroup.join("cpu"));
        assert!(
            index.lookup("/y/web").is_none(),
            "nothing is read before the first refresh"
        );
        index.refresh(None);
        index.refresh(Some("1000"));
        let cases = [
            ("/y/web", Some("oci web")),
            ("/y/web/init.scope", Some("oci web")),
            ("/y/webs", None),
            ("/y", None),
            ("/x/web", None),
            ("/", None),
            ("", None),
            ("/system.slice/crun-job.scope", Some("oci job")),
            ("/system.slice/crun-job.scope/container/a", Some("oci job")),
            ("/system.slice/runc-v2.scope", Some("containerd v2")),
            ("/system.slice/ssh.service", None),
            ("/user.slice/user-1000.slice/own/sub", Some("oci own")),
        ];
        for (path, expected) in cases {
            let found = index
                .lookup(path)
                .map(|(_, c)| format!("{} {}", c.runtime.name(), c.id));
            assert_eq!(found.as_deref(), expected, "{path}");
        }
        fs::remove_dir_all(root.join("run/runc/web")).unwrap();
        index.refresh(None);
        assert!(index.lookup("/y/web").is_none(), "deleted");
        let own = "/user.slice/user-1000.slice/own";
        assert!(
            index.lookup(own).is_some(),
            "of a user who was not looked at"
        );
    }
}
