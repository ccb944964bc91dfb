//! Builds the report of `stat` and `top`: the resource usage of each group or process between two
//! batches.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use noctule_model::{
    Batch, ByPackage, CgroupId, CgroupRow, Command, Counter, Counters, Events, Feature, IdMap,
    IdSet, Joules, Level, Loss, Measured, Node, Owner, PackageRow, ProcessId, ProcessRow, Sockets,
    Subject, Waiting,
};

use crate::gone::Gone;
use crate::{Descent, EnergyReport, Selection};

/// A row of a [`Report`].
#[derive(Clone, Debug)]
pub struct Row {
    /// The process, at the level of processes.
    pub process: Option<ProcessRow>,
    /// The command, if the row is the sum of its processes. See [`crate::by_command`].
    pub command: Option<Command>,
    /// The owner. If several cgroups were added up, this is the owner of the cgroup with the
    /// shortest path.
    pub owner: Arc<Owner>,
    /// Growth of the counters in the window.
    pub counters: Counters,
    /// Active energy charged in the window; 0 without a meter.
    pub joules: Joules,
    /// Usage by package, in the order of [`Report::packages`].
    pub packages: ByPackage,
    /// Growth of the event counters in the window, and the connections and listeners that are open
    /// when it ends. `None` for processes and for the command that the agent follows, whose events
    /// are not counted.
    pub events: Option<Events>,
}

/// The resource use and events between two batches.
#[derive(Clone, Debug)]
pub struct Report {
    /// Length of the window in nanoseconds of `CLOCK_MONOTONIC`.
    pub window_ns: u64,
    /// Start of the window, nanoseconds since 1970.
    pub from_unix_ns: u64,
    /// End of the window, nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// Wall-clock time of boot, nanoseconds since 1970.
    pub boot_unix_ns: u64,
    /// The machine: elapsed, idle and total time in the window.
    pub node: Node,
    /// The packages (sockets) of the row: time and usage in the window.
    pub packages: Vec<PackageRow>,
    /// Sockets that the machine has open at the end of the window.
    pub sockets: Sockets,
    /// Which counters are measured.
    pub measured: Measured,
    /// Rows with any usage or events, in descending order of CPU time.
    pub rows: Vec<Row>,
    /// CPU time that belongs to groups but to no process row, in nanoseconds, because the processes
    /// ended and their records were lost. 0 at other levels, and if only the followed command is
    /// reported.
    pub unrecorded_ns: u64,
    /// Energy that the meters counted, and what it was charged to; `None` without a meter.
    pub energy: Option<EnergyReport>,
    /// Losses in the window; a kind without losses is left out.
    pub losses: Vec<Loss>,
    /// Status of each feature.
    pub features: Arc<[Feature]>,
}

/// Which processes a window keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// For reports of groups only. A long window may have millions of ended processes. Only kernel
    /// threads are kept, because reports name them as causes.
    Groups,
    /// Keeps every process that ends.
    #[default]
    Processes,
    /// Also keeps every parent that a process had, because a parent may end before its child.
    /// Required to select processes with their descendants.
    Trees,
}

/// Gathers batches into a report.
#[derive(Clone, Debug)]
pub struct ReportBuilder {
    first: Batch,
    last: Option<Batch>,
    exited: IdMap<ProcessId, ProcessRow>,
    detail: Detail,
    gone: Gone,
    selection: Selection,
    descents: HashSet<Descent>,
}

impl ReportBuilder {
    /// Starts a window with this batch.
    pub fn new(first: Batch) -> Self {
        Self {
            first,
            last: None,
            exited: IdMap::default(),
            detail: Detail::default(),
            gone: Gone::default(),
            selection: Selection::default(),
            descents: HashSet::new(),
        }
    }

    /// Restricts the rows of reports to those that match. The figures of the node still cover
    /// everything. A selection of processes needs [`Detail::Trees`].
    #[must_use]
    pub fn select(self, selection: Selection) -> Self {
        Self { selection, ..self }
    }

    /// Sets the detail for batches that are added after this call.
    #[must_use]
    pub fn with(self, detail: Detail) -> Self {
        Self { detail, ..self }
    }

