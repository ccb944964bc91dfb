//! The rows below the node level, with Kepler's labels.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use noctule_model::{
    Batch, Counters, Joules, Owner, Pod, ProcessId, ProcessRow, Runtime, Subject, SubjectRow,
};

use super::super::budget::Table;
use super::super::figures::Figures;
use super::super::labels::OVERFLOW;
use super::super::view::Born;
use super::push_label;

/// Identity labels in the schemes of Kepler 0.11 and 0.7.
type Labels = [Arc<str>; 2];

/// The series of one row.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) labels: Labels,
    pub(super) born: Born,
    pub(super) counters: Counters,
    pub(super) joules: Joules,
    /// Energy in the last interval; `None` in the first batch that shows the row.
    pub(super) tick: Option<Joules>,
}

/// State of the rows that is kept between batches.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// The key `None` is the overflow row.
    containers: HashMap<Option<Subject>, Known>,
    pods: BTreeMap<String, Row>,
    processes: HashMap<ProcessId, Known>,
    sequence: u64,
}

#[derive(Debug)]
struct Known {
    labels: Labels,
    /// Energy in the last batch.
    joules: Joules,
    pod: Option<Arc<Owner>>,
    sequence: u64,
}

impl Rows {
    /// Returns the rows of the containers and of their pods.
    pub(super) fn containers(
        &mut self,
        node_name: &str,
        subjects: &[&SubjectRow],
        table: &Table<Subject>,
    ) -> [Vec<Row>; 2] {
        self.sequence += 1;
        let sequence = self.sequence;
        let owners = subjects.iter().map(|row| (&row.subject, &row.owner));
        let owners: HashMap<&Subject, &Arc<Owner>> = owners.collect();
        let mut pods: BTreeMap<String, Row> = BTreeMap::new();
        let mut rows = Vec::new();
        for (subject, shown) in table.shown() {
            let key = Some(subject.clone());
            let make = || {
                let owner = owners.get(subject)?;
                Some((container_labels(node_name, owner)?, Some(Arc::clone(owner))))
            };
            let seen = Seen {
                sequence,
                born: shown.first_born(),
                figures: shown.figures,
            };
            let Some((row, grown, owner)) = step(&mut self.containers, &key, seen, make) else {
                continue;
            };
            if let Some(pod) = owner.as_ref().and_then(|owner| owner.pod.as_ref()) {
                // A pod's sum includes removed containers, so it never decreases.
                let known = self.pods.get(&pod.uid);
                let sum = pods.entry(pod.uid.clone()).or_insert_with(|| Row {
                    tick: known.map(|_| Joules::default()),
                    ..known
                        .cloned()
                        .unwrap_or_else(|| new_pod(node_name, pod, row.born))
                });
                sum.joules += &grown;
                if let Some(tick) = &mut sum.tick {
                    *tick += &grown;
                }
            }
            rows.push(row);
        }
        if let Some((overflow, born)) = table.overflow() {
            let labels = || {
                let base = [("node_name", node_name), ("container_id", OVERFLOW)];
                Some(([joined(&base).into(), joined(&base[1..]).into()], None))
            };
            let nothing = Figures::default();
            let seen = Seen {
                sequence,
                born,
                figures: [overflow, &nothing],
            };
            let row = step(&mut self.containers, &None, seen, labels);
            rows.extend(row.map(|(row, ..)| row));
        }
        self.containers
            .retain(|_, known| known.sequence == sequence);
        self.pods = pods;
        [rows, self.pods.values().cloned().collect()]
    }

    /// Returns the rows of the processes. Must run after [`Rows::containers`], which counts the
    /// batches.
    pub(super) fn processes(
        &mut self,
        node_name: &str,
        batch: &Batch,
        table: &Table<ProcessId>,
    ) -> Vec<Row> {
        let sequence = self.sequence;
        let listed = batch.processes.iter().chain(&batch.exited);
        let listed: HashMap<ProcessId, &ProcessRow> = listed.map(|row| (row.id, row)).collect();
        let mut rows = Vec::new();
        for (id, shown) in table.shown() {
            let labels = || Some((process_labels(node_name, listed.get(id)?, batch), None));
            let seen = Seen {
                sequence,
                born: shown.first_born(),
                figures: shown.figures,
            };
            let row = step(&mut self.processes, id, seen, labels);
            rows.extend(row.map(|(row, ..)| row));
        }
        self.processes.retain(|_, known| known.sequence == sequence);
        rows
    }
}

