//! A group, or another set of threads, that waits or runs.

use std::sync::Arc;

use noctule_model::{CgroupId, Group, IdMap, Level, Owner, Subject};

use crate::report::{Key, key, owner_of};

/// A group, or another set of threads, that waited or ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Party {
    /// A container, pod, unit or cgroup, represented by the owner of its outermost cgroup.
    Group(Arc<Owner>),
    /// Kernel threads.
    Kernel,
    /// The command that the agent follows.
    Command,
    /// Several groups with a common ancestor.
    Below {
        /// Path of the ancestor.
        path: String,
        /// Number of groups.
        groups: usize,
    },
    /// Groups that share a row because the table is full.
    Unnamed,
}

impl Party {
    pub(crate) fn of(group: Group, owners: &IdMap<CgroupId, Arc<Owner>>) -> Self {
        match group {
            Group::Cgroup(id) => Self::Group(owner_of(owners.get(&id), id)),
            Group::Kernel => Self::Kernel,
            Group::Followed => Self::Command,
            Group::Unnamed => Self::Unnamed,
        }
    }

    /// Returns the name shown to people. The name is not escaped.
    pub fn name(&self, level: Level) -> String {
        match self {
            Self::Group(owner) => owner.name(level),
            Self::Kernel => "kernel threads".into(),
            Self::Command => "the command".into(),
            Self::Below { path, groups } => {
                format!("{}/*: {groups} jobs", path.trim_start_matches('/'))
            }
            Self::Unnamed => "others".into(),
        }
    }

    /// Returns whether the party is the root group.
    pub(crate) fn is_root(&self) -> bool {
        matches!(self, Self::Group(owner) if owner.path == "/")
    }

    /// Returns whether the position of the party in the cgroup tree is known.
    pub(crate) fn has_path(&self) -> bool {
        match self {
            Self::Group(owner) => owner.path.starts_with('/'),
            Self::Below { .. } => true,
            Self::Kernel | Self::Command | Self::Unnamed => false,
        }
    }

    /// Returns whether the party is a descendant of that path.
    pub(crate) fn is_below(&self, above: &str) -> bool {
        match self {
            Self::Group(owner) => owner.path != above && is_below(&owner.path, above),
            _ => false,
        }
    }

    /// Returns whether the party consists of descendants of `party`.
    pub(super) fn consists_of_descendants_of(&self, party: &Self) -> bool {
        match (self, party) {
            (Self::Below { path, .. }, Self::Group(owner)) => owner.path == *path,
            _ => false,
        }
    }

    /// Returns whether the party consists of several groups, including `party`.
    pub fn has(&self, party: &Self) -> bool {
        match self {
            Self::Below { path, .. } => party.is_below(path),
            _ => false,
        }
    }

    /// Returns the kind of the party as one word: `container`, `service`, `cgroup`, `cgroups`
    /// (several), `kernel`, `command` or `others`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Group(owner) => match owner.subject() {
                Subject::Container(_) => "container",
                Subject::Unit(_) => "service",
                Subject::Cgroup(_) | Subject::Overflow => "cgroup",
            },
            Self::Kernel => "kernel",
            Self::Command => "command",
            Self::Below { .. } => "cgroups",
            Self::Unnamed => "others",
        }
    }

    /// Returns the identity of the party at a level.
    pub fn key(&self, level: Level) -> Key {
        match self {
            Self::Group(owner) => key(owner, level),
            Self::Kernel => (10, String::new()),
            Self::Command => (11, String::new()),
            Self::Unnamed => (12, String::new()),
            Self::Below { path, .. } => (13, path.clone()),
        }
    }
}

pub(crate) fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || above == "/")
}