    /// Extends the window to this batch.
    ///
    /// All batches must be added, in order. Each batch lists only the processes that ended since
    /// the previous batch, and the builder keeps the last figures of rows that disappear. A batch
    /// may be skipped if the next one has all its rows and lists the processes that ended in both
    /// (`Batches::next_for_report` of noctule-tape).
    pub fn add(&mut self, mut batch: Batch) {
        let before = self.last.as_ref().unwrap_or(&self.first);
        self.gone.step(before, &batch);
        match self.detail {
            Detail::Groups => batch.exited.retain(|row| row.kernel_thread),
            Detail::Processes => {}
            Detail::Trees => {
                let rows = batch.processes.iter().chain(&batch.exited);
                self.descents.extend(rows.map(Descent::from));
            }
        }
        for row in batch.exited.drain(..) {
            match self.exited.entry(row.id) {
                Entry::Vacant(place) => drop(place.insert(row)),
                // The exit was inferred because its record was missing. The record arrived late. A
                // late record has only the remaining usage, but also the final group and name.
                Entry::Occupied(mut known) => {
                    let counters = known.get().counters.max(&row.counters);
                    let joules = known.get().joules.max(&row.joules);
                    known.insert(ProcessRow {
                        counters,
                        joules,
                        ..row
                    });
                }
            }
        }
        self.last = Some(batch);
    }

    /// Returns the last batch, as the start of the next window. Processes that ended in this window
    /// are removed from it.
    pub fn into_last(self) -> Batch {
        self.last.unwrap_or(self.first)
    }

    /// Returns `CLOCK_MONOTONIC` of the first batch, in nanoseconds.
    pub fn started_ns(&self) -> u64 {
        self.first.taken_ns
    }

    /// Returns `CLOCK_MONOTONIC` of the last batch, in nanoseconds.
    pub fn ended_ns(&self) -> u64 {
        self.ends().1.taken_ns
    }

    /// Returns the report of the window so far. The report is empty if there is only one batch.
    /// With `followed_only`, it contains only processes of the command that the agent follows.
    pub fn report(&self, level: Level, followed_only: bool) -> Report {
        let last = self.last.as_ref().unwrap_or(&self.first);
        let rows = match level {
            Level::Process => self.processes(last, followed_only),
            // A group also contains processes that are not selected, so its row is summed from
            // processes.
            _ if followed_only || !self.selection.pids().is_empty() => {
                group(self.selected(self.processes(last, followed_only)), level)
            }
            _ => group(self.selected(self.cgroups(last)), level),
        };
        let mut rows: Vec<Row> = rows.into_iter().filter(Row::is_active).collect();
        rows.sort_by(|a, b| {
            let cpu = |r: &Row| r.counters[Counter::CpuTime];
            cpu(b)
                .cmp(&cpu(a))
                .then_with(|| a.owner.path.cmp(&b.owner.path))
        });
        let losses = self.losses(last);
        let mut energy = EnergyReport::between(&self.first, last);
        if let Some(energy) = energy.as_mut().filter(|_| level == Level::Process) {
            let mut in_rows = Joules::default();
            rows.iter().for_each(|row| in_rows += &row.joules);
            if !followed_only {
                energy.unrecorded = energy.charged().since(&in_rows);
            }
        }
        let total = last.node.total.since(&self.first.node.total);
        let in_rows = || rows.iter().map(|r| r.counters[Counter::CpuTime]).sum();
        // If nothing was lost, the difference is only what changed while the batch was taken.
        let unrecorded_ns = match level {
            Level::Process if !followed_only && losses.iter().any(leaves_no_row) => {
                total[Counter::CpuTime].saturating_sub(in_rows())
            }
            _ => 0,
        };
        let rows = match level {
            Level::Process => self.selected(rows),
            _ => rows,
        };
        Report {
            window_ns: last.taken_ns.saturating_sub(self.first.taken_ns),
            from_unix_ns: self.first.time_unix_ns,
            time_unix_ns: last.time_unix_ns,
            boot_unix_ns: last.boot_unix_ns,
            node: Node {
                cpus: last.node.cpus,
                elapsed_ns: last
                    .node
                    .elapsed_ns
                    .saturating_sub(self.first.node.elapsed_ns),
                idle_ns: last.node.idle_ns.saturating_sub(self.first.node.idle_ns),
                interrupt_ns: grown(last.node.interrupt_ns, self.first.node.interrupt_ns),
                steal_ns: grown(last.node.steal_ns, self.first.node.steal_ns),
                steal_included_ns: grown(
                    last.node.steal_included_ns,
                    self.first.node.steal_included_ns,
                ),
                idle_switches: last
                    .node
                    .idle_switches
                    .saturating_sub(self.first.node.idle_switches),
                total,
                events: last.node.events.since(&self.first.node.events),
                sockets: last.node.sockets,
                nominal_hertz: last.node.nominal_hertz,
                outside_unseen: last.node.outside_unseen,
            },
            packages: self.packages(last),
            sockets: last.node.sockets,
            measured: last.measured,
            rows,
            unrecorded_ns,
            energy,
            losses,
            features: last.features.clone(),
        }
    }

    fn packages(&self, last: &Batch) -> Vec<PackageRow> {
        let pairs = last.packages.iter().zip(&self.first.packages);
        let grown = pairs.map(|(last, first)| PackageRow {
            elapsed_ns: last.elapsed_ns.saturating_sub(first.elapsed_ns),
            idle_ns: last.idle_ns.saturating_sub(first.idle_ns),
            used: last.used.since(&first.used),
            ..*last
        });
        grown.collect()
    }

