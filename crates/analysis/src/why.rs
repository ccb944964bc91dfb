//! Builds the output of `why`: everything about one group.

use std::cmp::Reverse;
use std::iter::successors;

use noctule_model::{
    Comm, Counter, CpuWeight, Events, Level, ProcessId, RealTime, Reason, VerdictKind,
};

use crate::party::Party;
use crate::report::Key;
use crate::wait_report::Culprit;
use crate::{CpuUse, Report, ReportBuilder, Row, StripStep, Thresholds, WaitReport, WaitReportRow};

/// Maximum number of processes listed for each group.
const PROCESSES: usize = 3;
/// Maximum length of the chain of lock holders.
const HOLDERS: usize = 2;
/// Maximum number of descendants listed for a group that did nothing itself.
const BELOW: usize = 3;

/// A group and what happened to it in a window.
#[derive(Clone, Debug)]
pub struct Why {
    /// The level of the row.
    pub level: Level,
    /// Report of the window, reduced to the group's row.
    pub report: WaitReport,
    /// Paths of the busiest descendants, if the group itself neither used the CPU nor waited for a
    /// CPU.
    pub below: Vec<String>,
    /// The process that the user asked about, if any. All other figures describe its group.
    pub asked: Option<ProcessUse>,
    /// The group's busiest processes, and `asked`.
    pub processes: Vec<ProcessUse>,
    /// The groups that the group waited for, most to blame first, with their processes.
    pub culprits: Vec<(Culprit, Vec<ProcessUse>)>,
    /// The chain of lock holders. If the verdict of the group names another group that held locks,
    /// this is the first holder. If the verdict of the first holder names a group that held locks,
    /// this is the second holder.
    pub holders: Vec<WaitReportRow>,
    /// Events of the group; `None` if events are not measured.
    pub events: Option<Events>,
    /// The group's CPU weight; `None` for the root group, and if the weight cannot be read.
    pub weight: Option<CpuWeight>,
    /// Whether the group runs only when no other group needs the CPU (`cpu.idle`). `None` if the
    /// setting cannot be read.
    pub idle: Option<bool>,
    /// CPUs that the group's threads may use; `None` if the group has no process.
    pub allowed: Option<Vec<u32>>,
    /// The kernel's PSI `some avg10`: percentage of the last ten seconds in which at least one
    /// thread of the group waited.
    pub pressure: Option<f64>,
    /// CPU use and waits of the group, second by second.
    pub steps: Vec<StripStep>,
    /// Usage of each CPU, in ascending order; empty if not recorded.
    pub cpus: Vec<CpuUse>,
}

/// CPU usage of a process in the window.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessUse {
    pub id: ProcessId,
    pub comm: String,
    /// The command line, if it could be read.
    pub command: Option<String>,
    /// The process's real-time policy; `None` if it has none or the policy was not read.
    pub real_time: Option<RealTime>,
    /// Whether the process has ended.
    pub exited: bool,
    /// Time on a CPU, in nanoseconds.
    pub cpu_ns: u64,
}

impl ProcessUse {
    /// Creates an entry for a process that did not run.
    pub fn idle(id: ProcessId, comm: Comm) -> Self {
        Self {
            id,
            comm: comm.text(),
            command: None,
            real_time: None,
            exited: false,
            cpu_ns: 0,
        }
    }
}

impl Why {
    /// Returns the group's row; `None` if no threads of the group were seen in the window.
    pub fn row(&self) -> Option<&WaitReportRow> {
        self.report.rows.first()
    }

    /// Returns the reason for the verdict of the group's row.
    pub fn reason(&self, row: &WaitReportRow) -> Reason {
        self.report
            .reason_behind(row, self.holders.last(), self.level)
    }

    /// Returns whether the group neither ran nor waited for a CPU.
    pub fn is_asleep(&self) -> bool {
        !self.row().is_some_and(WaitReportRow::was_runnable)
    }
}

