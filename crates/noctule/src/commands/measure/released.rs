//! Text about the processes that ended the blocks of a group.

use noctule_analysis::{Released, ReleasedBy, WaitReportRow};
use noctule_model::Level;
use noctule_text::{duration, escape, share};

/// Maximum number of releasers to name for a class.
const PARTIES: usize = 3;
/// A class is described if it makes up at least this share of the threads' time, and a releaser if
/// it makes up at least this share of its class.
const SHOWN: f64 = 0.001;

/// Describes the classes whose releasers are known, in descending order of blocked time.
pub(super) fn lines(row: &WaitReportRow, level: Level) -> Vec<String> {
    let least = SHOWN * row.threads_ns() as f64;
    let classes = row.released.iter().flatten();
    let classes = classes.filter(|it| it.blocked_ns as f64 >= least);
    classes.map(|it| words(it, level)).collect()
}

/// Names the releaser with the largest share of the class with the longest blocked time; `None` if
/// there is no such class.
pub(super) fn largest_releaser(row: &WaitReportRow, level: Level) -> Option<String> {
    let longest = row.released.iter().flatten().next()?;
    largest(longest, level)
}

fn largest(it: &Released, level: Level) -> Option<String> {
    let by = it.by.first();
    let by = by.map(|by| (party(by, level), by.blocked_ns));
    let rest = rest(it).map(|(what, ns)| (what.trim_start_matches("by ").to_owned(), ns));
    let parts = rest.into_iter().rev().chain(by);
    let (what, ns) = parts.max_by_key(|(_, ns)| *ns)?;
    let share = share(ns, it.blocked_ns);
    Some(format!("{}: {what} {share}", it.class.name()))
}

/// Returns the blocked time that no party ended, by reason.
fn rest(it: &Released) -> [(&'static str, u64); 3] {
    [
        ("by a timeout or a signal", it.nobody_ns),
        ("not yet", it.open_ns),
        ("unknown", it.unknown_ns),
    ]
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
    let rest = [("by others", others)].into_iter().chain(rest(it));
    let rest = rest.filter(|(_, ns)| is_shown(*ns));
    parts.extend(rest.map(|(what, ns)| format!("{what} {}", part(ns))));
    let blocked = duration(it.blocked_ns);
    format!(
        "{} {blocked}, released {}",
        it.class.name(),
        parts.join(", ")
    )
}

/// Returns the name of the process that ended the most blocked time. The text has "most by" in
/// front if other processes of the party contributed.
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
    fn the_largest_part_is_named_even_if_it_is_unknown() {
        let words = |nobody_ns, open_ns, unknown_ns| {
            let it = Released {
                class: BlockClass::Lock,
                blocked_ns: 100,
                by: Vec::new(),
                nobody_ns,
                open_ns,
                unknown_ns,
            };
            largest(&it, Level::Cgroup).expect("a part")
        };
        assert_eq!(words(0, 0, 100), "lock: unknown 100.0%");
        assert_eq!(words(10, 50, 40), "lock: not yet 50.0%");
        assert_eq!(words(60, 0, 40), "lock: a timeout or a signal 60.0%");
    }

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
