//! Names of cAdvisor or of Coroot beside ours (docs/cadvisor.md, docs/coroot.md).
//!
//! The rows are those that have series of their own anyway: their labels are translated once, when they
//! are first shown.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use noctule_model::{
    Batch, DestinationCounter, FOREIGN_METRICS, ForeignExporter, ForeignMetric, ForeignOffer,
    ForeignSource, Kind, Owner, Subject,
};

use super::budget::Table;
use super::kepler::joined;
use super::snapshot::Snapshot;
use super::text::Value;
use super::view::Born;
use super::writer::Writer;

/// Labels of others by ours, of the rows that have any.
pub(super) type Translated = HashMap<Arc<str>, Arc<str>>;

/// What is remembered from one batch to the next.
#[derive(Debug)]
pub(super) struct Foreign {
    exporter: ForeignExporter,
    labels: Arc<Translated>,
}

/// What a scrape shows of them.
#[derive(Clone, Debug)]
pub(super) struct ForeignNames {
    exporter: ForeignExporter,
    labels: Arc<Translated>,
}

impl Foreign {
    pub(super) fn new(exporter: ForeignExporter) -> Self {
        Self {
            exporter,
            labels: Arc::default(),
        }
    }

    /// Takes a batch when it is settled who has series.
    pub(super) fn observe(&mut self, batch: &Batch, tables: [&Table<Subject>; 2]) -> ForeignNames {
        let shown = || tables.into_iter().flat_map(Table::shown);
        let count = shown().count();
        let known = |ours: &Arc<str>| self.labels.contains_key(ours);
        if count != self.labels.len() || !shown().all(|(_, ours, _)| known(ours)) {
            let owners: HashMap<&Subject, &Arc<Owner>> = batch
                .subjects
                .iter()
                .map(|row| (&row.subject, &row.owner))
                .collect();
            let translate = |(subject, ours, _): (&Subject, &Arc<str>, _)| {
                // An empty one can have been another row's for a while.
                let theirs = self.labels.get(ours).filter(|it| !it.is_empty()).cloned();
                let theirs = theirs.or_else(|| {
                    let owner = owners.get(subject)?;
                    Some(translated(self.exporter, subject, owner).into())
                });
                Some((ours.clone(), theirs?))
            };
            let mut labels: Translated = shown().filter_map(translate).collect();
            let first = |subject: &Subject| tables.iter().find_map(|table| table.first_ns(subject));
            let ages = shown().map(|(subject, ours, _)| (ours, first(subject)));
            leave_newest(&mut labels, ages);
            self.labels = Arc::new(labels);
        }
        ForeignNames {
            exporter: self.exporter,
            labels: self.labels.clone(),
        }
    }
}

/// A container that is started again has the name of the one before, which is shown for a while: the labels
/// are the newest row's from then on. `ages`: since when each row is known.
fn leave_newest<'a>(
    labels: &mut Translated,
    ages: impl Iterator<Item = (&'a Arc<str>, Option<u64>)>,
) {
    let mut ages: Vec<_> = ages.collect();
    ages.sort_by_key(|(_, first_ns)| Reverse(*first_ns));
    let mut taken = HashSet::new();
    for (ours, _) in ages {
        if let Some(theirs) = labels.get_mut(ours)
            && !theirs.is_empty()
            && !taken.insert(theirs.clone())
        {
            *theirs = "".into();
        }
    }
}

/// The labels of a row; empty where the other exporter has no such rows.
fn translated(exporter: ForeignExporter, subject: &Subject, owner: &Owner) -> String {
    let container = owner.container.as_ref();
    let pod = owner.pod.as_ref();
    let name = container.and_then(|it| it.name.as_deref());
    let pod_name = pod.and_then(|it| it.name.as_deref());
    let namespace = pod.and_then(|it| it.namespace.as_deref());
    match (exporter, subject) {
        (ForeignExporter::Cadvisor, Subject::Container(id)) => joined(&[
            ("id", &owner.path),
            ("name", id.as_str()),
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
            joined(&[("container_id", &path)])
        }
        (ForeignExporter::Coroot, Subject::Unit(_)) => joined(&[("container_id", &owner.path)]),
        _ => String::new(),
    }
}

/// Writes every family that has samples; `part` gets each when it is written.
pub(super) fn write(
    writer: &mut Writer,
    names: &ForeignNames,
    snapshot: &Snapshot,
    part: &mut dyn FnMut(Vec<u8>),
) {
    let ours = |metric: &&ForeignMetric| metric.exporter == names.exporter;
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
                family.put(snapshot.born(), ["", ""], NO_LABELS, cpus);
            }
            ForeignSource::Version => {
                let own: Own<'_> = (&["version"], &[snapshot.version]);
                family.put(snapshot.born(), ["", ""], own, Value::Count(1));
            }
            _ => family.rows(source, names, snapshot),
        }
        part(writer.take());
    }
}

type Own<'a> = (&'a [&'a str], &'a [&'a str]);
const NO_LABELS: Own<'static> = (&[], &[]);

/// A family whose head is written before its first sample.
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

    fn rows(&mut self, source: ForeignSource, names: &ForeignNames, snapshot: &Snapshot) {
        let own: Own<'_> = match (source, names.exporter) {
            (ForeignSource::Seconds(_), ForeignExporter::Cadvisor)
                if self.metric.name == "container_cpu_usage_seconds_total" =>
            {
                (&["cpu"], &["total"])
            }
            _ => NO_LABELS,
        };
        let theirs = |ours: &Arc<str>| names.labels.get(ours).filter(|it| !it.is_empty());
        for level in &snapshot.levels {
            for line in &level.lines {
                let value = match source {
                    ForeignSource::Seconds(counters) => {
                        let measured = |it: &noctule_model::Counter| snapshot.measured.has(*it);
                        if !counters.iter().any(measured) {
                            return;
                        }
                        let sum = counters.iter().map(|it| line.figures.counters[*it]).sum();
                        Value::Nanoseconds(sum)
                    }
                    ForeignSource::Events(counter) => {
                        if !snapshot.measured.has(counter) {
                            return;
                        }
                        Value::Count(line.figures.events[counter])
                    }
                    _ => break,
                };
                if let Some(labels) = theirs(&line.labels) {
                    self.put(line.born, [labels, ""], own, value);
                }
            }
            let ForeignSource::Destination(counter) = source else {
                continue;
            };
            for line in &level.destinations {
                let Some(labels) = theirs(&line.labels) else {
                    continue;
                };
                let amount = line.amount[counter];
                let value = match counter {
                    DestinationCounter::ConnectNs => Value::Nanoseconds(amount),
                    _ => Value::Count(amount),
                };
                self.put(line.born, [labels, &line.partner], own, value);
            }
        }
    }
}
