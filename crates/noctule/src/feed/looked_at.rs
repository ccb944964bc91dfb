//! Details of the processes and groups that clients are viewing: users, command lines, settings.
//!
//! The web server's thread opens no files. The thread records the requested process or group, and
//! the pipeline's thread reads the files at the next batch.

use std::sync::Arc;

use noctule_collect::SettingFiles;
use noctule_model::{Batch, ProcessId};
use noctule_sinks::json::{CgroupMount, GroupSettings};

use crate::config::Arguments;
use crate::users::{CommandLines, Users};

/// Maximum number of viewed processes, and of viewed groups. A new entry replaces the least
/// recently requested one.
const MOST: usize = 16;

/// Number of batches without a request after which the files are no longer read.
const PATIENCE: u64 = 10;

/// Details of a process. A value is `None` if it was not read yet or is unavailable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProcessDetails {
    pub(super) user: Option<String>,
    pub(super) command_line: Option<String>,
}

#[derive(Debug)]
struct Looked<K, T> {
    id: K,
    /// Sequence number of the batch at which the entry was last requested.
    asked: u64,
    told: T,
}

/// The processes or groups that clients are viewing.
#[derive(Debug)]
pub(super) struct LookedAt<K, T>(Vec<Looked<K, T>>);

/// The processes that clients are viewing.
pub(super) type Processes = LookedAt<ProcessId, ProcessDetails>;

/// The groups that clients are viewing, by path.
pub(super) type Groups = LookedAt<String, Option<Arc<GroupSettings>>>;

impl<K, T> Default for LookedAt<K, T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Clone + PartialEq, T: Clone + Default> LookedAt<K, T> {
    /// Records a request and returns the known details.
    pub(super) fn ask(&mut self, id: K, sequence: u64) -> T {
        if let Some(looked) = self.0.iter_mut().find(|it| it.id == id) {
            looked.asked = sequence;
            return looked.told.clone();
        }
        let oldest = self.0.iter().enumerate().min_by_key(|(_, it)| it.asked);
        if let Some((oldest, _)) = oldest.filter(|_| self.0.len() >= MOST) {
            self.0.swap_remove(oldest);
        }
        self.0.push(Looked {
            id,
            asked: sequence,
            told: T::default(),
        });
        T::default()
    }

    /// Removes entries without a recent request, and returns the ids of the others.
    pub(super) fn viewed(&mut self, sequence: u64) -> Vec<K> {
        self.0
            .retain(|it| it.asked.saturating_add(PATIENCE) >= sequence);
        self.0.iter().map(|it| it.id.clone()).collect()
    }

    /// Stores the details.
    pub(super) fn store(&mut self, id: &K, told: T) {
        if let Some(looked) = self.0.iter_mut().find(|it| it.id == *id) {
            looked.told = told;
        }
    }
}

impl Processes {
    /// Returns the viewed processes that this batch contains.
    pub(super) fn of(&mut self, batch: &Batch) -> Vec<ProcessId> {
        let lives = |id: ProcessId| batch.processes.iter().any(|it| it.id == id && !it.exited);
        let ids = self.viewed(batch.sequence).into_iter();
        ids.filter(|id| lives(*id)).collect()
    }
}

/// Reads the details of processes that clients are allowed to see.
pub(super) struct Reader {
    users: Users,
    /// `None` if clients are not allowed to see command lines.
    commands: Option<CommandLines>,
    /// `None` in tests.
    files: Option<SettingFiles>,
}

impl Reader {
    pub(super) fn new(arguments: Option<Arguments>, files: Option<SettingFiles>) -> Self {
        Self {
            files,
            users: Users::new(Some(CommandLines::new(Arguments::Off))),
            commands: arguments.map(CommandLines::new),
        }
    }

    /// Reads the details of a process. The process may have ended since the batch.
    pub(super) fn read(&self, id: ProcessId) -> ProcessDetails {
        ProcessDetails {
            user: self.users.of(id.pid),
            command_line: self.commands.and_then(|commands| commands.line(id.pid)),
        }
    }

    /// Returns where the cgroups are mounted.
    pub(super) fn cgroups(&self) -> Option<CgroupMount> {
        self.files.as_ref().map(|files| CgroupMount {
            mount: files.mount().to_string_lossy().into_owned(),
            unified: files.is_unified(),
        })
    }

    /// Reads the settings of a group.
    pub(super) fn settings(&self, path: &str) -> Option<GroupSettings> {
        let files = self.files.as_ref()?;
        let allowed = files.allowed(&files.processes(path));
        Some(GroupSettings {
            limit: files.limit(path),
            weight: files.weight(path),
            idle: files.idle(path),
            allowed: allowed.map(|cpus| cpus.into_iter().collect()),
            pressure: files.pressure(path),
        })
    }
}

#[cfg(test)]
mod tests {
    use noctule_model::ProcessRow;

    use super::*;

    fn id(pid: u32) -> ProcessId {
        ProcessId { pid, start_ns: 1 }
    }

    fn batch(sequence: u64, pids: &[u32]) -> Batch {
        let row = |pid: &u32| ProcessRow {
            id: id(*pid),
            ..ProcessRow::default()
        };
        Batch {
            sequence,
            processes: pids.iter().map(row).collect(),
            ..Batch::default()
        }
    }

    #[test]
    fn process_is_read_while_alive_and_requested() {
        let mut looked = Processes::default();
        assert_eq!(looked.ask(id(7), 1), ProcessDetails::default());
        assert_eq!(looked.of(&batch(2, &[7, 8])), [id(7)]);
        assert_eq!(looked.of(&batch(2, &[8])), []);
        let told = ProcessDetails {
            user: Some("me".into()),
            ..ProcessDetails::default()
        };
        looked.store(&id(7), told.clone());
        assert_eq!(looked.ask(id(7), 5), told);
        assert_eq!(looked.of(&batch(5 + PATIENCE, &[7])), [id(7)]);
        assert_eq!(looked.of(&batch(6 + PATIENCE, &[7])), []);
    }

    #[test]
    fn requested_processes_are_bounded() {
        let mut looked = Processes::default();
        for pid in 1..1000 {
            looked.ask(id(pid), pid.into());
        }
        let all: Vec<u32> = (1..1000).collect();
        let mut kept: Vec<u32> = looked
            .of(&batch(999, &all))
            .iter()
            .map(|it| it.pid)
            .collect();
        kept.sort_unstable();
        // The entries of the most recently requested processes were kept.
        assert_eq!(kept, (989..1000).collect::<Vec<u32>>());
        assert!(looked.0.len() <= MOST);
    }

    #[test]
    fn hidden_command_lines_are_not_read() {
        let own = ProcessId {
            pid: std::process::id(),
            start_ns: 0,
        };
        let line = |shown| Reader::new(shown, None).read(own).command_line;
        let full = line(Some(Arguments::Full)).expect("its own files");
        let name = line(Some(Arguments::Off)).expect("its own files");
        assert!(full.starts_with(&name), "{full} {name}");
        assert_eq!(line(None), None);
        assert!(Reader::new(None, None).read(own).user.is_some());
    }
}
