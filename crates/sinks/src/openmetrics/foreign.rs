//! Metrics under the names of cAdvisor or Coroot, in addition to noctule's own (docs/cadvisor.md,
//! docs/coroot.md).
//!
//! Only rows with their own series are exported. Their labels are translated once, when the rows
//! are first shown. Rows with equal translated labels share a series, which has the sum of their
//! values. This happens when a container is restarted: its id changes, but not its name.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use noctule_model::{
    Batch, Counter, Counters, DestinationCounter, DestinationCounters, EventCounters,
    FOREIGN_METRICS, ForeignExporter, ForeignMetric, ForeignOffer, ForeignSource, Kind, Measured,
    Owner, QuotaRow, Runtime, Stall, Stalls, Subject, SubjectRow,
};

use super::budget::Table;
use super::figures::Figures;
use super::kepler::joined;
use super::machine::Machine;
use super::snapshot::{Level, Snapshot};
use super::text::Value;
use super::view::Born;
use super::writer::Writer;

/// State that is kept between batches.
#[derive(Debug)]
pub(super) struct Foreign {
    exporter: ForeignExporter,
    machine: Arc<Machine>,
    known: HashMap<Subject, Known>,
    /// Values of noctule's destination series, by the labels of the row and of the destination,
    /// with the last batch that contained them.
    amounts: HashMap<[Arc<str>; 2], (DestinationCounters, u64)>,
    sums: Arc<Sums>,
    /// The quotas that existed in the first batch, by cgroup path, with their periods at that time.
    first_periods: HashMap<String, Periods>,
    sequence: u64,
}

/// Periods of a CPU quota: their number, and the number of those in which the quota ran out.
#[derive(Clone, Copy, Debug, Default)]
struct Periods {
    all: u64,
    throttled: u64,
}

impl Periods {
    /// Adds the growth from `before` to `now`. A smaller value means that the quota was set again,
    /// so that the kernel counts from 0.
    fn add_growth(&mut self, now: Self, before: Self) {
        let growth = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        self.all += growth(now.all, before.all);
        self.throttled += growth(now.throttled, before.throttled);
    }
}

impl From<&QuotaRow> for Periods {
    fn from(row: &QuotaRow) -> Self {
        Self {
            all: row.periods,
            throttled: row.throttled_periods,
        }
    }
}

/// A row of noctule.
#[derive(Debug)]
struct Known {
    /// The labels that the other exporter would give this row; empty if that exporter has no such
    /// rows.
    theirs: Arc<str>,
    /// Values in the last batch.
    counters: Counters,
    events: EventCounters,
    /// Periods of the row's quota; `None` if the row has never had a quota.
    periods: Option<Periods>,
    /// Pressure in the last batch that had it.
    stalls: Stalls,
    /// Whether the row is counted in [`Row::containers`].
    is_counted: bool,
    sequence: u64,
}

/// The series of the other exporter. A sum includes rows that no longer exist, as long as another
/// row has the same labels.
#[derive(Clone, Debug, Default)]
struct Sums {
    rows: BTreeMap<Arc<str>, Row>,
    /// Destinations by the labels of the row and of the destination.
    destinations: BTreeMap<[Arc<str>; 2], Destination>,
}

#[derive(Clone, Debug, Default)]
struct Row {
    born: Born,
    counters: Counters,
    events: EventCounters,
    /// Quota periods, and when their series began. A quota can be set after the row began.
    periods: Option<(Born, Periods)>,
    /// Pressure, and when its series began.
    stalls: [Option<(Born, u64)>; Stall::COUNT],
    /// The current quota.
    quota: Option<Quota>,
    image: Option<Arc<str>>,
    /// Number of containers so far. Set only for containers of pods, where each restart creates a
    /// new container.
    containers: Option<u64>,
}

