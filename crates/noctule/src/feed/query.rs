//! Parses the parameters of API requests.

use std::cmp::Reverse;
use std::str::FromStr;

use noctule_analysis::{OwnerId, Party, Report, Row, is_trouble};
use noctule_model::{Cause, Counter, Event, Level, Measured, What};
use noctule_sinks::events::event_line;
use noctule_sinks::json::{HistoryRows, HistorySort};
use noctule_web::{Query, Refusal};

use super::MOST_ROWS;

/// Maximum number of steps in a history.
const MOST_STEPS: usize = 1000;
/// Maximum number of CPUs shown individually.
const MOST_STRIPS: usize = 256;
/// Maximum number of owners and pairs in a history.
const MOST_OWNERS: usize = 500;
/// Maximum number of events in a response.
const MOST_EVENTS: usize = 2000;

const SECOND: f64 = 1e9;

/// Maximum error of a moment that a client converted from nanoseconds to seconds in 64-bit floating
/// point.
const ROUNDING_NS: u64 = 1_000;

/// Parses a parameter, or returns the default if it is missing.
fn value<T: FromStr>(query: &Query, name: &str, usual: T, is: &str) -> Result<T, Refusal> {
    match query.get(name) {
        None => Ok(usual),
        Some(text) => text
            .parse()
            .map_err(|_| Refusal::Query(format!("{name}: must be {is}"))),
    }
}

/// Parses an integer between 1 and `most`.
fn number(query: &Query, name: &str, usual: usize, most: usize) -> Result<usize, Refusal> {
    let is = format!("a whole number from 1 to {most}");
    let number = value(query, name, usual, &is)?;
    match (1..=most).contains(&number) {
        true => Ok(number),
        false => Err(Refusal::Query(format!("{name}: must be {is}"))),
    }
}

/// Parses seconds since 1970 into nanoseconds.
fn moment(query: &Query, name: &str, usual_ns: u64) -> Result<u64, Refusal> {
    const IS: &str = "seconds since 1970";
    if query.get(name).is_none() {
        return Ok(usual_ns);
    }
    let seconds: f64 = value(query, name, 0.0, IS)?;
    match (0.0..1e10).contains(&seconds) {
        true => Ok(nanos(seconds)),
        false => Err(Refusal::Query(format!("{name}: must be {IS}"))),
    }
}

fn nanos(seconds: f64) -> u64 {
    (seconds * SECOND) as u64
}

/// Parses one of several words; the first one is the default.
fn one_of<T: Copy>(query: &Query, name: &str, words: &[(&str, T)]) -> Result<T, Refusal> {
    let given = query.get(name).unwrap_or(words[0].0);
    let found = words.iter().find(|(word, _)| *word == given);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        Refusal::Query(format!("{name}: must be one of {}", words.join(", ")))
    })
}

/// Parses a pid; the default is the agent's own.
pub(super) fn pid_query(query: &Query) -> Result<u32, Refusal> {
    value(query, "pid", std::process::id(), "a process id")
}

fn filter(query: &Query) -> String {
    query.get("filter").unwrap_or_default().to_lowercase()
}

/// Selection and order of the rows of a table.
pub(super) struct TableQuery {
    sort: TableSort,
    limit: usize,
    filter: String,
}

#[derive(Clone, Copy)]
enum TableSort {
    Counter(Counter),
    Wait,
    Name,
}

pub(super) fn table_query(query: &Query) -> Result<TableQuery, Refusal> {
    let sorts = [
        ("cpu", TableSort::Counter(Counter::CpuTime)),
        ("wait", TableSort::Wait),
        ("name", TableSort::Name),
        ("preempted", TableSort::Counter(Counter::SwitchesPreempted)),
        ("throttled", TableSort::Counter(Counter::SwitchesThrottled)),
        ("page_reads", TableSort::Counter(Counter::PageReads)),
        ("page_writes", TableSort::Counter(Counter::PageWrites)),
    ];
    Ok(TableQuery {
        sort: one_of(query, "sort", &sorts)?,
        limit: number(query, "limit", MOST_ROWS, MOST_ROWS)?,
        filter: filter(query),
    })
}

impl TableQuery {
    pub(super) fn apply(&self, report: &mut Report, level: Level) {
        let rows = &mut report.rows;
        rows.retain(|row| matches(row, level, &self.filter));
        let measured = report.measured;
        match self.sort {
            TableSort::Counter(Counter::CpuTime) => {}
            TableSort::Counter(it) => rows.sort_by_key(|row| Reverse(row.counters[it])),
            TableSort::Wait => rows.sort_by_key(|row| Reverse(waited(row, measured))),
            TableSort::Name => rows.sort_by_cached_key(|row| row.name(level)),
        }
        rows.truncate(self.limit);
    }
}