    /// Returns the losses since the first batch.
    pub(crate) fn losses(&self, last: &Batch) -> Vec<Loss> {
        let before = |loss: &Loss| {
            let same = |l: &&Loss| l.kind == loss.kind && l.place == loss.place;
            self.first.losses.iter().find(same).map_or(0, |l| l.count)
        };
        let grown = last.losses.iter().map(|loss| Loss {
            count: loss.count.saturating_sub(before(loss)),
            ..loss.clone()
        });
        grown.filter(|loss| loss.count > 0).collect()
    }

    /// Keeps the rows that match. If processes are selected, `rows` must contain all processes of
    /// the window.
    fn selected(&self, mut rows: Vec<Row>) -> Vec<Row> {
        if self.selection.is_empty() {
            return rows;
        }
        let tree = self.selected_processes();
        rows.retain(|row| {
            let process = row.process.as_ref().map(|process| process.id);
            let in_tree = |id| tree.as_ref().is_none_or(|tree| tree.contains(&id));
            self.selection.fits(&row.owner) && process.is_none_or(in_tree)
        });
        rows
    }

    fn selected_processes(&self) -> Option<HashSet<ProcessId>> {
        let first = self.first.processes.iter().map(Descent::from);
        self.selection
            .tree(first.chain(self.descents.iter().copied()))
    }

    /// Returns the groups whose waits are reported; `None` for all. For a process, that is its
    /// group.
    pub(crate) fn selected_groups(&self) -> Option<IdSet<CgroupId>> {
        if self.selection.is_empty() {
            return None;
        }
        let (_, last) = self.ends();
        if !self.selection.pids().is_empty() {
            let rows = self.selected(self.processes(last, false));
            let groups = rows
                .iter()
                .filter_map(|row| Some(row.process.as_ref()?.cgroup));
            return Some(groups.collect());
        }
        let rows = self.selected(self.cgroups(last));
        Some(rows.iter().map(|row| row.owner.cgroup).collect())
    }

    /// Returns the rows that disappeared before the last batch.
    pub(crate) fn gone(&self) -> &Gone {
        &self.gone
    }

    /// Returns the first and the last batch.
    pub(crate) fn ends(&self) -> (&Batch, &Batch) {
        (&self.first, self.last.as_ref().unwrap_or(&self.first))
    }

    pub(crate) fn processes(&self, last: &Batch, followed_only: bool) -> Vec<Row> {
        let before: IdMap<ProcessId, &ProcessRow> = self
            .first
            .processes
            .iter()
            .map(|row| (row.id, row))
            .collect();
        let zero = ProcessRow::default();
        let living = self.gone.processes(last);
        let living = living.filter(|row| !self.exited.contains_key(&row.id));
        living
            .chain(self.exited.values())
            .filter(|row| row.followed || !followed_only)
            .map(|row| {
                let first_ns = self.first.taken_ns;
                let before = before.get(&row.id).copied().unwrap_or(&zero);
                Row {
                    counters: row
                        .counters_at(last.taken_ns)
                        .since(&before.counters_at(first_ns)),
                    joules: row.joules.since(&before.joules),
                    packages: row.packages.since(&before.packages),
                    owner: owner_of(row.owner.as_ref(), row.cgroup),
                    process: Some(ProcessRow {
                        exited: row.exited || row.gone,
                        ..row.clone()
                    }),
                    command: None,
                    events: None,
                }
            })
            .collect()
    }

    pub(crate) fn cgroups(&self, last: &Batch) -> Vec<Row> {
        self.growth_of_cgroups(last).map(|(_, row)| row).collect()
    }

    /// Like [`Self::cgroups`], without the groups of the level whose threads neither ran nor slept
    /// in the window, and of which no cgroup `waited`. A node can have thousands of empty cgroups,
    /// which take no memory here.
    pub(crate) fn inhabited_cgroups(
        &self,
        last: &Batch,
        level: Level,
        waited: &IdSet<CgroupId>,
    ) -> Vec<Row> {
        let is_waiting = |waiting: Waiting, row: &Row| {
            waiting != Waiting::default() || waited.contains(&row.owner.cgroup)
        };
        let inhabited: HashSet<Key> = self
            .growth_of_cgroups(last)
            .filter(|(waiting, row)| is_waiting(*waiting, row) || !row.counters.is_zero())
            .map(|(_, row)| key(&row.owner, level))
            .collect();
        self.growth_of_cgroups(last)
            .map(|(_, row)| row)
            .filter(|row| inhabited.contains(&key(&row.owner, level)))
            .collect()
    }