/// A CPU quota.
#[derive(Clone, Copy, Debug)]
struct Quota {
    cpus: f64,
    /// `None` in recordings without it.
    period_us: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Destination {
    born: Born,
    counters: DestinationCounters,
}

/// The other exporter's series as a scrape shows them.
#[derive(Clone, Debug)]
pub(super) struct ForeignNames {
    exporter: ForeignExporter,
    machine: Arc<Machine>,
    /// `None` in recordings without the time of boot.
    uptime_ns: Option<u64>,
    sums: Arc<Sums>,
}

impl ForeignNames {
    /// Returns when each of the series began.
    pub(super) fn born(&self) -> impl Iterator<Item = Born> {
        let destinations = self.sums.destinations.values().map(|it| it.born);
        let rows = self.sums.rows.values();
        let periods = rows.clone().filter_map(|row| Some(row.periods?.0));
        let stalls = rows.clone().flat_map(|row| row.stalls.iter().flatten());
        let stalls = stalls.map(|(born, _)| *born);
        let rows = rows.map(|row| row.born);
        rows.chain(periods).chain(stalls).chain(destinations)
    }
}

impl Foreign {
    pub(super) fn new(exporter: ForeignExporter, machine: Arc<Machine>) -> Self {
        Self {
            exporter,
            machine,
            known: HashMap::new(),
            amounts: HashMap::new(),
            sums: Arc::default(),
            first_periods: HashMap::new(),
            sequence: 0,
        }
    }

    /// Takes a batch. Must run after the tables have decided which rows have series.
    pub(super) fn observe(
        &mut self,
        batch: &Batch,
        subjects: &[&SubjectRow],
        tables: [&Table<Subject>; 2],
        levels: &[Level],
    ) -> ForeignNames {
        self.sequence += 1;
        let quotas = batch.quotas.iter().map(|row| (row.path.as_str(), row));
        let quotas: HashMap<&str, &QuotaRow> = quotas.collect();
        if self.sequence == 1 {
            let periods = quotas
                .iter()
                .map(|(path, row)| (*path, Periods::from(*row)));
            self.first_periods = periods.map(|(path, it)| (path.to_owned(), it)).collect();
        }
        self.first_periods
            .retain(|path, _| quotas.contains_key(path.as_str()));
        let before = std::mem::take(&mut self.sums);
        let mut sums = Sums::default();
        let translated = self.add_rows(
            batch.taken_ns,
            subjects,
            &quotas,
            tables,
            &before,
            &mut sums,
        );
        self.add_destinations(levels, &translated, &before, &mut sums);
        self.sums = Arc::new(sums);
        ForeignNames {
            exporter: self.exporter,
            machine: self.machine.clone(),
            uptime_ns: (batch.boot_unix_ns > 0)
                .then(|| batch.time_unix_ns.saturating_sub(batch.boot_unix_ns)),
            sums: self.sums.clone(),
        }
    }