/// A row's values in one batch.
#[derive(Clone, Copy)]
struct Seen<'a> {
    sequence: u64,
    born: Born,
    /// The current figures, and how much of them is counted in the overflow row.
    figures: [&'a Figures; 2],
}

/// Returns the row after this batch, its growth, and its owner.
fn step<K: Eq + Hash + Clone>(
    known: &mut HashMap<K, Known>,
    key: &K,
    seen: Seen<'_>,
    make: impl FnOnce() -> Option<(Labels, Option<Arc<Owner>>)>,
) -> Option<(Row, Joules, Option<Arc<Owner>>)> {
    let Seen {
        sequence,
        born,
        figures: [now, charged],
    } = seen;
    let joules = now.joules.since(&charged.joules);
    let before = known.get(key).map(|known| known.joules);
    if before.is_none() {
        let (labels, pod) = make()?;
        let new = Known {
            labels,
            joules,
            pod,
            sequence,
        };
        known.insert(key.clone(), new);
    }
    let entry = known.get_mut(key)?;
    let grown = joules.since(&before.unwrap_or_default());
    (entry.joules, entry.sequence) = (joules, sequence);
    let row = Row {
        labels: entry.labels.clone(),
        born,
        counters: now.counters.since(&charged.counters),
        joules,
        tick: before.map(|_| grown),
    };
    Some((row, grown, entry.pod.clone()))
}

fn new_pod(node_name: &str, pod: &Pod, born: Born) -> Row {
    let labels = joined(&[
        ("node_name", node_name),
        ("pod_id", &pod.uid),
        ("pod_name", pod.name.as_deref().unwrap_or("")),
        ("pod_namespace", pod.namespace.as_deref().unwrap_or("")),
    ]);
    Row {
        labels: [labels.into(), "".into()],
        born,
        counters: Counters::default(),
        joules: Joules::default(),
        tick: None,
    }
}

fn container_labels(node_name: &str, owner: &Owner) -> Option<Labels> {
    let container = owner.container.as_ref()?;
    let pod = owner.pod.as_ref();
    let text = |text: Option<&String>| text.cloned().unwrap_or_default();
    let name = text(container.name.as_ref());
    let new = joined(&[
        ("node_name", node_name),
        ("container_id", &container.id),
        ("container_name", &name),
        ("runtime", runtime(container.runtime)),
        ("pod_id", &text(pod.map(|pod| &pod.uid))),
    ]);
    let old = joined(&[
        ("container_id", &container.id),
        ("container_name", &name),
        ("pod_name", &text(pod.and_then(|pod| pod.name.as_ref()))),
        (
            "container_namespace",
            &text(pod.and_then(|pod| pod.namespace.as_ref())),
        ),
    ]);
    Some([new.into(), old.into()])
}

fn process_labels(node_name: &str, row: &ProcessRow, batch: &Batch) -> Labels {
    let container = row
        .owner
        .as_ref()
        .and_then(|owner| owner.container.as_ref());
    let kind = container.map_or("regular", |_| "container");
    let id = container.map_or("", |container| &container.id);
    let pid = row.id.pid.to_string();
    let start = super::super::labels::start(row.id, batch);
    let comm = row.comm.text();
    let new = joined(&[
        ("node_name", node_name),
        ("pid", &pid),
        ("start", &start),
        ("comm", &comm),
        ("type", kind),
        ("container_id", id),
    ]);
    let old = joined(&[
        ("pid", &pid),
        ("start", &start),
        ("command", &comm),
        ("container_id", id),
    ]);
    [new.into(), old.into()]
}

/// Returns the name of the runtime in Kepler 0.11.
const fn runtime(runtime: Runtime) -> &'static str {
    match runtime {
        Runtime::Docker => "docker",
        Runtime::Containerd => "containerd",
        Runtime::Crio => "crio",
        Runtime::Podman => "podman",
        _ => "unknown",
    }
}

/// Joins labels and values. Empty values are left out, because scrapers treat an empty label as
/// absent.
pub(in super::super) fn joined(labels: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (name, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
        if !out.is_empty() {
            out.push(',');
        }
        push_label(&mut out, name, value);
    }
    out
}