impl ReportBuilder {
    /// Builds the report for the window so far, without the values that are read from files.
    /// `asked` is the process that the user named instead of its group. That process is listed even
    /// if it did not run.
    pub fn why(
        &self,
        party: &Party,
        level: Level,
        asked: Option<&ProcessUse>,
        thresholds: &Thresholds,
    ) -> Why {
        let mut report = self.waits_including_sleepers(level, false, thresholds);
        let wanted = party.key(level);
        let is_wanted = |row: &&WaitReportRow| row.party.key(level) == wanted;
        let found = report.rows.iter().find(is_wanted);
        let holders = found.map(|row| report.holders(row, level));
        let holders = holders.into_iter().flatten().cloned().collect();
        report.rows.retain(|row| row.party.key(level) == wanted);
        let below = match report.rows.first().is_some_and(WaitReportRow::was_runnable) {
            true => Vec::new(),
            false => self.busiest_below(party, thresholds),
        };
        let processes = self.report(Level::Process, false);
        let culprits = report.rows.first().map(|row| {
            let worth = row.culprits.iter();
            let worth = worth.filter(|c| row.is_worth_naming(c.blame.wait_ns));
            worth
                .map(|c| (c.clone(), busiest(&processes, &c.party, level)))
                .collect()
        });
        let mut own = busiest(&processes, party, level);
        let asked = asked.map(|asked| {
            let mut ran = processes.rows.iter().filter_map(used);
            ran.find(|process| process.id == asked.id)
                .unwrap_or_else(|| asked.clone())
        });
        if let Some(asked) = &asked
            && own.iter().all(|process| process.id != asked.id)
        {
            own.push(asked.clone());
        }
        let events = self.report(level, false);
        let row = events
            .rows
            .iter()
            .find(|row| Party::Group(row.owner.clone()).key(level) == wanted);
        Why {
            level,
            report,
            below,
            asked,
            processes: own,
            culprits: culprits.unwrap_or_default(),
            holders,
            events: row.and_then(|row| row.events),
            weight: None,
            idle: None,
            allowed: None,
            pressure: None,
            steps: Vec::new(),
            cpus: Vec::new(),
        }
    }

    /// Returns the paths of the party's descendants with the most CPU time and waits.
    fn busiest_below(&self, party: &Party, thresholds: &Thresholds) -> Vec<String> {
        let Party::Group(above) = party else {
            return Vec::new();
        };
        let mut rows = self.waits(Level::Cgroup, false, thresholds).rows;
        rows.retain(|row| row.is_active() && row.party.is_below(&above.path));
        rows.sort_by_key(|row| Reverse(row.cpu_ns.saturating_add(row.total_ns())));
        let names = rows.iter().map(|row| row.party.name(Level::Cgroup));
        names.take(BELOW).collect()
    }
}

impl WaitReport {
    /// Returns the chain of lock holders: the group that held locks for which the group of `row`
    /// waited, the group that held locks for which this holder waited, and so on. The chain ends at
    /// a group whose verdict is another one or has no culprit.
    pub(crate) fn holders<'a>(
        &'a self,
        row: &'a WaitReportRow,
        level: Level,
    ) -> Vec<&'a WaitReportRow> {
        let holder = |row: &&WaitReportRow| {
            let is_held = row.verdict.kind == VerdictKind::HeldByLock;
            let culprit = row.verdict.culprit.as_ref().filter(|_| is_held);
            let key = culprit?.key(level);
            self.rows.iter().find(|row| row.party.key(level) == key)
        };
        let chain = successors(Some(row), holder).skip(1);
        // Ends the chain at `row`, because two groups can wait for locks of each other.
        let wanted = row.party.key(level);
        let chain = chain.take_while(|row| row.party.key(level) != wanted);
        chain.take(HOLDERS).collect()
    }
}

/// Returns the party's processes with the most CPU time. `report` must be at the level of
/// processes.
pub fn busiest(report: &Report, party: &Party, level: Level) -> Vec<ProcessUse> {
    let wanted: Key = party.key(level);
    let belongs = |row: &&Row| match &row.process {
        Some(process) if process.kernel_thread && row.owner.path == "/" => *party == Party::Kernel,
        Some(_) => Party::Group(row.owner.clone()).key(level) == wanted,
        None => false,
    };
    let rows = report.rows.iter().filter(belongs);
    rows.filter_map(used)
        .filter(|process| process.cpu_ns > 0)
        .take(PROCESSES)
        .collect()
}