fn waited(row: &Row, measured: Measured) -> u64 {
    let causes = Cause::ALL.into_iter().map(Counter::Wait);
    causes
        .filter_map(|it| measured.value(&row.counters, it))
        .sum()
}

/// Returns whether the row's name, owner, pid, container id or path contains the lowercase filter.
fn matches(row: &Row, level: Level, filter: &str) -> bool {
    let contains = |text: &str| text.to_lowercase().contains(filter);
    let container = row.owner.container.as_ref();
    filter.is_empty()
        || contains(&row.name(level))
        || contains(&row.owner.name(Level::Container))
        || contains(&row.owner.path)
        || container.is_some_and(|it| contains(&it.id))
        || (row.process.as_ref()).is_some_and(|it| it.id.pid.to_string().contains(filter))
}

/// The requested events.
pub(super) struct EventsQuery {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) limit: usize,
    /// The owner of the events' processes.
    pub(super) owner: Option<OwnerId>,
    kinds: Vec<String>,
    /// Whether only signs of trouble are wanted.
    trouble: bool,
    filter: String,
}

pub(super) fn events_query(query: &Query) -> Result<EventsQuery, Refusal> {
    let from_ns = moment(query, "from", 0)?;
    let to_ns = moment(query, "to", u64::MAX)?;
    if from_ns > to_ns {
        return Err(Refusal::Query("from: must not be after `to`".into()));
    }
    Ok(EventsQuery {
        from_ns,
        to_ns,
        limit: number(query, "limit", 200, MOST_EVENTS)?,
        owner: owner_query(query, "owner")?,
        kinds: kinds(query)?,
        trouble: one_of(query, "severity", &[("all", false), ("trouble", true)])?,
        filter: filter(query),
    })
}

/// Parses names of events, or prefixes of names.
fn kinds(query: &Query) -> Result<Vec<String>, Refusal> {
    let given = query.get("kind").unwrap_or_default().split(',');
    let kinds: Vec<String> = given
        .filter(|kind| !kind.is_empty())
        .map(Into::into)
        .collect();
    let is_known = |kind: &String| What::NAMES.iter().any(|name| is_kind(name, kind));
    match kinds.iter().all(is_known) {
        true => Ok(kinds),
        false => Err(Refusal::Query(format!(
            "kind: must be event names or prefixes of them: {}",
            What::NAMES.join(", ")
        ))),
    }
}

/// Returns whether an event name equals the kind or begins with it, such as `process` or
/// `oom.kill`.
fn is_kind(name: &str, kind: &str) -> bool {
    let rest = name.strip_prefix(kind);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl EventsQuery {
    /// Returns whether an event matches. `party` is the requested owner.
    pub(super) fn fits(&self, event: &Event, party: Option<&Party>) -> bool {
        let name = event.what.name();
        let fits = |kind: &String| is_kind(name, kind);
        let of = |party: &Party| {
            let process = event.process.as_ref();
            let owner = process.and_then(|process| process.owner.clone());
            let key = owner.map(|owner| Party::Group(owner).key(Level::Container));
            key == Some(party.key(Level::Container))
        };
        // A gap may hide events of every kind and every owner.
        let selected =
            (self.kinds.is_empty() || self.kinds.iter().any(fits)) && party.is_none_or(of);
        (selected || name == "gap")
            && (!self.trouble || is_trouble(&event.what))
            && (self.filter.is_empty() || self.finds(event))
    }

    fn finds(&self, event: &Event) -> bool {
        let line = event_line(event, 0);
        let texts = [&line.who, &line.place, &line.what];
        texts
            .iter()
            .any(|text| text.to_lowercase().contains(&self.filter))
    }
}

/// Maximum number of hurt groups in a response.
const MOST_HURT: usize = 200;

/// Parses the selection of verdicts over time: start, end, and the maximum number of groups.
pub(super) fn episodes_query(query: &Query) -> Result<(u64, u64, usize), Refusal> {
    let (from_ns, to_ns) = (moment(query, "from", 0)?, moment(query, "to", u64::MAX)?);
    match from_ns < to_ns {
        true => Ok((from_ns, to_ns, number(query, "limit", 12, MOST_HURT)?)),
        false => Err(Refusal::Query("from: must be before `to`".into())),
    }
}

/// Parses the id of an owner, if one is given.
pub(super) fn owner_query(query: &Query, name: &str) -> Result<Option<OwnerId>, Refusal> {
    let id = || value(query, name, 0, "the id of an owner");
    query.get(name).map(|_| id()).transpose()
}

/// The requested part of the history.
pub(super) struct HistoryQuery {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) steps: usize,
    pub(super) waits_of: Option<OwnerId>,
    pub(super) pair: Option<(OwnerId, OwnerId)>,
    pub(super) strips: usize,
    pub(super) rows: HistoryRows,
}

