//! Turns batches into the series that a scrape shows.

use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use noctule_model::{
    Batch, Counters, DestinationCounters, ForeignExporter, Joules, Owner, ProcessId, ProcessRow,
    Subject, SubjectRow, Waiting,
};

use super::Exposition;
use super::blame::{Blame, culprit_labels};
use super::budget::{Admission, Line, Table};
use super::choice::Choice;
use super::destinations::Destinations;
use super::energy::Energy;
use super::figures::Figures;
use super::foreign::{self, Foreign};
use super::kepler::{self, Kepler};
use super::labels::{self, OVERFLOW};
use super::machine::Machine;
use super::pairs::Pairs;
use super::short::ShortLived;
use super::snapshot::{Level, Served, Snapshot};
use super::view::{Born, View};
use super::writer::Writer;
use super::{levels, own};

/// The exporter's options.
#[derive(Clone, Debug)]
pub struct Options {
    /// Exports every process. Off by default, because the number of processes is unbounded.
    pub process_level: bool,
    /// Maximum number of containers with their own series. The same limit applies to units, and to
    /// cgroups.
    pub max_subjects: usize,
    /// Maximum number of processes with their own series.
    pub max_processes: usize,
    /// Maximum number of victim and culprit pairs with their own series.
    pub blame_pairs: usize,
    /// Maximum number of destinations with their own series, over all subjects.
    pub destinations: usize,
    /// How long such a pair or destination keeps its series without growth if another one needs
    /// series, in nanoseconds.
    pub blame_grace_ns: u64,
    /// The metrics of the levels below the node.
    pub choice: Arc<Choice>,
    /// How long a container may wait for its name before it is exported without a name, in
    /// nanoseconds.
    pub settle_ns: u64,
    /// Lifetime below which a group is short-lived, in nanoseconds; 0: none is. An owner with many
    /// short-lived groups has one row for them.
    pub short_ns: u64,
    /// How long the row of a process is kept after the process ended, in nanoseconds. For the other
    /// levels, the rollup determines this time.
    pub process_grace_ns: u64,
    /// When counting began, nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// Whether the batches come from a recording, so that their age is not the agent's delay.
    pub recorded: bool,
    /// Version of the agent, for `noctule_self_build_info`.
    pub version: &'static str,
    /// The node's name for Kepler-compatible metrics; `None` turns these metrics off.
    pub kepler_node: Option<String>,
    /// The other exporter whose metric names are also exported, if any.
    pub foreign: Option<ForeignExporter>,
    /// The machine, for labels of other exporters.
    pub machine: Arc<Machine>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            process_level: false,
            max_subjects: 4000,
            max_processes: 4000,
            blame_pairs: 1000,
            destinations: 100,
            blame_grace_ns: 300_000_000_000,
            choice: Arc::default(),
            settle_ns: 3_000_000_000,
            short_ns: 30_000_000_000,
            process_grace_ns: 60_000_000_000,
            start_unix_ns: 0,
            recorded: false,
            version: env!("CARGO_PKG_VERSION"),
            kepler_node: None,
            foreign: None,
            machine: Arc::default(),
        }
    }
}

/// Decides which series exist. The caller must pass every batch once, in order.
#[derive(Debug)]
pub struct Exporter {
    options: Options,
    short: ShortLived,
    containers: Table<Subject>,
    units: Table<Subject>,
    cgroups: Table<Subject>,
    processes: Table<ProcessId>,
    blames: Pairs<Blame>,
    destinations: Pairs<Destinations>,
    kepler: Option<Kepler>,
    foreign: Option<Foreign>,
    /// The node's counters in the previous batch.
    before: Counters,
    served: Served,
    /// Time of the first batch.
    first_ns: Option<u64>,
    /// Time of the previous batch, or of the start of counting: nanoseconds since 1970.
    before_unix_ns: u64,
}

