//! How far the names in a cgroup path can be believed.
//!
//! Every user who may write to a directory can name the groups in it. So a name is the machine's own as long
//! as every directory above it belongs to root (or to the owner of the whole mount, in a namespace) and
//! nobody else may write there. systemd and container runtimes hand parts of the tree to users by
//! `chown` (delegation): names below are the user's choice, and may be those of somebody else's container.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use noctule_model::{CgroupId, Container, ContainerRole};

use crate::path::{Claim, mark, read};

/// Leave to write for the group and for everybody.
const OTHERS_WRITE: u32 = 0o022;

/// Where the names of a path begin to be a user's choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delegated {
    /// The part of the path whose names are the machine's own.
    pub(crate) above: String,
    /// The user to whom the directory at its end belongs.
    pub(crate) uid: u32,
}

/// Looks for the first directory above the group that is not root's. A directory that is gone was made in
/// one that is there: what could be looked at decides.
pub(crate) fn delegated(mount: &Path, path: &str) -> Option<Delegated> {
    let root = std::fs::metadata(mount).ok()?.uid();
    let mut folder = mount.to_owned();
    let mut above = String::new();
    for component in path.split('/').filter(|c| !c.is_empty()) {
        // Not a part of this mount.
        if matches!(component, "." | "..") {
            return None;
        }
        // The mount itself belongs to its owner, and its mode is the kernel's.
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

/// The owner of a group: by its whole path, or, where a part of it was delegated, by the part above. A
/// container or unit that only the user's own names give has the user's number before its name
/// (`1000:NAME`): it is never one with a container or unit of the machine, nor with another user's. `node`: see
/// [`read`].
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
            // It is in the user's own manager.
            true => unit,
            false => own + &unit,
        });
    }
    Claim {
        top: claimed.top,
        ..above
    }
}

/// Such a name as the user chose it.
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

    /// Changing the owner takes root; leave to write for everybody is as bad.
    #[test]
    fn names_below_a_directory_of_others_are_theirs() {
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
        // The group itself has the name that root gave it.
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
    fn a_users_names_are_marked_and_never_those_of_the_machine() {
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
            // A manager that the user pretends to be.
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
            // A container that root made, and what it makes within.
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
