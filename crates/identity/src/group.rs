//! One cgroup of the registry.

use std::sync::Arc;
use std::time::Duration;

use noctule_model::{ContainerRole, Owner, Runtime};

use crate::names::Query;
use crate::trust::{self, Delegated};

/// How long after each fruitless search names are searched again: a bundle appears a moment after
/// the cgroup, Docker's file before it. The first three come before series, events and verdicts go
/// out without names, 3 s after they began. After the last one the container keeps its raw id.
pub(crate) const RETRY: [Duration; 5] = [
    Duration::from_millis(200),
    Duration::from_millis(800),
    Duration::from_millis(1500),
    Duration::from_secs(5),
    Duration::from_secs(30),
];

/// How long after it was made a group's files may still be on their way: until then a search that
/// found nothing proves nothing.
pub(crate) const YOUNG: Duration = Duration::from_secs(2);

/// A group and what is still to be done for it.
pub(crate) struct Group {
    pub(crate) owner: Arc<Owner>,
    /// Where its path begins to be a user's choice.
    pub(crate) delegated: Option<Delegated>,
    pub(crate) life: Life,
    pub(crate) search: Search,
    /// Searches that found nothing.
    pub(crate) tries: usize,
    /// Number of the last walk that saw it.
    pub(crate) walk: u64,
    /// When somebody asked for its owner last; 0: never.
    pub(crate) asked_ns: u64,
    /// When it was first seen; 0 for groups that the walk at the start found.
    pub(crate) seen_ns: u64,
}

/// Whether the group exists.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Live,
    /// Since when; also for an id that no walk found.
    Dead(u64),
    /// Nothing but the id is known, until the next walk.
    Unseen,
}

/// How far the search for names is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Search {
    /// Nothing to search, or nothing more.
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

    /// The memory that one takes without its names: in a table that is between half and wholly full, with what the
    /// allocator adds.
    pub(crate) const PLACE: usize = 2 * size_of::<Self>() + size_of::<Owner>() + 64;

    /// The memory that it takes, roughly.
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

    /// Which groups are forgotten first where memory is short: those that nobody asked for, the oldest first, then the
    /// dead, then the others, those that nobody asked for lately first.
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

/// Whether files may have more of the owner than its path did.
pub(crate) fn wants_names(owner: &Owner) -> bool {
    use Runtime::{Containerd, Crio, Docker, Ecs, Nspawn, Oci, Podman};
    match &owner.container {
        Some(container) => {
            // The files of one in a node are the node's.
            container.chain.is_empty()
                && container.role != ContainerRole::Helper
                && matches!(
                    container.runtime,
                    Docker | Containerd | Crio | Podman | Ecs | Oci | Nspawn
                )
        }
        // Plain runc may have made any group but these.
        None => {
            const NEVER: [&str; 5] = [".slice", ".mount", ".socket", ".swap", "/init.scope"];
            let group = owner.path.as_str();
            owner.pod.is_none() && group != "/" && !NEVER.iter().any(|end| group.ends_with(end))
        }
    }
}

/// Takes over the names of the same container at another path; whether there were any.
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