impl Exporter {
    /// Creates an exporter without any series.
    pub fn new(options: Options) -> Self {
        let subjects = || Table::new(options.max_subjects, 0);
        Self {
            short: ShortLived::new(options.short_ns, options.settle_ns),
            containers: subjects(),
            units: subjects(),
            cgroups: subjects(),
            processes: Table::new(options.max_processes, options.process_grace_ns),
            blames: Pairs::new(options.blame_pairs, options.blame_grace_ns),
            destinations: Pairs::new(options.destinations, options.blame_grace_ns),
            kepler: options
                .kepler_node
                .as_deref()
                .map(|name| Kepler::new(name, options.machine.clone())),
            foreign: options
                .foreign
                .map(|it| Foreign::new(it, options.machine.clone())),
            before: Counters::default(),
            served: Served::default(),
            first_ns: None,
            before_unix_ns: options.start_unix_ns,
            options,
        }
    }

    /// Sets the counters of the agent's HTTP server, which snapshots include from the next batch.
    pub fn served(&mut self, served: Served) {
        self.served = served;
    }

    /// Processes the next batch, and returns the series that scrapes show until the batch after it.
    /// The subjects of the batch must be filled in.
    ///
    /// Skipping a batch reduces time resolution, and loses the processes that ended in it.
    pub fn observe(&mut self, batch: &Batch) -> Snapshot {
        let mut short = std::mem::take(&mut self.short);
        short.observe(batch, self.before_unix_ns);
        let snapshot = self.observe_rows(batch, &short);
        self.short = short;
        snapshot
    }

    fn observe_rows(&mut self, batch: &Batch, short: &ShortLived) -> Snapshot {
        let rows = short.rows(batch);
        self.begin(batch);
        self.observe_subjects(batch, &rows, short);
        let tick = batch.node.total.since(&self.before);
        self.before = batch.node.total;
        let node = Line {
            labels: "".into(),
            born: Born {
                began_ns: 0,
                start_unix_ns: self.options.start_unix_ns,
            },
            figures: Arc::new(Figures {
                counters: batch.node.total,
                joules: Joules::default(),
                waits: batch.all_waits.clone(),
                events: batch.node.events,
                connects: batch.all_connects.clone(),
                destinations: DestinationCounters::default(),
            }),
            frequency_hertz: tick.frequency_hertz(batch.measured, batch.node.nominal_hertz),
            verdict: None,
            sockets: batch.node.sockets,
            waiting: waiting_on_node(batch),
            ended: false,
        };
        let mut levels = vec![
            Level {
                name: "node",
                lines: vec![node],
                blames: Vec::new(),
                destinations: Vec::new(),
                overflowed: None,
            },
            level("container", "container_id", &mut self.containers, batch),
            level("unit", "unit", &mut self.units, batch),
            level("cgroup", "cgroup", &mut self.cgroups, batch),
        ];
        self.observe_pairs(batch.taken_ns, &rows, &mut levels);
        if self.options.process_level {
            self.observe_processes(batch);
            levels.push(level("process", "pid", &mut self.processes, batch));
        }
        let processes = self.options.process_level.then_some(&self.processes);
        let names = self.kepler.as_mut();
        let names = names.map(|it| it.observe(batch, &rows, &self.containers, processes));
        let tables = [&self.containers, &self.units];
        let foreign = self.foreign.as_mut();
        let foreign = foreign.map(|it| it.observe(batch, &rows, tables, &levels));
        Snapshot {
            taken_ns: batch.taken_ns,
            first_ns: *self.first_ns.get_or_insert(batch.taken_ns),
            time_unix_ns: batch.time_unix_ns,
            start_unix_ns: self.options.start_unix_ns,
            node: batch.node,
            energy: Energy::of(batch),
            measured: batch.measured,
            levels,
            overflow_blames: self.blames.overflowed(),
            overflow_destinations: self.destinations.overflowed(),
            features: batch.features.clone(),
            losses: batch.losses.clone(),
            agent: batch.agent.clone(),
            choice: self.options.choice.clone(),
            recorded: self.options.recorded,
            version: self.options.version,
            served: self.served.clone(),
            kepler: names,
            foreign,
        }
    }

