//! Adds up the processes of one command.

use std::cmp::Reverse;
use std::collections::HashMap;

use noctule_model::{Batch, Comm, Command, Counter, Level, ProcessId, ProcessRow, VerdictKind};

use crate::report::{Key, Report, Row, group, key};
use crate::{WaitReport, WaitReportRow};

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

/// Maximum number of commands to name for a culprit, and the minimum CPU time of each as a share of
/// the window.
const NAMED: usize = 3;
const BUSY: f64 = 0.01;

impl WaitReport {
    /// Names the busiest kernel threads, and the busiest commands of the root group, in the hurt
    /// rows that blame them. `processes` must be the processes of the same window.
    pub fn name_commands(&mut self, processes: &Report) {
        let kernel_threads = busiest_commands(processes, |_, command| command.kernel_thread);
        let of_root = |row: &Row, command: Command| row.owner.path == "/" && !command.kernel_thread;
        let root_commands = busiest_commands(processes, of_root);
        self.set_commands(&kernel_threads, &root_commands);
    }

    fn set_commands(&mut self, kernel_threads: &[String], root_commands: &[String]) {
        for row in &mut self.rows {
            if blames_kernel(row) {
                row.settings.kernel_threads = kernel_threads.to_vec();
            }
            if blames_root(row) {
                row.settings.root_commands = root_commands.to_vec();
            }
        }
    }

    /// Removes the names of commands, for readers who may not see processes.
    pub fn hide_commands(&mut self) {
        self.set_commands(&[], &[]);
    }

    /// Whether [`Self::name_commands`] has a row to complete.
    pub fn blames_commands(&self) -> bool {
        let mut rows = self.rows.iter();
        rows.any(|row| blames_kernel(row) || blames_root(row))
    }
}

/// CPU time of the processes of the root group, including kernel threads, in a window. This takes
/// less memory than two batches with all processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct RootUse {
    /// CPU time of each process when the window started, in nanoseconds.
    before_ns: HashMap<ProcessId, u64>,
    /// CPU time of processes that ended in the window, by command.
    ended_ns: HashMap<(Comm, bool), u64>,
}

impl RootUse {
    /// Starts a window with a batch.
    pub(crate) fn begin(batch: &Batch) -> Self {
        let rows = of_root(&batch.processes);
        Self {
            before_ns: rows
                .map(|row| (row.id, row.counters[Counter::CpuTime]))
                .collect(),
            ended_ns: HashMap::new(),
        }
    }

    /// Adds the processes that ended before a batch of the window.
    pub(crate) fn observe(&mut self, batch: &Batch) {
        for row in of_root(&batch.exited) {
            *self
                .ended_ns
                .entry((row.comm, row.kernel_thread))
                .or_default() += self.used_ns(row);
        }
    }

    fn used_ns(&self, row: &ProcessRow) -> u64 {
        let before = self.before_ns.get(&row.id).copied().unwrap_or(0);
        row.counters[Counter::CpuTime].saturating_sub(before)
    }

    /// Names the busiest commands in the report of the window that a batch ends.
    pub(crate) fn name_in(&self, report: &mut WaitReport, batch: &Batch) {
        if !report.blames_commands() {
            return;
        }
        let mut sums = self.ended_ns.clone();
        for row in of_root(&batch.processes) {
            *sums.entry((row.comm, row.kernel_thread)).or_default() += self.used_ns(row);
        }
        let least_ns = (report.window_ns as f64 * BUSY) as u64;
        let mut sums: Vec<_> = sums.into_iter().filter(|(_, ns)| *ns >= least_ns).collect();
        sums.sort_by_key(|((comm, _), ns)| (Reverse(*ns), *comm));
        let names = |of_kernel| {
            let found = sums.iter().filter(|((_, kernel), _)| *kernel == of_kernel);
            let names = found.map(|((comm, _), _)| comm.text()).take(NAMED);
            names.collect::<Vec<_>>()
        };
        report.set_commands(&names(true), &names(false));
    }
}

fn of_root(rows: &[ProcessRow]) -> impl Iterator<Item = &ProcessRow> {
    let is_root = |row: &&ProcessRow| row.owner.as_ref().is_some_and(|it| it.path == "/");
    rows.iter().filter(is_root)
}

