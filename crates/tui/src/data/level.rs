//! The levels of rows, and the identity of a row at each level.

use noctule_analysis::Row;
use noctule_model::{Comm, Level, Owner, ProcessId, Subject};
use noctule_text::{command_name, escape, exited, process_name};

/// All levels, in the order of the keys `1` to `5`.
pub(crate) const LEVELS: [Level; 5] = [
    Level::Process,
    Level::Container,
    Level::Unit,
    Level::Pod,
    Level::Cgroup,
];

/// Returns the position of a level in [`LEVELS`].
pub(crate) const fn index(level: Level) -> usize {
    match level {
        Level::Process => 0,
        Level::Container => 1,
        Level::Unit => 2,
        Level::Pod => 3,
        Level::Cgroup => 4,
    }
}

/// Returns whether rows of the level form a tree: processes by parent, cgroups by path.
pub(crate) const fn has_tree(level: Level) -> bool {
    matches!(level, Level::Process | Level::Cgroup)
}

/// The identity of a row, which does not change when the row moves within the table. The model
/// groups rows by the same fields, so two rows of one report never share a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Key {
    /// A process, by pid and start.
    Process(ProcessId),
    /// The processes with one name in one group; `true` for kernel threads.
    Command(Subject, Comm, bool),
    /// A pod, by UID.
    Pod(String),
    /// A unit, by name.
    Unit(String),
    /// A container, or the unit or cgroup that is shown at that level.
    Subject(Subject),
    /// A cgroup, by path.
    Path(String),
}

/// Returns the identity of the row.
pub(crate) fn key(row: &Row, level: Level) -> Key {
    match (level, &row.process, row.command) {
        (Level::Process, Some(process), _) => Key::Process(process.id),
        (Level::Process, None, Some(command)) => {
            Key::Command(row.owner.subject(), command.comm, command.kernel_thread)
        }
        _ => owner_key(&row.owner, level),
    }
}

/// Returns the identity of the command of a process.
pub(crate) fn command_key(row: &Row) -> Option<Key> {
    let process = row.process.as_ref()?;
    let (comm, kernel_thread) = (process.comm, process.kernel_thread);
    Some(Key::Command(row.owner.subject(), comm, kernel_thread))
}

/// Returns the identity of a group's row, at any level except processes.
pub(crate) fn owner_key(owner: &Owner, level: Level) -> Key {
    match (level, &owner.pod, &owner.unit) {
        (Level::Pod, Some(pod), _) => Key::Pod(pod.uid.clone()),
        (Level::Pod | Level::Container, ..) => Key::Subject(owner.subject()),
        (Level::Unit, _, Some(unit)) => Key::Unit(unit.clone()),
        _ => Key::Path(owner.path.clone()),
    }
}

/// Returns the identity of the root cgroup's row, at any level except processes.
pub(crate) fn root_key(level: Level) -> Key {
    let path = "/".to_owned();
    match level {
        Level::Pod | Level::Container => Key::Subject(Subject::Cgroup(path)),
        _ => Key::Path(path),
    }
}

/// Returns the name to show, escaped for a terminal.
pub(crate) fn name(row: &Row, level: Level) -> String {
    match (&row.process, &row.command) {
        (Some(process), _) => process_name(process) + exited(process),
        (None, Some(command)) => command_name(command),
        (None, None) => escape(&row.name(level)),
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
