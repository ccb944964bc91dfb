//! Checks whether this process sees the cgroups of the whole node, for `noctule doctor`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use noctule_model::CgroupId;

use crate::files;

/// Target of `/proc/<pid>/ns/cgroup` in the initial cgroup namespace of every kernel
/// (`PROC_CGROUP_INIT_INO`).
const FIRST_NAMESPACE: &str = "cgroup:[4026531835]";

/// Returns a message if this process is in its own cgroup namespace, where the paths in
/// `/proc/<pid>/cgroup` are relative. `root` is the directory with the node's `proc`.
///
/// Returns `None` if it is in the initial namespace, or if the files cannot be read.
pub fn namespace_note(root: &Path) -> Option<String> {
    let own = root.join("proc/self");
    if let Some(path) = relative_path(&own) {
        return Some(format!(
            "the agent is in a cgroup namespace: its own cgroup is shown as {path}, so paths in \
            /proc are relative; run the agent in the host's cgroup namespace (--cgroupns=host)"
        ));
    }
    let link = fs::read_link(own.join("ns/cgroup")).ok()?;
    (link.as_os_str() != FIRST_NAMESPACE).then(|| {
        "the agent runs in its own cgroup namespace and sees only the cgroups inside it; \
        mount the host's cgroup file system, or run the agent in the host's cgroup namespace \
         (--cgroupns=host)"
            .to_owned()
    })
}

/// Returns the first path in the process's list that points outside the namespace.
fn relative_path(process: &Path) -> Option<String> {
    let list = files::read(&process.join("cgroup")).ok()?;
    let list = String::from_utf8_lossy(&list);
    let mut paths = list.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths
        .find(|path| path.starts_with("/.."))
        .map(str::to_owned)
}

/// Returns a message if the mount shows only a subtree of the hierarchy. The root of such a mount
/// is not the root of the hierarchy, and groups outside that subtree have no path until the kernel
/// reports one.
///
/// Returns `None` if the mount shows the whole hierarchy, or if that cannot be determined.
pub fn mount_note(cgroup_mount: &Path) -> Option<String> {
    let inode = fs::metadata(cgroup_mount).ok()?.ino();
    (CgroupId(inode) != CgroupId::ROOT).then(|| {
        format!(
            "{} shows only a part of the cgroup hierarchy (its root is cgroup {inode}); mount the \
            host's cgroup file system there",
            cgroup_mount.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn cgroup_namespace_is_detected_by_path_or_inode() {
        let first = "cgroup:[4026531835]";
        let cases = [
            ("0::/system.slice/noctule.service\n", first, None),
            (
                "3:cpu:/a\n0::/../../user.slice\n",
                first,
                Some("/../../user.slice"),
            ),
            ("0::/\n", "cgroup:[4026532000]", Some("in its own")),
            ("0::/..\n", "cgroup:[4026532000]", Some("shown as /..,")),
            ("", "", None),
        ];
        for (list, namespace, expected) in cases {
            let root = tempfile::tempdir().unwrap();
            let own = root.path().join("proc/self");
            fs::create_dir_all(own.join("ns")).unwrap();
            fs::write(own.join("cgroup"), list).unwrap();
            if !namespace.is_empty() {
                symlink(namespace, own.join("ns/cgroup")).unwrap();
            }
            let note = namespace_note(root.path());
            assert_eq!(note.is_some(), expected.is_some(), "{list:?}");
            if let (Some(note), Some(part)) = (note, expected) {
                assert!(note.contains(part), "{note}");
            }
        }
        assert_eq!(namespace_note(Path::new("/nowhere")), None);
    }

    #[test]
    fn mount_of_a_part_of_the_hierarchy_is_noted() {
        let part = tempfile::tempdir().unwrap();
        assert!(mount_note(part.path()).unwrap().contains("only a part"));
        assert_eq!(mount_note(&part.path().join("none")), None);
    }
}
