//! A cgroup in the registry.

use std::sync::Arc;
use std::time::Duration;

use noctule_model::{ContainerRole, Owner, Runtime};

use crate::names::Query;
use crate::trust::{self, Delegated};

/// Time between a search without result and the next search. A bundle appears shortly after the
/// cgroup, and Docker's file appears before the cgroup. The first three retries take place within 3
/// s, before series, events and verdicts are published without names. After the last retry, the
/// container keeps its raw id.
pub(crate) const RETRY: [Duration; 5] = [
    Duration::from_millis(200),
    Duration::from_millis(800),
    Duration::from_millis(1500),
    Duration::from_secs(5),
    Duration::from_secs(30),
];

/// Age below which files of a group may still be missing, so that a search without result is not
/// conclusive.
pub(crate) const YOUNG: Duration = Duration::from_secs(2);

/// A group, and the steps that are still necessary to find its owner.
pub(crate) struct Group {
    pub(crate) owner: Arc<Owner>,
    /// The position in the path from which a user chose the names.
    pub(crate) delegated: Option<Delegated>,
    pub(crate) life: Life,
    pub(crate) search: Search,
    /// Number of searches without result.
    pub(crate) tries: usize,
    /// Number of the last walk that found the group.
    pub(crate) walk: u64,
    /// Time at which the owner of the group was last requested; 0 if never.
    pub(crate) asked_ns: u64,
    /// Time at which the group was first seen; 0 for groups that the first walk found.
    pub(crate) seen_ns: u64,
}

/// Whether the group exists.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Live,
    /// Removed at this time. Also used for an id that no walk found.
    Dead(u64),
    /// Only the id is known until the next walk.
    Unseen,
}

/// Progress of the search for names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Search {
    /// No search is pending.
    Over,
    Due(u64),
    Asked,
}

impl Group {
    pub(crate) fn new(owner: Owner, life: Life) -> Self {
        Self {
            owner: Arc::new(owner),
            delegated: None,
            life,
            search: Search::Over,
            tries: 0,
            walk: 0,
            asked_ns: 0,
            seen_ns: 0,
        }
    }

    /// Memory of a group without its names. The value includes empty slots of the table, which is
    /// at least half full, and the overhead of the allocator.
    pub(crate) const PLACE: usize = 2 * size_of::<Self>() + size_of::<Owner>() + 64;

    /// Returns the approximate memory use of the group.
    pub(crate) fn bytes(&self) -> usize {
        let owner = &self.owner;
        let container = owner.container.as_ref();
        let texts = [
            Some(&owner.path),
            owner.unit.as_ref(),
            container.map(|it| &it.id),
            container.and_then(|it| it.name.as_ref()),
            container.and_then(|it| it.image.as_ref()),
            owner.pod.as_ref().map(|it| &it.uid),
            self.delegated.as_ref().map(|it| &it.above),
        ];
        let chain = container.map_or(0, |it| size_of_val(&*it.chain));
        Self::PLACE + chain + texts.into_iter().flatten().map(String::len).sum::<usize>()
    }

    /// Returns the order in which groups are dropped if memory is short. Live groups that were
    /// never requested come first, oldest first. Removed groups are next, and then the groups whose
    /// last request is longest ago.
    pub(crate) fn worth(&self) -> (u8, u64) {
        match self.life {
            Life::Live if self.asked_ns == 0 => (0, self.seen_ns),
            Life::Dead(since) => (1, since),
            Life::Live | Life::Unseen => (2, self.asked_ns),
        }
    }

    pub(crate) fn query(&self) -> Query {
        let container = self.owner.container.as_ref();
        let is_machine = container.is_some_and(|it| it.runtime == Runtime::Nspawn);
        Query {
            path: self.owner.path.clone(),
            container: container.map(|container| {
                trust::unmarked(self.delegated.as_ref(), &container.id).to_owned()
            }),
            machine_unit: self.owner.unit.clone().filter(|_| is_machine),
            user: self.delegated.as_ref().map(|delegated| delegated.uid),
        }
    }
}

/// Returns whether files may contain more about the owner than the path.
pub(crate) fn wants_names(owner: &Owner) -> bool {
    use Runtime::{Containerd, Crio, Docker, Ecs, Nspawn, Oci, Podman};
    match &owner.container {
        Some(container) => {
            // The files of a container inside a node container belong to that node.
            container.chain.is_empty()
                && container.role != ContainerRole::Helper
                && matches!(
                    container.runtime,
                    Docker | Containerd | Crio | Podman | Ecs | Oci | Nspawn
                )
        }
        // Plain runc may have created any group except the following ones.
        None => {
            const NEVER: [&str; 5] = [".slice", ".mount", ".socket", ".swap", "/init.scope"];
            let group = owner.path.as_str();
            owner.pod.is_none() && group != "/" && !NEVER.iter().any(|end| group.ends_with(end))
        }
    }
}

/// Copies the names of the same container from its old path. Returns whether the container had a
/// name.
pub(crate) fn keep_names(owner: &mut Owner, old: &Owner) -> bool {
    let (Some(container), Some(known)) = (&mut owner.container, &old.container) else {
        return false;
    };
    if container.id != known.id || known.name.is_none() {
        return false;
    }
    container.runtime = known.runtime;
    container.role = known.role;
    container.name.clone_from(&known.name);
    container.image.clone_from(&known.image);
    owner.pod.clone_from(&old.pod);
    true
}