fn blames_kernel(row: &WaitReportRow) -> bool {
    row.verdict.kind == VerdictKind::HurtByKernel
}

/// Whether the row is hurt and the root group is one of its culprits.
fn blames_root(row: &WaitReportRow) -> bool {
    row.verdict.kind != VerdictKind::Quiet && row.culprits.iter().any(|it| it.party.is_root())
}

/// Returns the names of the busiest commands that `is_meant` accepts.
fn busiest_commands(processes: &Report, is_meant: impl Fn(&Row, Command) -> bool) -> Vec<String> {
    let least_ns = (processes.window_ns as f64 * BUSY) as u64;
    let rows = processes.rows.iter().cloned();
    let commands = by_command(rows).into_iter().filter_map(|row| {
        let command = row.command.filter(|command| is_meant(&row, *command))?;
        (row.counters[Counter::CpuTime] >= least_ns).then(|| command.comm.text())
    });
    commands.take(NAMED).collect()
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

    use noctule_model::{Blame, BlameRow, Cause, CgroupId, CgroupRow, Group, Owner};

    use super::*;
    use crate::{ReportBuilder, Thresholds};

    #[test]
    fn processes_of_a_command_are_summed_by_group() {
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
    #[test]
    fn rows_that_blame_the_root_group_name_its_commands() {
        let owner = |id: u64, path: &str| {
            Some(Arc::new(Owner {
                path: path.into(),
                ..Owner::unknown(CgroupId(id))
            }))
        };
        let cgroup = |id, path: &str| CgroupRow {
            id: CgroupId(id),
            owner: owner(id, path),
            ..CgroupRow::default()
        };
        let mut victim = cgroup(2, "/victim");
        victim.counters[Counter::CpuTime] = 100;
        victim.counters[Counter::Wait(Cause::Neighbour)] = 900;
        let process = |(pid, comm, kernel_thread, cpu_ns): (u32, &str, bool, u64)| {
            let mut row = ProcessRow {
                id: ProcessId { pid, start_ns: 1 },
                comm: Comm::new(comm.as_bytes()),
                kernel_thread,
                owner: owner(1, "/"),
                ..ProcessRow::default()
            };
            row.counters[Counter::CpuTime] = cpu_ns;
            row
        };
        let processes = [
            (1, "cc1plus", false, 300),
            (2, "kworker", true, 500),
            (3, "rustc", false, 200),
            (4, "rustc", false, 200),
            (5, "idle", false, 1),
        ];
        let batch = Batch {
            taken_ns: 1000,
            measured: Counter::all().collect(),
            processes: processes.map(process).into(),
            cgroups: vec![cgroup(1, "/"), victim],
            blames: vec![BlameRow {
                victim: Group::Cgroup(CgroupId(2)),
                culprit: Group::Cgroup(CgroupId(1)),
                blame: Blame {
                    wait_ns: 900,
                    preemptions: 1,
                },
            }],
            ..Batch::default()
        };
        let mut builder = ReportBuilder::new(Batch::default());
        builder.add(batch.clone());
        let mut report = builder.waits(Level::Cgroup, false, &Thresholds::default());
        let named = |report: &WaitReport| {
            let mut rows = report.rows.iter();
            let victim = rows.find(|row| row.party.name(Level::Cgroup) == "/victim");
            let victim = victim.expect("a row");
            assert_eq!(victim.verdict.kind, VerdictKind::HurtByNeighbour);
            assert!(victim.settings.kernel_threads.is_empty());
            victim.settings.root_commands.clone()
        };
        report.name_commands(&builder.report(Level::Process, false));
        assert_eq!(named(&report), ["rustc", "cc1plus"]);
        report.hide_commands();
        assert!(named(&report).is_empty());
        // A judge keeps no processes in its window, only their CPU time.
        RootUse::begin(&Batch::default()).name_in(&mut report, &batch);
        assert_eq!(named(&report), ["rustc", "cc1plus"]);
        let mut root = RootUse::begin(&batch);
        root.observe(&Batch {
            exited: vec![
                process((6, "ld", false, 50)),
                process((1, "cc1plus", false, 320)),
            ],
            ..Batch::default()
        });
        root.name_in(&mut report, &Batch::default());
        assert_eq!(named(&report), ["ld", "cc1plus"]);
    }
}
