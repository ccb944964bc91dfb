//! Processes that a client looks at: their users and command lines.
//!
//! The thread that answers opens no file. It notes which process was asked for, and the thread of the pipeline reads
//! its files at the next batch.

use noctule_model::{Batch, ProcessId};

use crate::config::Arguments;
use crate::users::{CommandLines, Users};

/// Processes that are looked at, at most; one more takes the place of the one that was asked for least recently.
const MOST: usize = 16;

/// A process that nobody asked for in so many batches is no longer looked at.
const PATIENCE: u64 = 10;

/// What is read of a process. `None`: not yet, or it cannot be known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) user: Option<String>,
    pub(super) command_line: Option<String>,
}

#[derive(Debug)]
struct Looked {
    id: ProcessId,
    /// The batch at which it was asked for last.
    asked: u64,
    told: Told,
}

/// The processes that are looked at.
#[derive(Debug, Default)]
pub(super) struct LookedAt(Vec<Looked>);

impl LookedAt {
    /// Takes note of a question, and answers with what is known.
    pub(super) fn ask(&mut self, id: ProcessId, sequence: u64) -> Told {
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
            told: Told::default(),
        });
        Told::default()
    }

    /// The processes of a batch that are looked at.
    pub(super) fn of(&mut self, batch: &Batch) -> Vec<ProcessId> {
        self.0
            .retain(|it| it.asked.saturating_add(PATIENCE) >= batch.sequence);
        let lives = |id: ProcessId| batch.processes.iter().any(|it| it.id == id && !it.exited);
        let ids = self.0.iter().map(|it| it.id);
        ids.filter(|id| lives(*id)).collect()
    }

    /// Keeps what was read of a process.
    pub(super) fn tell(&mut self, id: ProcessId, told: Told) {
        if let Some(looked) = self.0.iter_mut().find(|it| it.id == id) {
            looked.told = told;
        }
    }
}

/// Reads the files of processes, as much of them as may be shown.
pub(super) struct Reader {
    users: Users,
    /// `None`: command lines are for nobody who reaches the address.
    commands: Option<CommandLines>,
}

impl Reader {
    pub(super) fn new(arguments: Option<Arguments>) -> Self {
        Self {
            users: Users::new(Some(CommandLines::new(Arguments::Off))),
            commands: arguments.map(CommandLines::new),
        }
    }

    /// Of a process that was there a moment ago.
    pub(super) fn read(&self, id: ProcessId) -> Told {
        Told {
            user: self.users.of(id.pid),
            command_line: self.commands.and_then(|commands| commands.line(id.pid)),
        }
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
    fn who_is_asked_for_is_read_while_it_lives_and_somebody_asks() {
        let mut looked = LookedAt::default();
        assert_eq!(looked.ask(id(7), 1), Told::default());
        assert_eq!(looked.of(&batch(2, &[7, 8])), [id(7)]);
        assert_eq!(looked.of(&batch(2, &[8])), []);
        let told = Told {
            user: Some("me".into()),
            ..Told::default()
        };
        looked.tell(id(7), told.clone());
        assert_eq!(looked.ask(id(7), 5), told);
        assert_eq!(looked.of(&batch(5 + PATIENCE, &[7])), [id(7)]);
        assert_eq!(looked.of(&batch(6 + PATIENCE, &[7])), []);
    }

    #[test]
    fn no_more_are_looked_at_whoever_asks() {
        let mut looked = LookedAt::default();
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
        // Of those that were kept the last ones are still asked for.
        assert_eq!(kept, (989..1000).collect::<Vec<u32>>());
        assert!(looked.0.len() <= MOST);
    }

    #[test]
    fn secrets_are_left_out_and_nothing_is_read_where_nothing_is_shown() {
        let own = ProcessId {
            pid: std::process::id(),
            start_ns: 0,
        };
        let line = |shown| Reader::new(shown).read(own).command_line;
        let full = line(Some(Arguments::Full)).expect("its own files");
        let name = line(Some(Arguments::Off)).expect("its own files");
        assert!(full.starts_with(&name), "{full} {name}");
        assert_eq!(line(None), None);
        assert!(Reader::new(None).read(own).user.is_some());
    }
}