impl HistoryQuery {
    /// Parses the parameters. `now_ns` is the time of the last batch, in nanoseconds since 1970.
    pub(super) fn parse(query: &Query, now_ns: u64) -> Result<Self, Refusal> {
        let seconds = number(query, "seconds", 300, 86_400)?;
        let to_ns = moment(query, "to", now_ns)?;
        let from_ns = moment(
            query,
            "from",
            to_ns.saturating_sub(seconds as u64 * 1_000_000_000),
        )?;
        if from_ns >= to_ns {
            return Err(Refusal::Query("from: must be before `to`".into()));
        }
        let pair = match query.get("pair") {
            None => None,
            Some(text) => Some(ids(text).ok_or_else(|| {
                Refusal::Query("pair: must be the ids of two owners, VICTIM-CULPRIT".into())
            })?),
        };
        Ok(Self {
            from_ns,
            to_ns,
            steps: number(query, "steps", 150, MOST_STEPS)?,
            waits_of: owner_query(query, "waits_of")?,
            pair,
            strips: match query.get("strips") {
                None => 0,
                Some(_) => number(query, "strips", 0, MOST_STRIPS)?,
            },
            rows: HistoryRows {
                sort: one_of(query, "sort", &HistorySort::ALL)?,
                owners: number(query, "owners", 50, MOST_OWNERS)?,
                pairs: number(query, "pairs", 100, MOST_OWNERS)?,
                filter: filter(query),
                // The end of a window can be rounded down to a moment before the window's real end.
                judged_unix_ns: Some(moment(query, "at", to_ns)?.saturating_add(ROUNDING_NS)),
            },
        })
    }
}

fn ids(text: &str) -> Option<(OwnerId, OwnerId)> {
    let (victim, culprit) = text.split_once('-')?;
    Some((victim.parse().ok()?, culprit.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noctule_model::{CgroupId, Comm, EventProcess, Origin, Owner, ProcessId};

    use super::*;

    #[test]
    fn owner_events_exclude_groups_with_a_longer_name() {
        let owner = |name: &str| {
            Arc::new(Owner {
                unit: Some(name.into()),
                ..Owner::unknown(CgroupId(1))
            })
        };
        let kill = |name: &str| Event {
            time_unix_ns: 1,
            process: Some(EventProcess {
                id: ProcessId::default(),
                start_unix_ns: 1,
                comm: Comm::default(),
                thread: None,
                cgroup: CgroupId(1),
                owner: Some(owner(name)),
            }),
            origin: Origin::Seen,
            what: What::OomKill {
                rss_bytes: None,
                limit_bytes: None,
            },
        };
        let mut query = EventsQuery {
            from_ns: 0,
            to_ns: 2,
            limit: 1,
            owner: None,
            kinds: vec!["oom".into()],
            trouble: true,
            filter: "a.service".into(),
        };
        let party = Party::Group(owner("a.service"));
        let found = |query: &EventsQuery, party| {
            ["a.service", "beta.service"].map(|name| query.fits(&kill(name), party))
        };
        assert_eq!(found(&query, None), [true, true], "of the filter");
        query.filter.clear();
        assert_eq!(found(&query, Some(&party)), [true, false]);
        assert_eq!(found(&query, Some(&Party::Kernel)), [false, false]);
        query.kinds = vec!["process".into()];
        assert_eq!(found(&query, Some(&party)), [false, false]);
        query.kinds.clear();
        let fork = Event {
            what: What::ProcessStart {
                parent_pid: 1,
                parent: None,
            },
            ..kill("a.service")
        };
        assert!(!query.fits(&fork, None));
        query.trouble = false;
        assert!(query.fits(&fork, None));
    }

    #[test]
    fn rounded_time_is_not_earlier_than_its_nanosecond() {
        // The page divides nanoseconds as a floating-point number.
        for end_ns in (0..10_000).map(|n| 1_795_971_743_224_350_739 + n * 997) {
            let asked = nanos(end_ns as f64 / SECOND) + ROUNDING_NS;
            assert!(
                (end_ns..end_ns + 2 * ROUNDING_NS).contains(&asked),
                "{end_ns}: {asked}"
            );
        }
    }
}
