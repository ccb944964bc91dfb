//! Decides which group a container id belongs to if several groups claim it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use noctule_model::{CgroupId, ContainerRole, Owner, shrink_sparse};

use super::Registry;
use crate::group::Life;
use crate::path::{Claim, read};
use crate::trust::{self, Delegated};

/// Maximum number of node containers on this machine.
const MAX_NODES: usize = 256;

/// Claims of container ids by live groups.
#[derive(Default)]
pub(super) struct Claims {
    /// The group of each container, by container id.
    holders: HashMap<String, CgroupId>,
    /// Paths of node containers. Containers inside a node have their own rows.
    nodes: Vec<String>,
    /// The components of the kernel's paths that are above the root of a partial mount.
    hidden: Option<String>,
}

impl Claims {
    pub(super) fn shrink(&mut self) {
        shrink_sparse(&mut self.holders);
    }

    #[cfg(test)]
    pub(super) fn holder(&self, container: &str) -> Option<CgroupId> {
        self.holders.get(container).copied()
    }
}

impl Registry {
    /// Returns the owner of a group according to its path. A group that claims the id of a
    /// container elsewhere gets the owner of its parent.
    pub(super) fn claim(
        &mut self,
        id: CgroupId,
        path: &str,
        delegated: Option<&Delegated>,
    ) -> Owner {
        let seen = self.mounted_path(id, path);
        let node = self.node_above(&seen).to_owned();
        let Claim { mut owner, top } = trust::owner(id, &seen, delegated, &node);
        let container = owner.container.as_ref();
        let container = container.filter(|it| it.role != ContainerRole::Helper);
        if let (Some(container), Some(top)) = (container, top)
            && !self.grants(id, &seen, &container.id, top)
        {
            let above = top.rsplit_once('/').map_or("", |(above, _)| above);
            let above = delegated.map_or(above, |delegated| &delegated.above);
            owner = read(id, above, &node).owner;
        }
        path.clone_into(&mut owner.path);
        owner
    }

    /// Returns whether the container whose group is at `top` may have this id.
    pub(super) fn grants(&mut self, id: CgroupId, path: &str, container: &str, top: &str) -> bool {
        let holder = self.claims.holders.get(container);
        if holder.is_some_and(|&holder| holder != id && self.exists_elsewhere(holder, top)) {
            return false;
        }
        if path == top {
            self.claims.holders.insert(container.to_owned(), id);
        }
        true
    }

    /// Returns whether that group exists at another path. The removal of the group may not have
    /// been reported, so the hierarchy is checked. With a partial mount, this can only rely on the
    /// kernel's events.
    fn exists_elsewhere(&self, holder: CgroupId, top: &str) -> bool {
        let Some(group) = self.groups.get(&holder) else {
            return false;
        };
        let known = group.owner.path.as_str();
        let known = self.without_hidden(known).unwrap_or(known);
        group.life == Life::Live && known != top && (self.partial || self.is_at(holder, known))
    }

    fn is_at(&self, id: CgroupId, path: &str) -> bool {
        let folder = self.config.cgroup_mount.join(path.trim_start_matches('/'));
        fs::symlink_metadata(folder).is_ok_and(|found| found.ino() == id.0)
    }

    /// Releases the container id that a group holds.
    pub(super) fn release(&mut self, id: CgroupId) {
        let Some(group) = self.groups.get(&id) else {
            return;
        };
        self.claims.nodes.retain(|node| *node != group.owner.path);
        if let Some(container) = &group.owner.container
            && self.claims.holders.get(&container.id) == Some(&id)
        {
            self.claims.holders.remove(&container.id);
        }
    }

    /// Converts a path of the hierarchy to a path of the mount.
    fn mounted_path<'a>(&mut self, id: CgroupId, path: &'a str) -> Cow<'a, str> {
        if self.partial && self.claims.hidden.is_none() {
            let parts = path.match_indices('/').skip(1);
            let mut hidden = parts.map(|(at, _)| path.split_at(at));
            let found = hidden.find(|(_, rest)| self.is_at(id, rest));
            self.claims.hidden = found.map(|(hidden, _)| hidden.to_owned());
        }
        self.without_hidden(path).unwrap_or(path).into()
    }

    fn without_hidden<'a>(&self, path: &'a str) -> Option<&'a str> {
        let rest = path.strip_prefix(self.claims.hidden.as_deref()?)?;
        rest.starts_with('/').then_some(rest)
    }

    /// Returns the path of the innermost node container around the group; empty without one.
    fn node_above(&self, path: &str) -> &str {
        let nodes = self.claims.nodes.iter();
        let above = nodes.filter(|node| is_above(node, path));
        above.max_by_key(|node| node.len()).map_or("", |node| node)
    }

    /// Registers the container of this group as a node, whose containers count separately.
    pub(super) fn add_node(&mut self, owner: &Owner) {
        let Some(top) = read(owner.cgroup, &owner.path, "").top else {
            return;
        };
        if self.claims.nodes.len() >= MAX_NODES || self.claims.nodes.iter().any(|it| it == top) {
            return;
        }
        self.claims.nodes.push(top.to_owned());
        let groups = self.groups.iter();
        let below = groups
            .filter(|(_, group)| group.life == Life::Live && is_above(top, &group.owner.path));
        let mut below: Vec<(CgroupId, String)> = below
            .map(|(&id, group)| (id, group.owner.path.clone()))
            .collect();
        below.sort_unstable();
        for (id, path) in below {
            self.own(id, &path);
        }
    }
}

fn is_above(above: &str, path: &str) -> bool {
    let rest = path.strip_prefix(above);
    rest.is_some_and(|rest| rest.starts_with('/'))
}