    /// Adds up the rows. Returns the other exporter's labels, keyed by noctule's labels.
    fn add_rows(
        &mut self,
        at: u64,
        subjects: &[&SubjectRow],
        quotas: &HashMap<&str, &QuotaRow>,
        tables: [&Table<Subject>; 2],
        before: &Sums,
        sums: &mut Sums,
    ) -> HashMap<Arc<str>, Arc<str>> {
        let sequence = self.sequence;
        let rows = subjects.iter().map(|row| (&row.subject, *row));
        let rows: HashMap<&Subject, &SubjectRow> = rows.collect();
        let mut translated = HashMap::new();
        for table in tables {
            for (subject, shown) in table.shown() {
                let row = rows.get(subject);
                if !self.known.contains_key(subject) {
                    let Some(row) = row else {
                        continue;
                    };
                    let theirs = translate(self.exporter, &self.machine, subject, &row.owner);
                    let mut known = Known::new(theirs);
                    if shown.was_overflowed() {
                        // The growth until now belongs to the overflow row, as for other figures.
                        known.stalls = row.stalls;
                    }
                    self.known.insert(subject.clone(), known);
                }
                let Some(known) = self.known.get_mut(subject) else {
                    continue;
                };
                known.sequence = sequence;
                if known.theirs.is_empty() {
                    continue;
                }
                let sum = sums.rows.entry(known.theirs.clone()).or_insert_with(|| {
                    let sum = before.rows.get(&known.theirs);
                    sum.map_or_else(|| Row::new(shown.first_born()), Row::without_facts)
                });
                known.add_growth(shown.figures, sum);
                if let Some(row) = row {
                    if let Some(quota) = quota_of(&row.owner, quotas) {
                        let first = self.first_periods.get(&quota.path);
                        let since = first.copied().unwrap_or_default();
                        known.add_periods(quota.into(), since, at, sum);
                        sum.quota = Some(quota.into());
                    }
                    known.add_stalls(&row.stalls, at, sum);
                    known.add_facts(&row.owner, sum);
                }
                let unnamed = shown.unnamed(at).map(|it| &it.labels);
                for ours in [shown.labels].into_iter().chain(unnamed) {
                    translated.insert(ours.clone(), known.theirs.clone());
                }
            }
        }
        self.known.retain(|_, known| known.sequence == sequence);
        translated
    }

    fn add_destinations(
        &mut self,
        levels: &[Level],
        translated: &HashMap<Arc<str>, Arc<str>>,
        before: &Sums,
        sums: &mut Sums,
    ) {
        let sequence = self.sequence;
        for line in levels.iter().flat_map(|level| &level.destinations) {
            let Some(theirs) = translated.get(&line.labels) else {
                continue;
            };
            let ours = [line.labels.clone(), line.partner.clone()];
            let known = self.amounts.insert(ours, (line.amount, sequence));
            let known = known.map_or_else(DestinationCounters::default, |(amount, _)| amount);
            let key = [theirs.clone(), line.partner.clone()];
            let known_sum = before.destinations.get(&key).cloned();
            let sum = sums.destinations.entry(key).or_insert_with(|| {
                known_sum.unwrap_or_else(|| Destination {
                    born: line.born,
                    ..Destination::default()
                })
            });
            sum.counters += &line.amount.since(&known);
        }
        self.amounts.retain(|_, (_, seen)| *seen == sequence);
    }
}

impl Row {
    fn new(born: Born) -> Self {
        Self {
            born,
            ..Self::default()
        }
    }

    /// Returns the [`Born`] of a series that the row gets in the batch taken at `taken_ns`.
    fn born_now(&self, taken_ns: u64) -> Born {
        Born {
            began_ns: taken_ns,
            ..self.born
        }
    }

    /// Returns the sums, without the facts that each batch sets again.
    fn without_facts(&self) -> Self {
        Self {
            quota: None,
            ..self.clone()
        }
    }
}

impl From<&QuotaRow> for Quota {
    fn from(row: &QuotaRow) -> Self {
        Self {
            cpus: row.cpus,
            period_us: Some(row.period_ns / 1000).filter(|us| *us > 0),
        }
    }
}

impl Known {
    fn new(theirs: String) -> Self {
        Self {
            theirs: theirs.into(),
            counters: Counters::default(),
            events: EventCounters::default(),
            periods: None,
            stalls: Stalls::default(),
            is_counted: false,
            sequence: 0,
        }
    }

    /// Adds the growth of the quota periods since the last batch in which the row had a quota.
    /// Without such a batch, adds the growth since `first`.
    fn add_periods(&mut self, now: Periods, first: Periods, taken_ns: u64, sum: &mut Row) {
        let before = self.periods.replace(now).unwrap_or(first);
        let born = sum.born_now(taken_ns);
        let (_, periods) = sum.periods.get_or_insert((born, Periods::default()));
        periods.add_growth(now, before);
    }