    /// Returns the threads of each cgroup that are waiting now, and the growth of the cgroup.
    fn growth_of_cgroups<'a>(
        &'a self,
        last: &'a Batch,
    ) -> impl Iterator<Item = (Waiting, Row)> + 'a {
        let before: IdMap<CgroupId, &CgroupRow> =
            self.first.cgroups.iter().map(|row| (row.id, row)).collect();
        let zero = CgroupRow::default();
        self.gone.cgroups(last).map(move |row| {
            let before = before.get(&row.id).copied().unwrap_or(&zero);
            let growth = Row {
                process: None,
                command: None,
                owner: owner_of(row.owner.as_ref(), row.id),
                counters: row
                    .counters_at(last.taken_ns)
                    .since(&before.counters_at(self.first.taken_ns)),
                joules: row.joules.since(&before.joules),
                packages: row.packages.since(&before.packages),
                events: Some(Events {
                    counters: row.events.since(&before.events),
                    sockets: row.sockets,
                }),
            };
            (row.waiting, growth)
        })
    }
}

/// Returns the growth of a value, if both readings are known.
fn grown(last: Option<u64>, first: Option<u64>) -> Option<u64> {
    Some(last?.saturating_sub(first?))
}

/// Returns whether this kind of loss leaves CPU time without a process row.
fn leaves_no_row(loss: &Loss) -> bool {
    [
        "exit_record",
        "process_row",
        "screen_process",
        "tape_process",
        "thread_account",
    ]
    .contains(&loss.kind)
}

pub(crate) fn owner_of(owner: Option<&Arc<Owner>>, cgroup: CgroupId) -> Arc<Owner> {
    owner
        .cloned()
        .unwrap_or_else(|| Arc::new(Owner::unknown(cgroup)))
}

/// Adds up the rows that have the same key at the level.
pub(crate) fn group(rows: Vec<Row>, level: Level) -> Vec<Row> {
    let mut groups: HashMap<Key, Row> = HashMap::new();
    for row in rows {
        match groups.entry(key(&row.owner, level)) {
            Entry::Vacant(free) => {
                free.insert(Row {
                    process: None,
                    ..row
                });
            }
            Entry::Occupied(mut taken) => {
                let sum = taken.get_mut();
                sum.counters += &row.counters;
                sum.joules += &row.joules;
                sum.packages += &row.packages;
                sum.events = added(sum.events, row.events);
                if row.owner.path.len() < sum.owner.path.len() {
                    sum.owner = row.owner;
                }
            }
        }
    }
    groups.into_values().collect()
}

/// Adds events. The sum is known only if both parts are known.
fn added(sum: Option<Events>, part: Option<Events>) -> Option<Events> {
    let mut sum = sum?;
    sum += &part?;
    Some(sum)
}

/// The identity of a row at a level. Names are not unique: two containers may have the same name.
pub type Key = (u8, String);

pub(crate) fn key(owner: &Owner, level: Level) -> Key {
    match level {
        Level::Pod => match &owner.pod {
            Some(pod) => (0, pod.uid.clone()),
            None => key(owner, Level::Container),
        },
        Level::Unit => match &owner.unit {
            Some(unit) => (2, unit.clone()),
            None => (3, owner.path.clone()),
        },
        Level::Container => match owner.subject() {
            Subject::Container(id) => (1, id),
            Subject::Unit(unit) => (2, unit),
            Subject::Cgroup(path) => (3, path),
            Subject::Overflow => (4, String::new()),
        },
        Level::Process | Level::Cgroup => (3, owner.path.clone()),
    }
}

impl Report {
    /// Returns the sum of all rows, as a row without an owner.
    pub fn sum(&self) -> Row {
        let mut counters = Counters::default();
        let mut packages = ByPackage::default();
        let mut joules = Joules::default();
        let mut events = Some(Events::default());
        for row in &self.rows {
            counters += &row.counters;
            joules += &row.joules;
            packages += &row.packages;
            events = added(events, row.events);
        }
        Row {
            process: None,
            command: None,
            owner: Arc::new(Owner::unknown(CgroupId::default())),
            counters,
            joules,
            packages,
            events,
        }
    }
}

impl Row {
    /// Returns whether the row has any usage or events. Blocked time does not count.
    fn is_active(&self) -> bool {
        let events = self.events.is_some_and(|e| !e.counters.is_zero());
        !self.counters.without_blocked().is_zero() || !self.joules.is_zero() || events
    }

    /// Returns the name shown to people: command, container, pod, unit or path, depending on the
    /// level. The name is not escaped.
    pub fn name(&self, level: Level) -> String {
        let comm = self.process.as_ref().map(|process| process.comm);
        match comm.or(self.command.map(|command| command.comm)) {
            Some(comm) if level == Level::Process => comm.text(),
            _ => self.owner.name(level),
        }
    }
}

#[cfg(test)]
mod tests;
