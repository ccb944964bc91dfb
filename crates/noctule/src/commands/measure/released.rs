//! Text about the processes that ended the blocks of a group.

use noctule_analysis::{Released, ReleasedBy, WaitReportRow};
use noctule_model::Level;
use noctule_text::{duration, escape, share};

/// Maximum number of parties to name for a class.
const PARTIES: usize = 3;
/// Minimum share of the threads' time for a class to be described, and minimum share of a class for
/// a part to be described.
const SHOWN: f64 = 0.001;

/// Describes the classes whose releasers are known, in descending order of blocked time.
pub(super) fn lines(row: &WaitReportRow, level: Level) -> Vec<String> {
    let least = SHOWN * row.threads_ns() as f64;
    let classes = row.released.iter().flatten();
    let classes = classes.filter(|it| it.blocked_ns as f64 >= least);
    classes.map(|it| words(it, level)).collect()
}

/// Returns the name of the party that ended most of the class with the longest blocked time; empty
/// if there is none.
pub(super) fn most(row: &WaitReportRow, level: Level) -> Option<String> {
    let most = row.released.iter().flatten().next()?;
    let class = most.class.name();
    let by = most.by.first();
    Some(match by {
        Some(by) if by.blocked_ns >= most.nobody_ns.max(most.open_ns) => {
            let share = share(by.blocked_ns, most.blocked_ns);
            format!("{class}: {} {share}", party(by, level))
        }
        _ if most.open_ns > most.nobody_ns => format!("{class}: not released yet"),
        _ => format!("{class}: nobody"),
    })
}

fn party(by: &ReleasedBy, level: Level) -> String {
    match by.is_own {
        true => "itself".to_owned(),
        false => escape(&by.party.name(level)),
    }
}

fn words(it: &Released, level: Level) -> String {
    let part = |ns: u64| share(ns, it.blocked_ns);
    let is_shown = |ns: u64| ns > 0 && ns as f64 >= SHOWN * it.blocked_ns as f64;
    let shown = it.by.iter().filter(|by| is_shown(by.blocked_ns));
    let mut parts: Vec<String> = shown
        .clone()
        .take(PARTIES)
        .map(|by| {
            let (party, share) = (party(by, level), part(by.blocked_ns));
            format!("by {party} {share} ({})", process(by))
        })
        .collect();
    let others: u64 = shown.skip(PARTIES).map(|by| by.blocked_ns).sum();
    let rest = [
        ("by others", others),
        ("by a timeout or a signal", it.nobody_ns),
        ("not yet", it.open_ns),
        ("unknown", it.unknown_ns),
    ];
    let rest = rest.into_iter().filter(|(_, ns)| is_shown(*ns));
    parts.extend(rest.map(|(what, ns)| format!("{what} {}", part(ns))));
    let blocked = duration(it.blocked_ns);
    format!(
        "{} {blocked}, released {}",
        it.class.name(),
        parts.join(", ")
    )
}

/// Returns the name of the process that ended the most blocked time, with its share of the party's
/// part if other processes contributed.
fn process(by: &ReleasedBy) -> String {
    let pid = by.process.pid;
    let name = match &by.comm {
        Some(comm) => format!("process {} [{pid}]", escape(comm)),
        None => format!("process [{pid}]"),
    };
    match by.process_ns == by.blocked_ns {
        true => name,
        false => format!("most by {name}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noctule_analysis::Party;
    use noctule_model::{BlockClass, CgroupId, Owner, ProcessId};

    use super::*;

    #[test]
    fn a_class_is_one_sentence_whose_shares_add_up() {
        let by = |path: &str, is_own, blocked_ns, process_ns| ReleasedBy {
            party: Party::Group(Arc::new(Owner {
                path: path.into(),
                ..Owner::unknown(CgroupId(1))
            })),
            is_own,
            blocked_ns,
            process: ProcessId {
                pid: 42,
                start_ns: 1,
            },
            process_ns,
            comm: Some("python3".into()),
        };
        let it = Released {
            class: BlockClass::Lock,
            blocked_ns: 10_000_000_000,
            by: vec![
                by("/web-b", false, 9_000_000_000, 9_000_000_000),
                by("/web-a", true, 500_000_000, 400_000_000),
            ],
            nobody_ns: 200_000_000,
            open_ns: 300_000_000,
            unknown_ns: 0,
        };
        assert_eq!(
            words(&it, Level::Cgroup),
            "lock 10.0s, released by /web-b 90.0% (process python3 [42]), by itself 5.0% (most by \
             process python3 [42]), by a timeout or a signal 2.0%, not yet 3.0%"
        );
    }
}