    /// Adds the growth of the pressure since the last batch that had a value. A smaller value
    /// belongs to a new group of the row, such as the group of a restarted unit.
    fn add_stalls(&mut self, now: &Stalls, taken_ns: u64, sum: &mut Row) {
        let born = sum.born_now(taken_ns);
        for ((now, before), sum) in now.iter().zip(&mut self.stalls).zip(&mut sum.stalls) {
            let Some(now) = *now else { continue };
            let before = before.replace(now).unwrap_or(0);
            sum.get_or_insert((born, 0)).1 += now.checked_sub(before).unwrap_or(now);
        }
    }

    /// Adds the owner's facts.
    fn add_facts(&mut self, owner: &Owner, sum: &mut Row) {
        let container = owner.container.as_ref();
        let image = container.and_then(|it| it.image.as_deref());
        if let Some(image) = image {
            sum.image = Some(image.into());
        }
        if container.is_some() && owner.pod.is_some() {
            let containers = sum.containers.get_or_insert(0);
            *containers += u64::from(!std::mem::replace(&mut self.is_counted, true));
        }
    }

    /// Adds the row's growth since the last batch. The array contains the current figures, and how
    /// much of them is counted in the overflow row.
    fn add_growth(&mut self, [now, charged]: [&Figures; 2], sum: &mut Row) {
        let counters = now.counters.since(&charged.counters);
        let events = now.events.since(&charged.events);
        sum.counters += &counters.since(&self.counters);
        sum.events += &events.since(&self.events);
        (self.counters, self.events) = (counters, events);
    }
}

/// Returns the quota of the container's cgroup. If the runtime creates a child cgroup for the
/// processes (`libpod-ID.scope/container`), returns the quota of the parent cgroup.
fn quota_of<'a>(owner: &Owner, quotas: &HashMap<&str, &'a QuotaRow>) -> Option<&'a QuotaRow> {
    let id = &owner.container.as_ref()?.id;
    let parent = owner.path.rsplit_once('/').map(|(parent, _)| parent);
    let parent = parent.filter(|path| path.contains(id.as_str()));
    let paths = [Some(owner.path.as_str()), parent];
    paths
        .into_iter()
        .flatten()
        .find_map(|path| quotas.get(path).copied())
}

/// Returns the labels that the other exporter would give a row; empty if that exporter has no such
/// rows.
fn translate(
    exporter: ForeignExporter,
    machine: &Machine,
    subject: &Subject,
    owner: &Owner,
) -> String {
    let container = owner.container.as_ref();
    let pod = owner.pod.as_ref();
    let name = container.and_then(|it| it.name.as_deref());
    let pod_name = pod.and_then(|it| it.name.as_deref());
    let namespace = pod.and_then(|it| it.namespace.as_deref());
    match (exporter, subject) {
        (ForeignExporter::Cadvisor, Subject::Container(id)) => joined(&[
            ("id", &owner.path),
            ("name", name_in_cadvisor(owner).unwrap_or(id)),
            (
                "image",
                container.and_then(|it| it.image.as_deref()).unwrap_or(""),
            ),
            ("container", name.unwrap_or("")),
            ("pod", pod_name.unwrap_or("")),
            ("namespace", namespace.unwrap_or("")),
        ]),
        (ForeignExporter::Coroot, Subject::Container(id)) => {
            let name = name.unwrap_or(id.as_str());
            let path = match (namespace, pod_name) {
                (Some(namespace), Some(pod)) => format!("/k8s/{namespace}/{pod}/{name}"),
                _ => {
                    let runtime = container.map_or("container", |it| it.runtime.name());
                    format!("/{runtime}/{name}")
                }
            };
            in_coroot(machine, &[("container_id", &path)])
        }
        (ForeignExporter::Coroot, Subject::Unit(_)) => {
            in_coroot(machine, &[("container_id", &owner.path)])
        }
        _ => String::new(),
    }
}

