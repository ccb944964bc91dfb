//! Decides how far the names in a cgroup path can be trusted.
//!
//! Every user who may write to a directory can choose the names of the groups in it. A name is
//! therefore trusted if every directory above it belongs to root (or, in a namespace, to the owner
//! of the whole mount) and no other user may write there. systemd and container runtimes hand
//! subtrees to users by `chown` (delegation). The user chooses the names in a delegated subtree,
//! and may imitate the names of another container.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use noctule_model::{CgroupId, Container, ContainerRole};

use crate::path::{Claim, mark, read};

/// Mode bits that allow the group and others to write.
const OTHERS_WRITE: u32 = 0o022;

/// The position in a path from which a user chose the names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delegated {
    /// The beginning of the path, whose names are trusted.
    pub(crate) above: String,
    /// The owner of the directory `above`.
    pub(crate) uid: u32,
}

/// Finds the first directory above the group that does not belong to root. If a directory no longer
/// exists, the existing directories above it decide.
pub(crate) fn delegated(mount: &Path, path: &str) -> Option<Delegated> {
    let root = std::fs::metadata(mount).ok()?.uid();
    let mut folder = mount.to_owned();
    let mut above = String::new();
    for component in path.split('/').filter(|c| !c.is_empty()) {
        // A path with these components is outside of this mount.
        if matches!(component, "." | "..") {
            return None;
        }
        // The mount point itself belongs to its owner, and the kernel sets its mode.
        if !above.is_empty() {
            let found = std::fs::symlink_metadata(&folder).ok()?;
            let own = found.uid() == 0 || found.uid() == root;
            if !own || found.mode() & OTHERS_WRITE != 0 {
                let uid = found.uid();
                return Some(Delegated { above, uid });
            }
        }
        above.push('/');
        above.push_str(component);
        folder.push(component);
    }
    None
}

/// Returns the owner of a group based on the trusted part of its path.
///
/// A container or unit that only occurs in delegated names is prefixed with the user's id
/// (`1000:NAME`). Such a container or unit is therefore never confused with a container or unit of
/// the machine or of another user. For `node`, see [`read`].
pub(crate) fn owner<'a>(
    id: CgroupId,
    path: &'a str,
    delegated: Option<&'a Delegated>,
    node: &str,
) -> Claim<'a> {
    let claimed = read(id, path, node);
    let Some(delegated) = delegated else {
        return claimed;
    };
    let mut above = read(id, &delegated.above, node);
    let owner = &mut above.owner;
    owner.path = claimed.owner.path;
    let holds = |container: &Container| container.role != ContainerRole::Helper;
    if owner.container.as_ref().is_some_and(holds) {
        return above;
    }
    owner.container = claimed.owner.container.map(|mut container| {
        container.id = mark(delegated.uid, &container.id);
        container.name = None;
        container.chain.clear();
        container
    });
    if claimed.owner.unit != owner.unit {
        let own = mark(delegated.uid, "");
        owner.unit = claimed.owner.unit.map(|unit| match unit.starts_with(&own) {
            // The unit belongs to the user's own manager.
            true => unit,
            false => own + &unit,
        });
    }
    Claim {
        top: claimed.top,
        ..above
    }
}

/// Returns the name without the prefix, as the user chose it.
pub(crate) fn unmarked<'a>(delegated: Option<&Delegated>, name: &'a str) -> &'a str {
    let own = |delegated: &Delegated| name.strip_prefix(&mark(delegated.uid, ""));
    delegated.and_then(own).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaa0000000000000000111111111111111122222222222222a1";

    /// Changing the owner requires root. Write permission for others has the same effect.
    #[test]
    fn names_below_a_delegated_directory_are_untrusted() {
        let mount = tempfile::tempdir().unwrap();
        let open = mount.path().join("system.slice/open.service");
        fs::create_dir_all(open.join("docker/x/y")).unwrap();
        let uid = fs::metadata(&open).unwrap().uid();
        assert_eq!(
            delegated(mount.path(), "/system.slice/open.service/docker"),
            None
        );
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        let above = "/system.slice/open.service".to_owned();
        let found = Some(Delegated { above, uid });
        for path in ["/docker", "/docker/x/y", "/gone/x"] {
            let path = format!("/system.slice/open.service{path}");
            assert_eq!(delegated(mount.path(), &path), found, "{path}");
        }
        // Root chose the name of the group itself.
        for path in [
            "/",
            "/system.slice",
            "/system.slice/open.service",
            "/none/x",
            "/../x",
        ] {
            assert_eq!(delegated(mount.path(), path), None, "{path}");
        }
    }

    #[test]
    fn user_chosen_names_are_marked_with_the_uid() {
        let at = |above: &str| Delegated {
            above: above.to_owned(),
            uid: 1000,
        };
        let user = "/user.slice/user-1000.slice/user@1000.service";
        let pod = "kubepods.slice/kubepods-pod5f0f6d3e_7a1c_4e0b_9d55_0123456789ab.slice";
        let cases = [
            (
                user,
                format!("{user}/docker-{A}.scope"),
                format!("container 1000:{A}"),
            ),
            (
                user,
                format!("{user}/{pod}/cri-containerd-{A}.scope"),
                format!("container 1000:{A}"),
            ),
            (
                user,
                format!("{user}/ssh.service"),
                "unit 1000:ssh.service".into(),
            ),
            // A user imitates a manager unit.
            (
                user,
                format!("{user}/user@0.service/init.scope"),
                "unit 1000:0:init.scope".into(),
            ),
            (
                user,
                format!("{user}/plain"),
                "unit user@1000.service".into(),
            ),
            (
                "/job",
                "/job/ssh.service".into(),
                "unit 1000:ssh.service".into(),
            ),
            ("/job", "/job/plain".into(), "cgroup /job/plain".into()),
            // A container created by root, and a group that the container creates inside.
            (
                &format!("/docker/{A}"),
                format!("/docker/{A}/docker/{}", A.replace('a', "b")),
                format!("container {A}"),
            ),
        ];
        for (above, path, expected) in cases {
            let delegated = at(above);
            let owner = owner(CgroupId(7), &path, Some(&delegated), "").owner;
            let found = match owner.subject() {
                noctule_model::Subject::Container(id) => format!("container {id}"),
                noctule_model::Subject::Unit(unit) => format!("unit {unit}"),
                noctule_model::Subject::Cgroup(path) => format!("cgroup {path}"),
                noctule_model::Subject::Overflow => "overflow".into(),
            };
            assert_eq!((found, owner.path, owner.pod), (expected, path, None));
        }
        assert_eq!(unmarked(Some(&at("/job")), &format!("1000:{A}")), A);
        assert_eq!(unmarked(None, "1000:x"), "1000:x");
    }
}
