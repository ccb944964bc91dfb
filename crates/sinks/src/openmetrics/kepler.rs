//! Metrics under Kepler's names, in addition to noctule's own, for existing dashboards
//! (docs/kepler.md).
//!
//! Only rows with their own series are exported, and their labels become final at the same time.
//! Pods are the sums of their containers.

mod rows;

use std::sync::Arc;

use noctule_analysis::counts_in_rows;
use noctule_model::{
    Batch, KEPLER_METRICS, KeplerLevel, KeplerMetric, KeplerOffer, KeplerPart, KeplerSource,
    KeplerVersion, Measured, Node, ProcessId, Subject, SubjectRow, ZoneAccount, ZoneKind,
};

use super::budget::Table;
use super::energy::Energy;
use super::machine::Machine;
use super::snapshot::Snapshot;
use super::text::{Value, push_label};
use super::view::Born;
use super::writer::Writer;
pub(super) use rows::joined;
use rows::{Row, Rows};

/// The value of the label `state`. It never changes, because a series with another state would be a
/// new series, and the growth between the two would be lost.
const STATE: &str = "running";

/// State that is kept between batches.
#[derive(Debug)]
pub(super) struct Kepler {
    node_name: Arc<str>,
    machine: Arc<Machine>,
    rows: Rows,
    before: Option<Before>,
}

#[derive(Debug)]
struct Before {
    taken_ns: u64,
    node: Node,
    zones: Vec<Zone>,
}

/// The values that a scrape shows under Kepler's names.
#[derive(Clone, Debug)]
pub(super) struct Names {
    node_name: Arc<str>,
    machine: Arc<Machine>,
    /// Time since the previous batch; `None` in the first batch.
    tick_seconds: Option<f64>,
    usage: Option<f64>,
    zones: Vec<Zone>,
    containers: Vec<Row>,
    pods: Vec<Row>,
    processes: Vec<Row>,
}

/// The sum of all zones of a kind.
#[derive(Clone, Debug)]
struct Zone {
    kind: ZoneKind,
    path: String,
    source: &'static str,
    /// Total, active and idle energy in microjoules, since the start.
    sums: [u64; 3],
    tick: [u64; 3],
}

impl Names {
    /// Returns when each of the series began.
    pub(super) fn born(&self) -> impl Iterator<Item = Born> {
        let rows = self.containers.iter().chain(&self.pods);
        rows.chain(&self.processes).map(|row| row.born)
    }
}

impl Kepler {
    pub(super) fn new(node_name: &str, machine: Arc<Machine>) -> Self {
        Self {
            node_name: node_name.into(),
            machine,
            rows: Rows::default(),
            before: None,
        }
    }

    /// Takes a batch. Must run after the tables have decided which rows have series.
    pub(super) fn observe(
        &mut self,
        batch: &Batch,
        subjects: &[&SubjectRow],
        containers: &Table<Subject>,
        processes: Option<&Table<ProcessId>>,
    ) -> Names {
        let name = self.node_name.clone();
        let [containers, pods] = self.rows.containers(&name, subjects, containers);
        let processes = processes.map(|table| self.rows.processes(&name, batch, table));
        let mut zones = zones(batch);
        let before = self.before.as_ref();
        if let Some(before) = before {
            for zone in &mut zones {
                let was = before.zones.iter().find(|was| was.kind == zone.kind);
                let was = was.map_or([0; 3], |was| was.sums);
                zone.tick = std::array::from_fn(|at| zone.sums[at].saturating_sub(was[at]));
            }
        }
        let length = before.map(|it| batch.taken_ns.saturating_sub(it.taken_ns));
        let names = Names {
            node_name: name,
            machine: self.machine.clone(),
            tick_seconds: length.filter(|ns| *ns > 0).map(|ns| ns as f64 / 1e9),
            usage: before.and_then(|before| usage(&before.node, &batch.node)),
            zones: zones.clone(),
            containers,
            pods,
            processes: processes.unwrap_or_default(),
        };
        self.before = Some(Before {
            taken_ns: batch.taken_ns,
            node: batch.node,
            zones,
        });
        names
    }
}

fn usage(before: &Node, now: &Node) -> Option<f64> {
    let elapsed = now.elapsed_ns.saturating_sub(before.elapsed_ns);
    let idle = now.idle_ns.saturating_sub(before.idle_ns);
    (elapsed > 0).then(|| 1.0 - (idle as f64 / elapsed as f64).min(1.0))
}