/// Returns these labels and those of the machine, which Coroot needs to find the pod of a
/// container.
fn in_coroot(machine: &Machine, labels: &[(&str, &str)]) -> String {
    let machine = [
        ("machine_id", machine.machine_id.as_str()),
        ("system_uuid", machine.system_uuid.as_str()),
    ];
    joined(&[&machine, labels].concat())
}

/// Returns the name that Docker gave the container; `None` if cAdvisor shows the id instead.
fn name_in_cadvisor(owner: &Owner) -> Option<&str> {
    let container = owner.container.as_ref()?;
    let is_dockers = container.runtime == Runtime::Docker && owner.pod.is_none();
    container.name.as_deref().filter(|_| is_dockers)
}

/// Writes all families that have samples, and passes each one to `part`.
pub(super) fn write(
    writer: &mut Writer,
    names: &ForeignNames,
    snapshot: &Snapshot,
    part: &mut dyn FnMut(Vec<u8>),
) {
    let ours = |metric: &&ForeignMetric| metric.exporter == names.exporter;
    let machine = &*names.machine;
    let node = match names.exporter {
        ForeignExporter::Cadvisor => String::new(),
        ForeignExporter::Coroot => in_coroot(machine, &[]),
    };
    let node = [node.as_str(), ""];
    for metric in FOREIGN_METRICS.iter().filter(ours) {
        let ForeignOffer::Given(source) = metric.offer else {
            continue;
        };
        let mut family = Family {
            writer,
            metric,
            begun: false,
        };
        match source {
            ForeignSource::Cpus => {
                let cpus = Value::Count(snapshot.node.cpus.into());
                family.put(snapshot.born(), node, NO_LABELS, cpus);
            }
            ForeignSource::Version => {
                let own: Own<'_> = (&["version"], &[snapshot.version]);
                family.put(snapshot.born(), node, own, Value::Count(1));
            }
            ForeignSource::NodeInfo if !machine.name.is_empty() => {
                let own = [machine.name.as_str(), &machine.kernel];
                let own: Own<'_> = (&["hostname", "kernel_version"], &own);
                family.put(snapshot.born(), node, own, Value::Count(1));
            }
            ForeignSource::NodeInfo => {}
            ForeignSource::Uptime => {
                if let Some(ns) = names.uptime_ns {
                    family.put(snapshot.born(), node, NO_LABELS, Value::Nanoseconds(ns));
                }
            }
            ForeignSource::CpuModes => family.cpu_modes(node, snapshot),
            ForeignSource::Destination(counter) => family.destinations(counter, names),
            ForeignSource::Stalled(stalls) => family.stalls(stalls, names),
            _ => family.rows(source, names, snapshot.measured),
        }
        part(writer.take());
    }
}