    /// Rows and pairs that are new in this batch count from the previous batch.
    fn begin(&mut self, batch: &Batch) {
        let before = self.before_unix_ns;
        for table in [&mut self.containers, &mut self.units, &mut self.cgroups] {
            table.begin(before);
        }
        self.processes.begin(before);
        self.blames.begin(before);
        self.destinations.begin(before);
        self.before_unix_ns = batch.time_unix_ns;
    }

    fn observe_subjects(&mut self, batch: &Batch, rows: &[&SubjectRow], short: &ShortLived) {
        let at = batch.taken_ns;
        let settle_ns = self.options.settle_ns;
        for row in rows {
            let figures = Figures::of_subject(row);
            let table = self.table(&row.subject);
            table.see(&row.subject, at, &figures, row.frequency_hertz);
            if let Some(beginning) = short.beginning(&row.subject) {
                table.date(&row.subject, at, beginning);
                self.destinations.date(&row.subject, beginning.1);
            }
            let table = self.table(&row.subject);
            table.note(&row.subject, row.verdict, row.events.sockets, row.waiting);
        }
        for table in [&mut self.containers, &mut self.units, &mut self.cgroups] {
            table.sweep(at);
        }
        let living = LazyCell::new(|| living_containers(batch));
        for row in rows {
            self.table(&row.subject).place(&row.subject, |age_ns| {
                labels::of_subject(row, age_ns >= settle_ns, || match &row.subject {
                    Subject::Container(id) => living.contains(id.as_str()),
                    _ => true,
                })
            });
            if labels::has_names(&row.owner) {
                self.table(&row.subject).name(&row.subject, || {
                    match labels::of_subject(row, true, || true) {
                        Admission::Show(labels) => Some(labels),
                        Admission::Wait | Admission::Overflow => None,
                    }
                });
            }
        }
    }

    /// Must run after the subjects of the batch have their series.
    fn observe_pairs(&mut self, at: u64, rows: &[&SubjectRow], levels: &mut [Level]) {
        let shown = |subject: &Subject| match subject {
            Subject::Container(_) => self.containers.figures(subject),
            Subject::Unit(_) => self.units.figures(subject),
            Subject::Cgroup(_) | Subject::Overflow => self.cgroups.figures(subject),
        };
        let settled = |subject: &Subject| match subject {
            Subject::Container(_) => self.containers.is_settled(subject),
            Subject::Unit(_) => self.units.is_settled(subject),
            Subject::Cgroup(_) | Subject::Overflow => self.cgroups.is_settled(subject),
        };
        let owners = LazyCell::new(|| {
            let owners = rows.iter().map(|row| (&row.subject, &*row.owner));
            owners.collect::<HashMap<&Subject, &Owner>>()
        });
        let named = |subject: &Subject| {
            let owner = owners.get(subject).filter(|_| settled(subject))?;
            Some(culprit_labels(subject, owner))
        };
        self.blames.observe(at, rows, shown, &named);
        self.destinations.observe(at, rows, shown, &named);
        for level in levels {
            let (identity, table) = match level.name {
                "container" => ("container_id", &self.containers),
                "unit" => ("unit", &self.units),
                "cgroup" => ("cgroup", &self.cgroups),
                _ => continue,
            };
            let overflow = overflow_labels(identity);
            level.blames = self.blames.lines(at, table, &overflow);
            level.destinations = self.destinations.lines(at, table, &overflow);
        }
    }

    fn table(&mut self, subject: &Subject) -> &mut Table<Subject> {
        match subject {
            Subject::Container(_) => &mut self.containers,
            Subject::Unit(_) => &mut self.units,
            Subject::Cgroup(_) | Subject::Overflow => &mut self.cgroups,
        }
    }

