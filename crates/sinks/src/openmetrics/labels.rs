//! The labels that identify a series, and when they become final.

use noctule_model::{Batch, Owner, ProcessId, ProcessRow, Subject, SubjectRow};

use super::budget::Admission;
use super::text::push_label;

/// The identity label's value for the row that collects everything beyond the limit.
pub(super) const OVERFLOW: &str = "_overflow";

/// Returns the label that identifies a subject, and its value.
fn identity(subject: &Subject) -> (&'static str, &str) {
    match subject {
        Subject::Container(id) => ("container_id", id),
        Subject::Unit(unit) => ("unit", unit),
        Subject::Cgroup(path) => ("cgroup", path),
        Subject::Overflow => ("cgroup", OVERFLOW),
    }
}

/// Decides whether a subject may be exported now, and with which labels. `patience_over` means that
/// the subject has waited long enough for its name. `lives` returns whether any of the subject's
/// cgroups still exists.
pub(super) fn of_subject(
    row: &SubjectRow,
    patience_over: bool,
    lives: impl FnOnce() -> bool,
) -> Admission {
    let (label, value) = identity(&row.subject);
    if value == OVERFLOW {
        // An LXC container can have this name. Two series with equal labels would make the whole
        // scrape invalid, so such a container is counted in the overflow row.
        return Admission::Overflow;
    }
    let container = matches!(row.subject, Subject::Container(_));
    if container && !has_names(&row.owner) && !patience_over && lives() {
        return Admission::Wait;
    }
    let mut labels = String::new();
    push_label(&mut labels, label, value);
    if container {
        push_container_labels(&mut labels, &row.owner);
    }
    Admission::Show(labels.into())
}

/// Returns whether the name of the container is known, and the name of its pod, if it has one.
pub fn has_names(owner: &Owner) -> bool {
    owner.container.as_ref().is_some_and(|c| c.name.is_some())
        && owner.pod.as_ref().is_none_or(|pod| pod.name.is_some())
}

fn push_container_labels(labels: &mut String, owner: &Owner) {
    let container = owner.container.as_ref();
    let pod = owner.pod.as_ref();
    let known = [
        ("container", container.and_then(|c| c.name.as_deref())),
        ("runtime", container.map(|c| c.runtime.name())),
        ("pod_uid", pod.map(|p| p.uid.as_str())),
        ("pod", pod.and_then(|p| p.name.as_deref())),
        ("namespace", pod.and_then(|p| p.namespace.as_deref())),
        ("unit", owner.unit.as_deref()),
    ];
    for (label, value) in known {
        // Scrapers treat an empty label as absent.
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            labels.push(',');
            push_label(labels, label, value);
        }
    }
}

/// Age at which a process is exported, unless it ends earlier. A younger process often still
/// changes: a service manager or runtime forks, moves the child to its cgroup, and then the child
/// executes another program.
const GROWN_UP_NS: u64 = 1_000_000_000;

/// Returns when a process was created, in Unix seconds with three decimals.
pub(super) fn start(id: ProcessId, batch: &Batch) -> String {
    let created_ms = batch.boot_unix_ns.saturating_add(id.start_ns) / 1_000_000;
    format!("{}.{:03}", created_ms / 1000, created_ms % 1000)
}

/// Decides whether a process may be exported now, and with which labels.
///
/// A process waits for the owner of its cgroup as long as a container waits for its name. After
/// that time, the label is the cgroup's id. A process that has ended waits for its exit record,
/// which contains its final cgroup and name.
pub(super) fn of_process(row: &ProcessRow, batch: &Batch, patience_over: bool) -> Admission {
    let created_ns = batch.boot_unix_ns.saturating_add(row.id.start_ns);
    let young = batch.time_unix_ns < created_ns.saturating_add(GROWN_UP_NS);
    if row.gone || !row.exited && (young || row.owner.is_none() && !patience_over) {
        return Admission::Wait;
    }
    let start = start(row.id, batch);
    let mut labels = format!("pid=\"{}\",start=\"{start}\",", row.id.pid);
    push_label(&mut labels, "comm", &row.comm.text());
    labels.push(',');
    let subject = match &row.owner {
        Some(owner) => owner.subject(),
        None => Owner::unknown(row.cgroup).subject(),
    };
    let (label, value) = identity(&subject);
    push_label(&mut labels, label, value);
    Admission::Show(labels.into())
}