type Own<'a> = (&'a [&'a str], &'a [&'a str]);
const NO_LABELS: Own<'static> = (&[], &[]);

/// A family whose header is written with its first sample.
struct Family<'a> {
    writer: &'a mut Writer,
    metric: &'static ForeignMetric,
    begun: bool,
}

impl Family<'_> {
    fn put(&mut self, born: Born, identity: [&str; 2], own: Own<'_>, value: Value) {
        let ForeignMetric {
            name, kind, help, ..
        } = *self.metric;
        if !std::mem::replace(&mut self.begun, true) {
            let bare = match kind {
                Kind::Counter => name.strip_suffix("_total").unwrap_or(name),
                _ => name,
            };
            let units = ["seconds"];
            let unit = units.into_iter().find(|unit| bare.ends_with(unit));
            self.writer
                .named_family(bare, kind, unit.unwrap_or(""), help);
        }
        self.writer.pair_sample(born, identity, own, value);
    }

    fn rows(&mut self, source: ForeignSource, names: &ForeignNames, measured: Measured) {
        let own: Own<'_> = match self.metric.name {
            "container_cpu_usage_seconds_total" => (&["cpu"], &["total"]),
            _ => NO_LABELS,
        };
        for (labels, row) in &names.sums.rows {
            let image = row.image.as_deref().map(|image| [image]);
            let own: Own<'_> = match (source, &image) {
                (ForeignSource::Image, Some(image)) => (&["image"], image),
                _ => own,
            };
            if let Some((born, value)) = row.value(source, measured) {
                self.put(born, [labels, ""], own, value);
            }
        }
    }

    /// The modes add up to the time of all CPUs, except for time that the kernel does not account.
    fn cpu_modes(&mut self, identity: [&str; 2], snapshot: &Snapshot) {
        if !snapshot.measured.has(Counter::CpuTime) {
            return;
        }
        let node = &snapshot.node;
        let modes = [
            ("busy", Some(node.total[Counter::CpuTime])),
            ("idle", Some(node.idle_ns)),
            ("irq", node.interrupt_ns),
            ("steal", node.steal_ns),
        ];
        for (mode, ns) in modes {
            if let Some(ns) = ns {
                let own: Own<'_> = (&["mode"], &[mode]);
                self.put(snapshot.born(), identity, own, Value::Nanoseconds(ns));
            }
        }
    }

    fn stalls(&mut self, stalls: &[Stall], names: &ForeignNames) {
        for (labels, row) in &names.sums.rows {
            for stall in stalls {
                let kind = [stall.name()];
                let own: Own<'_> = match names.exporter {
                    ForeignExporter::Cadvisor => NO_LABELS,
                    ForeignExporter::Coroot => (&["kind"], &kind),
                };
                if let Some((born, ns)) = row.stalls[*stall as usize] {
                    self.put(born, [labels, ""], own, Value::Nanoseconds(ns));
                }
            }
        }
    }

    fn destinations(&mut self, counter: DestinationCounter, names: &ForeignNames) {
        for ([labels, partner], destination) in &names.sums.destinations {
            let amount = destination.counters[counter];
            let value = match counter {
                DestinationCounter::ConnectNs => Value::Nanoseconds(amount),
                _ => Value::Count(amount),
            };
            self.put(destination.born, [labels, partner], NO_LABELS, value);
        }
    }
}

impl Row {
    /// Returns the value, and when its series began. Returns `None` if the row has no such value.
    fn value(&self, source: ForeignSource, measured: Measured) -> Option<(Born, Value)> {
        let value = match source {
            ForeignSource::Seconds(counters) => {
                let is_measured = counters.iter().any(|it| measured.has(*it));
                let sum = counters.iter().map(|it| self.counters[*it]).sum();
                is_measured.then_some(Value::Nanoseconds(sum))?
            }
            ForeignSource::Events(counter) => {
                let count = Value::Count(self.events[counter]);
                measured.has(counter).then_some(count)?
            }
            ForeignSource::Periods => return self.periods_by(|periods| periods.all),
            ForeignSource::ThrottledPeriods => return self.periods_by(|it| it.throttled),
            ForeignSource::Period => Value::Count(self.quota?.period_us?),
            ForeignSource::Quota => {
                let quota = self.quota?;
                Value::Count((quota.cpus * quota.period_us? as f64).round() as u64)
            }
            ForeignSource::CpuLimit => Value::Float(self.quota?.cpus),
            ForeignSource::Image => self.image.as_ref().map(|_| Value::Count(1))?,
            ForeignSource::Restarts => Value::Count(self.containers?.saturating_sub(1)),
            ForeignSource::Destination(_)
            | ForeignSource::Stalled(_)
            | ForeignSource::Cpus
            | ForeignSource::CpuModes
            | ForeignSource::Uptime
            | ForeignSource::NodeInfo
            | ForeignSource::Version => return None,
        };
        Some((self.born, value))
    }

    fn periods_by(&self, count: impl FnOnce(Periods) -> u64) -> Option<(Born, Value)> {
        let (born, periods) = self.periods?;
        Some((born, Value::Count(count(periods))))
    }
}
