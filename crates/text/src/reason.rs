//! A verdict in words: what happens to the group, by whom and how much.

use noctule_model::{Reason, VerdictKind};

use crate::{duration, percent};

/// The sentence of a verdict, from the group's own point of view. Not escaped.
pub fn sentence(reason: &Reason) -> String {
    let mut words = match reason.kind {
        VerdictKind::Quiet => "not hurt".to_owned(),
        VerdictKind::HurtByNeighbour => neighbour(reason),
        VerdictKind::HurtByNeighbours => neighbours(reason),
        VerdictKind::HeldByQuota => held(reason),
        VerdictKind::QuotaAndNeighbours => {
            let (throttled, limit) = (part(reason.throttled), limit(reason));
            format!("held back {throttled} by {limit}, then {}", behind(reason))
        }
        VerdictKind::TooManyThreads => threads(reason),
        VerdictKind::HurtByKernel => {
            let kernel = part(reason.kernel);
            let names = reason.settings.kernel_threads.join(", ");
            let names = match names.as_str() {
                "" => String::new(),
                names => format!(" ({names})"),
            };
            format!("kernel threads{names} had its CPU {kernel} of the time it wanted")
        }
        VerdictKind::HurtByHost => {
            let host = part(reason.host);
            format!("the hypervisor took the CPU (steal {host} of the time it wanted)")
        }
        VerdictKind::HurtByInterrupts => {
            let interrupts = part(reason.interrupts);
            format!("interrupts took the CPU {interrupts} of the time it wanted")
        }
    };
    if let Some(unusual) = reason.unusual {
        let (p99, times) = (duration(unusual.p99_ns), unusual.times);
        words.push_str(&format!("; p99 {p99} is {times:.0} times the usual"));
    }
    if reason.provisional {
        words.push_str(" (provisional)");
    }
    words
}

pub(crate) fn part(part: f64) -> String {
    percent(part * 100.0)
}

/// Others, of which one has the most.
fn neighbour(reason: &Reason) -> String {
    let contended = part(reason.contended);
    let mut words = "hurt".to_owned();
    if let Some(culprit) = reason.culprits.first() {
        words = format!("hurt by {}", culprit.name);
    }
    words.push_str(&format!(
        ": runnable but not running {contended} of its wanted time"
    ));
    // Where others had a part in it, too.
    if let Some(culprit) = reason.culprits.first()
        && culprit.share < 0.95 * reason.contended
    {
        words.push_str(&format!(", {} behind that one", part(culprit.share)));
    }
    if let Some(p99_ns) = reason.p99_ns {
        words.push_str(&format!(", p99 {}", duration(p99_ns)));
    }
    words
}

fn neighbours(reason: &Reason) -> String {
    let contended = part(reason.contended);
    match names(reason) {
        Some(names) => format!(
            "hurt by several: {names}; runnable but not running {contended} of its wanted time"
        ),
        None => format!(
            "runnable but not running {contended} of its wanted time; who had the CPU is not known"
        ),
    }
}

/// The culprits, each with its part of the wanted time.
fn names(reason: &Reason) -> Option<String> {
    let one = |culprit: &noctule_model::ReasonCulprit| {
        format!("{} {}", culprit.name, part(culprit.share))
    };
    let names: Vec<String> = reason.culprits.iter().map(one).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn held(reason: &Reason) -> String {
    let (throttled, limit) = (part(reason.throttled), limit(reason));
    let mut words = format!("held back {throttled} of its wanted time by {limit}");
    // A neighbour that took nothing from it is not accused, but it is seen in the table.
    if let Some(culprit) = reason.culprits.first().filter(|c| c.share >= 0.1)
        && reason.quota_binds
    {
        let (name, share) = (&culprit.name, part(culprit.share));
        words.push_str(&format!(
            "; it also waited {share} behind {name}, which cost it nothing: it used the limit up"
        ));
    }
    words
}

fn behind(reason: &Reason) -> String {
    match reason.culprits.as_slice() {
        [] => format!("{} by others", part(reason.contended)),
        [culprit] => format!("{} by {}", part(culprit.share), culprit.name),
        [culprit, ..] if culprit.share >= 0.5 * reason.contended => {
            format!("{} by {}", part(culprit.share), culprit.name)
        }
        _ => format!("by several: {}", names(reason).unwrap_or_default()),
    }
}

/// The limit that holds a group back.
fn limit(reason: &Reason) -> String {
    match &reason.quota {
        None => "a CPU limit".to_owned(),
        Some(quota) => match &quota.group {
            None => format!("its own limit of {}", cpus(quota.cpus)),
            Some(group) => format!("the limit of {} of {group}", cpus(quota.cpus)),
        },
    }
}

fn threads(reason: &Reason) -> String {
    let threads = reason.threads.round();
    let cpus = cpus((reason.cpus * 10.0).round() / 10.0);
    match threads >= 2.0 {
        true => format!("its own {threads:.0} runnable threads share {cpus}"),
        // They wanted the CPU for a part of the window only.
        false => format!(
            "its own threads wait for each other {} of their wanted time",
            part(reason.own)
        ),
    }
}

/// A number of CPUs: `0.2 CPU`, `1 CPU`, `1.5 CPUs`.
pub fn cpus(value: f64) -> String {
    let digits = format!("{value:.2}");
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    let s = if value > 1.0 { "s" } else { "" };
    format!("{digits} CPU{s}")
}
