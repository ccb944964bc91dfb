//! The levels at which rows are shown, and the identity of a row at each.

use noctule_analysis::Row;
use noctule_model::{Level, Owner, ProcessId, Subject};
use noctule_text::{escape, exited, process_name};

/// Every level, in the order of the keys `1` to `5`.
pub(crate) const LEVELS: [Level; 5] = [
    Level::Process,
    Level::Container,
    Level::Unit,
    Level::Pod,
    Level::Cgroup,
];

/// Position in [`LEVELS`].
pub(crate) const fn index(level: Level) -> usize {
    match level {
        Level::Process => 0,
        Level::Container => 1,
        Level::Unit => 2,
        Level::Pod => 3,
        Level::Cgroup => 4,
    }
}

/// Whether the rows of the level stand in a tree: processes by parent, groups by path.
pub(crate) const fn has_tree(level: Level) -> bool {
    matches!(level, Level::Process | Level::Cgroup)
}

/// What stays the same while a row moves through the table: the things by which the model groups
/// rows, so two rows of one report never have the same key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Key {
    /// A process, by pid and start.
    Process(ProcessId),
    /// A pod, by UID.
    Pod(String),
    /// A unit, by name.
    Unit(String),
    /// A container, or what stands for it.
    Subject(Subject),
    /// A cgroup, by path.
    Path(String),
}

/// The identity of the row.
pub(crate) fn key(row: &Row, level: Level) -> Key {
    match (level, &row.process) {
        (Level::Process, Some(process)) => Key::Process(process.id),
        _ => owner_key(&row.owner, level),
    }
}

/// The identity of the row of a group, at a level other than that of processes.
pub(crate) fn owner_key(owner: &Owner, level: Level) -> Key {
    match (level, &owner.pod, &owner.unit) {
        (Level::Pod, Some(pod), _) => Key::Pod(pod.uid.clone()),
        (Level::Pod | Level::Container, ..) => Key::Subject(owner.subject()),
        (Level::Unit, _, Some(unit)) => Key::Unit(unit.clone()),
        _ => Key::Path(owner.path.clone()),
    }
}

/// The name that the table shows, safe for a terminal.
pub(crate) fn name(row: &Row, level: Level) -> String {
    match &row.process {
        Some(process) => process_name(process) + exited(process),
        None => escape(&row.name(level)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_is_the_position() {
        let positions = LEVELS.map(index);
        assert_eq!(positions, [0, 1, 2, 3, 4]);
    }
}
