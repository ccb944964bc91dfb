//! Keys and conditions that are derived from the cgroup of the current thread.

use std::fmt;

/// The owner of an event: the cgroup, container, pod or unit of the thread that triggered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// The cgroup itself.
    Cgroup,
    /// The container; for a thread without a container, the unit, or else the cgroup.
    Container,
    /// The pod; for a thread without a pod, as for [`Self::Container`].
    Pod,
    /// The innermost systemd unit; for a thread without a unit, the cgroup.
    Unit,
}

const NAMES: [(&str, Identity); 4] = [
    ("cgroup", Identity::Cgroup),
    ("container", Identity::Container),
    ("pod", Identity::Pod),
    ("unit", Identity::Unit),
];

impl Identity {
    pub fn named(word: &str) -> Option<Self> {
        let entry = NAMES.iter().find(|(name, _)| *name == word);
        entry.map(|(_, identity)| *identity)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = NAMES.iter().find(|(_, identity)| identity == self);
        f.write_str(entry.map_or("", |(name, _)| name))
    }
}