/// Returns the CPU usage of a row's process.
fn used(row: &Row) -> Option<ProcessUse> {
    let process = row.process.as_ref()?;
    Some(ProcessUse {
        exited: process.exited,
        cpu_ns: row.counters[Counter::CpuTime],
        ..ProcessUse::idle(process.id, process.comm)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noctule_model::{
        Batch, BlockClass, BlockEnd, CgroupId, CgroupRow, Group, Owner, ReleaseRow, Releaser,
    };

    use super::*;

    fn owner(id: u64, path: &str) -> Arc<Owner> {
        Arc::new(Owner {
            path: path.into(),
            ..Owner::unknown(CgroupId(id))
        })
    }

    #[test]
    fn the_holders_of_a_lock_are_followed() {
        let held = |(id, by): (u64, u64)| {
            let mut row = CgroupRow {
                id: CgroupId(id),
                owner: Some(owner(id, &format!("/{id}"))),
                ..CgroupRow::default()
            };
            row.counters[Counter::CpuTime] = 1;
            row.counters[Counter::Blocked(BlockClass::Lock)] = 1000;
            let release = ReleaseRow {
                victim: Group::Cgroup(row.id),
                class: BlockClass::Lock,
                end: BlockEnd::Released(Releaser {
                    group: Group::Cgroup(CgroupId(by)),
                    process: ProcessId::default(),
                }),
                blocked_ns: 900,
            };
            (row, release)
        };
        let rows = [(1, 2), (2, 3), (3, 2), (4, 5)].into_iter().map(held);
        let (cgroups, releases): (Vec<_>, Vec<_>) = rows.unzip();
        let mut builder = ReportBuilder::new(Batch::default());
        builder.add(Batch {
            taken_ns: 1000,
            cgroups,
            releases: Some(releases),
            ..Batch::default()
        });
        let holders = |id: u64| {
            let party = Party::Group(owner(id, &format!("/{id}")));
            let why = builder.why(&party, Level::Cgroup, None, &Thresholds::default());
            let names = why.holders.iter().map(|row| row.party.name(Level::Cgroup));
            let names: Vec<String> = names.collect();
            let reason = why.reason(why.row().expect("it waited"));
            let last = reason.holder.map(|(name, _)| name);
            assert_eq!(last.as_ref(), names.last());
            names.join(" ")
        };
        assert_eq!([1, 2, 3, 4].map(holders), ["/2 /3", "/3", "/2", ""]);
    }

    #[test]
    fn idle_group_lists_its_busiest_descendants() {
        let used = [
            ("/p", 0),
            ("/p/a", 1),
            ("/p/b", 4),
            ("/p/b/c", 3),
            ("/p/d", 2),
            ("/px", 9),
        ];
        let row = |(id, (path, used)): (u64, (&str, u64))| {
            let mut row = CgroupRow {
                id: CgroupId(id),
                owner: Some(owner(id, path)),
                ..CgroupRow::default()
            };
            row.counters[Counter::CpuTime] = used;
            row
        };
        let mut builder = ReportBuilder::new(Batch::default());
        builder.add(Batch {
            taken_ns: 1_000_000_000,
            cgroups: (0..).zip(used).map(row).collect(),
            ..Batch::default()
        });
        let why = |path| {
            let party = Party::Group(owner(0, path));
            builder.why(&party, Level::Cgroup, None, &Thresholds::default())
        };
        let of_parent = why("/p");
        assert!(of_parent.row().is_none());
        assert_eq!(of_parent.below, ["/p/b", "/p/b/c", "/p/d"]);
        let of_child = why("/p/b");
        assert!(of_child.row().is_some() && of_child.below.is_empty());
        assert!(why("/none").below.is_empty());
    }
}
