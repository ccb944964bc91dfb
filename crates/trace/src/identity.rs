//! Owners of events: keys and conditions that come from the cgroup of the thread.

use std::fmt;

/// Cgroup, container, pod or unit of the thread that passed the tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// The cgroup itself.
    Cgroup,
    /// The container that it belongs to; without one the unit, else the cgroup.
    Container,
    /// The pod; without one as [`Self::Container`].
    Pod,
    /// The innermost unit of systemd; without one the cgroup.
    Unit,
}

const NAMES: [(&str, Identity); 4] = [
    ("cgroup", Identity::Cgroup),
    ("container", Identity::Container),
    ("pod", Identity::Pod),
    ("unit", Identity::Unit),
];

impl Identity {
    /// The one of this name.
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
