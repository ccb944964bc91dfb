//! The commands of each group: processes of one name, added up.

use std::collections::HashMap;

use noctule_analysis::{Party, Row};
use noctule_model::{Counter, Level, Reason};
use noctule_text::process_name;

use crate::data::Data;
use crate::data::level::{self, Key};

/// Maximum number of commands to name for a culprit.
const NAMED: usize = 3;

/// The processes of one name in one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// The name, escaped for a terminal. Kernel threads are in brackets.
    pub(crate) name: String,
    /// Whether these are kernel threads of the root group. A culprit `kernel threads` consists of
    /// these; a culprit `(root)` does not.
    pub(crate) of_kernel: bool,
    /// Number of processes.
    pub(crate) processes: usize,
    /// Their CPU time in the window, in nanoseconds.
    pub(crate) cpu_ns: u64,
}

/// The commands that ran in the window, by group, busiest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commands(HashMap<Key, Vec<Command>>);

impl Commands {
    /// Collects the commands of the groups of a level.
    pub(crate) fn new(data: &Data, level: Level) -> Self {
        let mut sums: HashMap<Key, HashMap<String, Command>> = HashMap::new();
        for row in data.rows(Level::Process) {
            let Some(process) = &row.process else {
                continue;
            };
            let cpu_ns = row.counters[Counter::CpuTime];
            if cpu_ns == 0 {
                continue;
            }
            let name = process_name(process);
            let group = sums.entry(level::owner_key(&row.owner, level)).or_default();
            let command = group.entry(name).or_insert_with_key(|name| Command {
                name: name.clone(),
                of_kernel: is_of_kernel(row),
                processes: 0,
                cpu_ns: 0,
            });
            command.processes += 1;
            command.cpu_ns += cpu_ns;
        }
        let sorted = sums.into_iter().map(|(key, commands)| {
            let mut commands: Vec<Command> = commands.into_values().collect();
            commands.sort_by(|a, b| b.cpu_ns.cmp(&a.cpu_ns).then_with(|| a.name.cmp(&b.name)));
            (key, commands)
        });
        Self(sorted.collect())
    }

    /// Returns the commands of a group.
    pub(crate) fn of(&self, key: &Key) -> &[Command] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    /// Returns the commands of a culprit.
    pub(crate) fn of_party(&self, party: &Party, level: Level) -> impl Iterator<Item = &Command> {
        let wanted = *party == Party::Kernel;
        let all = match party {
            Party::Group(owner) => self.of(&level::owner_key(owner, level)),
            Party::Kernel => self.of(&level::root_key(level)),
            _ => &[],
        };
        all.iter()
            .filter(move |command| command.of_kernel == wanted)
    }

    /// Adds the commands of kernel threads and of the root group, because neither of these culprits
    /// is itself a workload.
    pub(crate) fn complete(&self, mut reason: Reason, level: Level) -> Reason {
        let root = self.of(&level::root_key(level)).iter();
        let (kernel, root): (Vec<&Command>, Vec<&Command>) = root.partition(|it| it.of_kernel);
        let names = |commands: Vec<&Command>| {
            let names = commands.into_iter().take(NAMED).map(|it| it.name.clone());
            names.collect::<Vec<_>>()
        };
        reason.settings.kernel_threads = names(kernel);
        reason.settings.root_commands = names(root);
        reason
    }

    /// Returns the busiest command of a group, as in `cc1plus x4`; empty if none ran.
    pub(crate) fn busiest(&self, key: &Key) -> String {
        self.of(key)
            .first()
            .map_or_else(String::new, Command::words)
    }
}

impl Command {
    /// Returns the name, with the number of processes if there are several.
    pub(crate) fn words(&self) -> String {
        match self.processes {
            1 => self.name.clone(),
            count => format!("{} x{count}", self.name),
        }
    }
}

fn is_of_kernel(row: &Row) -> bool {
    let process = row.process.as_ref();
    process.is_some_and(|process| process.kernel_thread) && row.owner.path == "/"
}