/// Returns the zones, summed by kind. A zone inside another zone of the same kind is not counted
/// again.
fn zones(batch: &Batch) -> Vec<Zone> {
    let Some(energy) = &batch.energy else {
        return Vec::new();
    };
    let mut zones: Vec<Zone> = Vec::new();
    for (place, (zone, account)) in energy.zones.iter().zip(&batch.zone_accounts).enumerate() {
        if !counts_in_rows(place, &energy.zones) {
            continue;
        }
        let sums = sums(account);
        match zones.iter_mut().find(|known| known.kind == zone.kind) {
            Some(known) => {
                known.path = format!("aggregated-{}", zone.kind.name());
                known.sums = std::array::from_fn(|at| known.sums[at] + sums[at]);
            }
            None => zones.push(Zone {
                kind: zone.kind,
                path: zone.path.clone(),
                source: zone.source.name(),
                sums,
                tick: [0; 3],
            }),
        }
    }
    zones
}

fn sums(account: &ZoneAccount) -> [u64; 3] {
    let active = account.total_uj.saturating_sub(account.idle_uj);
    [account.total_uj, active, account.idle_uj]
}

const fn place(part: KeplerPart) -> usize {
    match part {
        KeplerPart::Total => 0,
        KeplerPart::Active => 1,
        KeplerPart::Idle => 2,
    }
}

/// Writes all families that have samples, and passes each one to `part`.
pub(super) fn write(
    text: &mut Writer,
    names: &Names,
    snapshot: &Snapshot,
    part: &mut dyn FnMut(Vec<u8>),
) {
    for metric in KEPLER_METRICS {
        let KeplerOffer::Given(source) = metric.offer else {
            continue;
        };
        let mut family = Family {
            text,
            metric,
            begun: false,
        };
        let energy = &snapshot.energy;
        match metric.level {
            KeplerLevel::Node => family.node(source, names, energy, snapshot.born()),
            KeplerLevel::Container => family.rows(&names.containers, source, names, snapshot),
            KeplerLevel::Pod => family.rows(&names.pods, source, names, snapshot),
            KeplerLevel::Process => family.rows(&names.processes, source, names, snapshot),
            KeplerLevel::Other => {}
        }
        part(text.take());
    }
}

/// A family whose header is written with its first sample.
struct Family<'a> {
    text: &'a mut Writer,
    metric: &'static KeplerMetric,
    begun: bool,
}