    fn observe_processes(&mut self, batch: &Batch) {
        let settle_ns = self.options.settle_ns;
        let rows = || batch.processes.iter().chain(&batch.exited);
        for row in rows() {
            let figures = Figures {
                counters: row.counters,
                joules: row.joules,
                ..Figures::default()
            };
            self.processes.see(&row.id, batch.taken_ns, &figures, None);
            self.processes.belongs(&row.id, row.cgroup.0);
        }
        self.processes.sweep(batch.taken_ns);
        for row in rows() {
            self.processes.place(&row.id, |age_ns| {
                labels::of_process(row, batch, age_ns >= settle_ns)
            });
        }
        let by_id = LazyCell::new(|| {
            rows()
                .map(|row| (row.id, row))
                .collect::<HashMap<ProcessId, &ProcessRow>>()
        });
        self.processes
            .balance(batch.taken_ns, |id| match by_id.get(id) {
                Some(row) => labels::of_process(row, batch, true),
                None => Admission::Wait,
            });
    }
}

fn level<K: Ord + Clone>(
    name: &'static str,
    identity: &str,
    table: &mut Table<K>,
    batch: &Batch,
) -> Level {
    Level {
        name,
        lines: table.lines(
            batch.taken_ns,
            &overflow_labels(identity),
            batch.measured,
            batch.node.nominal_hertz,
        ),
        blames: Vec::new(),
        destinations: Vec::new(),
        overflowed: Some(table.overflowed()),
    }
}

fn overflow_labels(identity: &str) -> Arc<str> {
    format!("{identity}=\"{OVERFLOW}\"").into()
}

/// Returns the waiting threads of all groups.
fn waiting_on_node(batch: &Batch) -> Waiting {
    let mut waiting = Waiting::default();
    for row in &batch.cgroups {
        waiting += &row.waiting;
    }
    waiting
}

/// Returns the ids of the containers that still have a cgroup.
fn living_containers(batch: &Batch) -> HashSet<&str> {
    let owners = batch.cgroups.iter().filter_map(|row| row.owner.as_ref());
    owners
        .filter_map(|owner| Some(owner.container.as_ref()?.id.as_str()))
        .collect()
}

impl Snapshot {
    /// Returns the time at which the figures were taken, in nanoseconds of `CLOCK_MONOTONIC`.
    pub fn taken_ns(&self) -> u64 {
        self.taken_ns
    }

    /// Renders the text formats; returns an empty string for [`Exposition::Protobuf`], which is
    /// binary. `now_ns` is the time of the scrape in nanoseconds of `CLOCK_MONOTONIC`, from which
    /// the age of the figures is computed.
    ///
    /// Metrics that are not measured or have no series are left out.
    pub fn render(&self, exposition: Exposition, now_ns: u64) -> String {
        self.render_for(View::Complete, exposition, now_ns)
    }

    /// Like [`Snapshot::render`], but for a reader with this view.
    pub fn render_for(&self, view: View, exposition: Exposition, now_ns: u64) -> String {
        let mut bytes = Vec::new();
        self.render_levels(exposition, view, &mut |part| bytes.extend(part));
        bytes.extend(self.render_own(exposition, now_ns));
        String::from_utf8(bytes).unwrap_or_default()
    }

    /// Renders the levels, which make up most of a page and do not depend on the time. `part`
    /// receives one family at a time, so the whole text is never in memory.
    pub fn render_levels(&self, exposition: Exposition, view: View, part: &mut dyn FnMut(Vec<u8>)) {
        let mut writer = Writer::new(exposition, view, self.taken_ns);
        for level in &self.levels {
            levels::write(&mut writer, &level.rows(), self, part);
        }
        if let Some(names) = &self.kepler {
            kepler::write(&mut writer, names, self, part);
        }
        if let Some(names) = &self.foreign {
            foreign::write(&mut writer, names, self, part);
        }
        part(writer.take_all());
    }

    /// Renders the remaining metrics: the metrics about the agent itself, and the age of the last
    /// batch.
    pub fn render_own(&self, exposition: Exposition, now_ns: u64) -> Vec<u8> {
        let mut writer = Writer::new(exposition, View::Complete, self.taken_ns);
        own::write(&mut writer, self, now_ns);
        writer.finish()
    }
}
