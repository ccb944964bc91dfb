//! Adds up the processes of one command.

use std::cmp::Reverse;
use std::collections::HashMap;

use noctule_model::{Comm, Command, Counter, Level};

use crate::report::{Key, Report, Row, group, key};

/// Adds up the processes of each command: those with the same name in the same container, unit or
/// cgroup. Kernel threads and other processes are never added up. The sum over all rows stays the
/// same. `rows` must be processes.
pub fn by_command(rows: impl IntoIterator<Item = Row>) -> Vec<Row> {
    let mut commands: HashMap<(Key, Comm, bool), Vec<Row>> = HashMap::new();
    let mut others = Vec::new();
    for row in rows {
        match &row.process {
            Some(process) => {
                let group = key(&row.owner, Level::Container);
                let id = (group, process.comm, process.kernel_thread);
                commands.entry(id).or_default().push(row);
            }
            None => others.push(row),
        }
    }
    let sums = commands
        .into_iter()
        .flat_map(|((_, comm, kernel_thread), rows)| {
            let command = Command {
                comm,
                kernel_thread,
                processes: rows.len() as u64,
            };
            // Every row has the same group at this level, so the result is one row.
            group(rows, Level::Container)
                .into_iter()
                .map(move |sum| Row {
                    command: Some(command),
                    ..sum
                })
        });
    let mut rows: Vec<Row> = sums.chain(others).collect();
    rows.sort_by(|a, b| {
        let rank = |row: &Row| {
            let cpu_ns = Reverse(row.counters[Counter::CpuTime]);
            (cpu_ns, row.command.map(|it| it.comm))
        };
        rank(a)
            .cmp(&rank(b))
            .then_with(|| a.owner.path.cmp(&b.owner.path))
    });
    rows
}

impl Report {
    /// Returns the report with one row for each command instead of each process. See
    /// [`by_command`].
    #[must_use]
    pub fn by_command(self) -> Self {
        Self {
            rows: by_command(self.rows),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noctule_model::{Batch, CgroupId, Owner, ProcessId, ProcessRow};

    use super::*;
    use crate::ReportBuilder;

    #[test]
    fn processes_of_a_command_are_added_up_in_their_group() {
        let process =
            |(pid, (comm, path, kernel_thread, cpu_ns)): (u32, (&str, &str, bool, u64))| {
                let mut row = ProcessRow {
                    id: ProcessId { pid, start_ns: 1 },
                    comm: Comm::new(comm.as_bytes()),
                    kernel_thread,
                    owner: Some(Arc::new(Owner {
                        path: path.into(),
                        ..Owner::unknown(CgroupId(path.len() as u64))
                    })),
                    ..ProcessRow::default()
                };
                row.counters[Counter::CpuTime] = cpu_ns;
                row
            };
        let processes = [
            ("true", "/ci", false, 4),
            ("true", "/ci", false, 3),
            ("true", "/other", false, 5),
            ("kworker", "/", true, 2),
            ("kworker", "/", false, 1),
            ("true", "/ci", false, 0),
        ];
        let mut builder = ReportBuilder::new(Batch::default());
        let (exited, living): (Vec<_>, Vec<_>) = (1..)
            .zip(processes)
            .map(process)
            .partition(|row| row.id.pid == 1);
        builder.add(Batch {
            processes: living,
            exited,
            ..Batch::default()
        });
        let report = builder.report(Level::Process, false);
        let before = report.sum();
        let report = report.by_command();
        let rows = report.rows.iter().map(|row| {
            let command = row.command.expect("a command");
            let place = (row.owner.path.as_str(), command.kernel_thread);
            (
                row.name(Level::Process),
                place,
                command.processes,
                row.counters[Counter::CpuTime],
            )
        });
        let expected = [
            // The process that did nothing has no row.
            ("true", ("/ci", false), 2, 7),
            ("true", ("/other", false), 1, 5),
            ("kworker", ("/", true), 1, 2),
            ("kworker", ("/", false), 1, 1),
        ];
        let expected = expected.map(|(name, place, count, ns)| (name.to_owned(), place, count, ns));
        assert_eq!(rows.collect::<Vec<_>>(), expected);
        assert_eq!(report.sum().counters, before.counters);
    }
}