impl Family<'_> {
    fn put(&mut self, born: Born, identity: &str, own: (&[&str], &[&str]), value: Value) {
        if !std::mem::replace(&mut self.begun, true) {
            let KeplerMetric {
                name, kind, help, ..
            } = *self.metric;
            self.text.named_family(name, kind, unit(name), help);
        }
        self.text.sample(born, identity, own, value);
    }

    fn node(&mut self, source: KeplerSource, names: &Names, energy: &Energy, born: Born) {
        let node_name = joined(&[("node_name", &names.node_name)]);
        match source {
            KeplerSource::UsageRatio => {
                if let Some(usage) = names.usage {
                    self.put(born, &node_name, (&[], &[]), Value::Float(usage));
                }
            }
            KeplerSource::Joules(part) => {
                for zone in &names.zones {
                    let value = Value::Microjoules(zone.sums[place(part)]);
                    self.put(born, &node_name, zone.labels().borrow(), value);
                }
            }
            KeplerSource::Watts(part) => {
                let Some(seconds) = names.tick_seconds else {
                    return;
                };
                for zone in &names.zones {
                    let value = watts(zone.tick[place(part)], seconds);
                    self.put(born, &node_name, zone.labels().borrow(), value);
                }
            }
            KeplerSource::JoulesOf(kind) => self.zones_of(kind, names, energy, born),
            KeplerSource::CpuInfo => {
                for processor in &names.machine.processors {
                    let values = processor.each_ref().map(String::as_str);
                    let labels = self.metric.labels().iter().copied().zip(values);
                    let labels = joined(&labels.collect::<Vec<_>>());
                    self.put(born, &labels, (&[], &[]), Value::Count(1));
                }
            }
            _ => {}
        }
    }

    /// Writes a zone by socket and mode, as Kepler 0.7 does.
    fn zones_of(&mut self, kind: ZoneKind, names: &Names, energy: &Energy, born: Born) {
        for zone in energy.zones.iter().filter(|z| z.labels[0] == kind.name()) {
            let [_, socket, source] = &zone.labels;
            let total: u64 = zone.parts.iter().map(|(_, uj)| uj).sum();
            let idle = zone.parts.iter().find(|(part, _)| *part == "idle");
            let idle = idle.map_or(0, |(_, uj)| *uj);
            for (mode, uj) in [("dynamic", total - idle), ("idle", idle)] {
                let labels = joined(&[
                    ("instance", &names.node_name),
                    ("package", socket),
                    ("mode", mode),
                    ("source", source),
                ]);
                self.put(born, &labels, (&[], &[]), Value::Microjoules(uj));
            }
        }
    }

    fn rows(&mut self, rows: &[Row], source: KeplerSource, names: &Names, snapshot: &Snapshot) {
        for row in rows {
            let identity = match self.metric.version {
                KeplerVersion::V011 => &row.labels[0],
                KeplerVersion::V07 => &row.labels[1],
            };
            match source {
                KeplerSource::Joules(_) => self.joules(identity, row, snapshot),
                KeplerSource::Watts(_) => self.watts(identity, row, names, snapshot),
                KeplerSource::JoulesOf(_) | KeplerSource::AllJoules => {
                    self.dynamic(identity, row, source, snapshot);
                }
                KeplerSource::Seconds(_)
                | KeplerSource::Milliseconds(_)
                | KeplerSource::Count(_) => {
                    let value = counted(source, row, snapshot.measured);
                    let own: (&[&str], &[&str]) = match self.metric.labels().contains(&"state") {
                        true => (&["state"], &[STATE]),
                        false => (&[], &[]),
                    };
                    if let Some(value) = value {
                        self.put(row.born, identity, own, value);
                    }
                }
                KeplerSource::UsageRatio | KeplerSource::CpuInfo => {}
            }
        }
    }

    fn joules(&mut self, identity: &str, row: &Row, snapshot: &Snapshot) {
        for kind in &snapshot.energy.kinds {
            let value = Value::Microjoules(row.joules[kind.kind]);
            let zone = [kind.kind.name(), kind.source.name()];
            self.put_zone(row.born, identity, zone, value);
        }
    }

    fn watts(&mut self, identity: &str, row: &Row, names: &Names, snapshot: &Snapshot) {
        let (Some(tick), Some(seconds)) = (row.tick, names.tick_seconds) else {
            return;
        };
        for kind in &snapshot.energy.kinds {
            let value = watts(tick[kind.kind], seconds);
            let zone = [kind.kind.name(), kind.source.name()];
            self.put_zone(row.born, identity, zone, value);
        }
    }

    /// Writes the energy of a process. Kepler 0.11 identifies a process without `state`, and adds
    /// that label only to metrics with a zone.
    fn put_zone(&mut self, born: Born, identity: &str, [zone, source]: [&str; 2], value: Value) {
        let names = ["state", "zone", "source"];
        let values = [STATE, zone, source];
        self.put(born, identity, (&names, &values), value);
    }

    fn dynamic(&mut self, identity: &str, row: &Row, source: KeplerSource, snapshot: &Snapshot) {
        let wanted = |kind: ZoneKind| match source {
            KeplerSource::JoulesOf(one) => kind == one,
            _ => matches!(kind, ZoneKind::Package | ZoneKind::Dram),
        };
        let kinds = snapshot.energy.kinds.iter();
        let kinds: Vec<_> = kinds.filter(|kind| wanted(kind.kind)).collect();
        let Some(first) = kinds.first() else { return };
        let sum = kinds.iter().map(|kind| row.joules[kind.kind]).sum();
        let own: (&[&str], &[&str]) = (&["mode", "source"], &["dynamic", first.source.name()]);
        self.put(row.born, identity, own, Value::Microjoules(sum));
    }
}

fn counted(source: KeplerSource, row: &Row, measured: Measured) -> Option<Value> {
    let value = |counter| measured.value(&row.counters, counter);
    Some(match source {
        KeplerSource::Seconds(counter) => Value::Nanoseconds(value(counter)?),
        KeplerSource::Milliseconds(counter) => Value::Count(value(counter)? / 1_000_000),
        KeplerSource::Count(counter) => Value::Count(value(counter)?),
        _ => return None,
    })
}

/// Values of the labels `zone`, `path` and `source`.
struct ZoneLabels<'a>([&'a str; 3]);

impl ZoneLabels<'_> {
    fn borrow(&self) -> (&[&str], &[&str]) {
        (&["zone", "path", "source"], &self.0)
    }
}

impl Zone {
    fn labels(&self) -> ZoneLabels<'_> {
        ZoneLabels([self.kind.name(), &self.path, self.source])
    }
}

fn watts(uj: u64, seconds: f64) -> Value {
    Value::Float(uj as f64 / 1e6 / seconds)
}

/// Returns the unit at the end of a metric's name, if OpenMetrics knows that unit.
fn unit(name: &str) -> &'static str {
    ["joules", "watts", "seconds", "ratio"]
        .into_iter()
        .find(|unit| name.ends_with(unit))
        .unwrap_or("")
}
