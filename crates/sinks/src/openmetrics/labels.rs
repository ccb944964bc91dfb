//! What identifies a series, and when that is settled.

use noctule_model::{Batch, Owner, ProcessId, ProcessRow, Subject, SubjectRow};

use super::budget::Admission;
use super::text::push_label;

/// Identity of the row in which everything is added up that found no room.
pub(super) const OVERFLOW: &str = "_overflow";

/// The label that identifies a subject, and its value.
fn identity(subject: &Subject) -> (&'static str, &str) {
    match subject {
        Subject::Container(id) => ("container_id", id),
        Subject::Unit(unit) => ("unit", unit),
        Subject::Cgroup(path) => ("cgroup", path),
        Subject::Overflow => ("cgroup", OVERFLOW),
    }
}

/// Whether a subject may be exposed now, and with which labels. `patience_over` says that it has
/// been known for long enough, `lives` whether any of its groups is left.
pub(super) fn of_subject(
    row: &SubjectRow,
    patience_over: bool,
    lives: impl FnOnce() -> bool,
) -> Admission {
    let (label, value) = identity(&row.subject);
    if value == OVERFLOW {
        // An LXC container can have that name. Two series with the same labels make the whole
        // scrape invalid, so it shares the row whose name it took.
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

/// Whether everything is known of a container that is going to be.
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
        // An empty label is the same as none, to every scraper.
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            labels.push(',');
            push_label(labels, label, value);
        }
    }
}

/// How old a process is when it is exposed, if it does not end before. Younger ones often are not yet
/// what they were made to be: who starts a service or a container forks, moves the child to its
/// group, and the child calls exec.
const GROWN_UP_NS: u64 = 1_000_000_000;

/// When a process was created, in Unix seconds.
pub(super) fn start(id: ProcessId, batch: &Batch) -> String {
    let created_ms = batch.boot_unix_ns.saturating_add(id.start_ns) / 1_000_000;
    format!("{}.{:03}", created_ms / 1000, created_ms % 1000)
}

/// Whether a process may be exposed now. It waits for its group's owner as long as a container
/// waits for its name; then the group is named by its id. Of one that is gone the last group and
/// name come with its end.
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
