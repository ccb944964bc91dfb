//! Waits for the CPU: the figures of each window, and verdicts, whose windows are longer.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use noctule_analysis::{
    Judge, JudgeOptions, Party, ReportBuilder, Row, Selection, Thresholds, WaitReport,
    WaitReportRow,
};
use noctule_model::{
    Batch, BlockClass, Cause, CgroupId, Counter, Counters, Joules, Level, Owner, Reason, Subject,
    VerdictKind,
};
use noctule_text::escape;

use crate::data::level::{self, Key};

/// Levels with waits. Waits are recorded per cgroup, not per process.
const LEVELS: [Level; 4] = [Level::Container, Level::Unit, Level::Pod, Level::Cgroup];

/// Number of intervals in the window of a verdict, and the minimum length of that window.
const INTERVALS: u32 = 5;
const LEAST: Duration = Duration::from_secs(2);

/// Added to the severity of time that a group lost to other groups. Even a group of a million
/// threads loses less than this.
const OTHERS_FIRST: f64 = 1e15;

/// Returns the level at which waits are shown if the user requested `wished`.
pub(crate) fn level(wished: Level) -> Level {
    match wished {
        Level::Process => Level::Container,
        other => other,
    }
}

/// Returns the length of a verdict's window.
pub(crate) fn verdict_window(interval: Duration) -> Duration {
    (interval * INTERVALS).max(LEAST)
}

/// Waits of every group at every level.
#[derive(Clone, Debug)]
pub(crate) struct Waits {
    levels: [Waiting; LEVELS.len()],
    thresholds: Thresholds,
    selection: Selection,
}

#[derive(Clone, Debug)]
struct Waiting {
    level: Level,
    judge: Judge,
    judged: Option<Judged>,
    rows: Vec<Arc<Waited>>,
}

/// The latest verdicts at a level.
#[derive(Clone, Debug)]
struct Judged {
    report: Arc<WaitReport>,
    time_unix_ns: u64,
}

/// A group with waits.
#[derive(Clone, Debug)]
pub(crate) struct Waited {
    /// The group.
    pub(crate) key: Key,
    /// Waits in the window; zero if the group did not wait.
    pub(crate) now: WaitReportRow,
    /// The latest verdict; `None` before the first verdict.
    pub(crate) verdict: Option<LastVerdict>,
}

/// A verdict and its window.
#[derive(Clone, Debug)]
pub(crate) struct LastVerdict {
    report: Arc<WaitReport>,
    at: usize,
    /// End of the window, in nanoseconds since 1970.
    pub(crate) time_unix_ns: u64,
}

impl LastVerdict {
    /// Returns the row with the verdict. The figures of the row are from the verdict's own window.
    pub(crate) fn row(&self) -> &WaitReportRow {
        &self.report.rows[self.at]
    }

    /// Explains the verdict.
    pub(crate) fn reason(&self, level: Level) -> Reason {
        self.report.reason(self.row(), level)
    }

    /// Returns the time lost per second, in nanoseconds. Time lost to others ranks before time that
    /// the group cost itself.
    pub(crate) fn severity(&self) -> f64 {
        let verdict = &self.row().verdict;
        let lost = verdict.hurt_ns() as f64 * 1e9 / self.window_ns().max(1) as f64;
        match verdict.kind.is_own() {
            true => lost,
            false => lost + OTHERS_FIRST,
        }
    }

    /// Returns the length of the verdict's window, in nanoseconds.
    pub(crate) fn window_ns(&self) -> u64 {
        self.report.window_ns
    }
}

impl Waits {
    /// Creates an empty `Waits`.
    pub(crate) fn new(interval: Duration, thresholds: Thresholds, selection: Selection) -> Self {
        // The window is half an interval shorter, so that a batch that arrives early does not delay
        // the verdict by a whole interval.
        let window = verdict_window(interval).saturating_sub(interval / 2);
        let levels = LEVELS.map(|level| Waiting {
            level,
            judge: Judge::new(JudgeOptions {
                level,
                window_ns: window.as_nanos() as u64,
                thresholds,
                ..JudgeOptions::default()
            }),
            judged: None,
            rows: Vec::new(),
        });
        Self {
            levels,
            thresholds,
            selection,
        }
    }

    /// Adds the next batch. Every batch must be passed, in order.
    pub(crate) fn observe(&mut self, batch: &Batch) {
        for waiting in &mut self.levels {
            if let Some(report) = waiting.judge.observe(batch) {
                waiting.judged = Some(Judged {
                    report,
                    time_unix_ns: batch.time_unix_ns,
                });
            }
        }
    }

    /// Adds the figures of the window that ended with the last batch.
    pub(crate) fn window(&mut self, window: &ReportBuilder) {
        for waiting in &mut self.levels {
            let report = window.waits(waiting.level, false, &self.thresholds);
            waiting.rows = rows(report, waiting.judged.as_ref(), waiting.level);
            // Verdicts are computed for all groups, so the selection is applied here.
            let selection = &self.selection;
            waiting.rows.retain(|row| match &row.now.party {
                _ if row.now.waited() || selection.is_empty() => true,
                Party::Group(owner) => selection.pids().is_empty() && selection.fits(owner),
                _ => false,
            });
        }
    }

    /// Returns the verdicts of the groups of a level that are hurt now, worst first.
    pub(crate) fn hurt(&self, level: Level) -> Vec<&LastVerdict> {
        let held = self.rows(level).iter().filter(|row| row.is_held());
        let verdicts = held.filter_map(|row| row.verdict.as_ref());
        let mut hurt: Vec<&LastVerdict> = verdicts
            .filter(|last| last.row().verdict.kind != VerdictKind::Quiet)
            .collect();
        hurt.sort_by(|a, b| b.severity().total_cmp(&a.severity()));
        hurt
    }

    /// Returns whether there is a verdict yet.
    pub(crate) fn is_judged(&self) -> bool {
        self.levels.iter().any(|waiting| waiting.judged.is_some())
    }

    /// Returns the groups that waited in this window or in the window of the latest verdict.
    pub(crate) fn rows(&self, wished: Level) -> &[Arc<Waited>] {
        let level = level(wished);
        let found = self.levels.iter().find(|waiting| waiting.level == level);
        found.map_or(&[], |waiting| &waiting.rows)
    }
}

/// Returns the groups that waited in this window. Groups that waited only in the window of the
/// latest verdict are added with zeros, because a table whose rows come and go with each pause is
/// unreadable.
fn rows(report: WaitReport, judged: Option<&Judged>, level: Level) -> Vec<Arc<Waited>> {
    let verdicts: Vec<(Key, LastVerdict)> = judged
        .iter()
        .flat_map(|judged| {
            let rows = judged.report.rows.iter().enumerate();
            let waited = rows.filter(|(_, row)| row.waited());
            waited.map(|(at, _)| judged.verdict_at(at, level))
        })
        .collect();
    let known: HashMap<&Key, &LastVerdict> = verdicts
        .iter()
        .map(|(key, verdict)| (key, verdict))
        .collect();
    let mut rows: Vec<Arc<Waited>> = report
        .rows
        .into_iter()
        .filter(WaitReportRow::waited)
        .map(|now| {
            let key = key(&now.party, level);
            let verdict = known.get(&key).map(|verdict| LastVerdict::clone(verdict));
            Arc::new(Waited { key, now, verdict })
        })
        .collect();
    let waited: HashSet<Key> = rows.iter().map(|row| row.key.clone()).collect();
    let quiet = verdicts
        .iter()
        .filter(|(key, _)| !waited.contains(key))
        .map(|(key, verdict)| {
            Arc::new(Waited {
                key: key.clone(),
                now: WaitReportRow::quiet(verdict.row().party.clone()),
                verdict: Some(verdict.clone()),
            })
        });
    rows.extend(quiet.collect::<Vec<_>>());
    rows
}

impl Judged {
    fn verdict_at(&self, at: usize, level: Level) -> (Key, LastVerdict) {
        let verdict = LastVerdict {
            report: self.report.clone(),
            at,
            time_unix_ns: self.time_unix_ns,
        };
        (key(&verdict.row().party, level), verdict)
    }
}

/// Returns the identity of a party. Only groups and the overflow row have rows.
fn key(party: &Party, level: Level) -> Key {
    match party {
        Party::Group(owner) => level::owner_key(owner, level),
        Party::Kernel | Party::Command | Party::Below { .. } | Party::Unnamed => {
            Key::Subject(Subject::Overflow)
        }
    }
}

impl Waited {
    /// Returns the name to show, escaped for a terminal.
    pub(crate) fn name(&self, level: Level) -> String {
        escape(&self.now.party.name(level))
    }

    /// Returns whether the group's threads were held up in this window.
    pub(crate) fn is_held(&self) -> bool {
        let now = &self.now;
        let lock_ns = now.blocked_ns[BlockClass::Lock as usize];
        now.total_ns() > 0 || now.waiting.threads > 0 || now.stalled_ns() > 0 || lock_ns > 0
    }

    /// Returns the group as a row of the table, with its time on a CPU, its waits and its blocked
    /// time.
    pub(crate) fn as_row(&self) -> Row {
        let owner = match &self.now.party {
            Party::Group(owner) => owner.clone(),
            other => Arc::new(Owner {
                path: other.name(Level::Cgroup),
                ..Owner::unknown(CgroupId::default())
            }),
        };
        let mut counters = Counters::default();
        counters[Counter::CpuTime] = self.now.cpu_ns;
        for cause in Cause::ALL {
            counters[Counter::Wait(cause)] = self.now.wait_ns[cause as usize];
        }
        for class in BlockClass::ALL {
            counters[Counter::Blocked(class)] = self.now.blocked_ns[class as usize];
        }
        Row {
            process: None,
            command: None,
            owner,
            counters,
            joules: Joules::default(),
            packages: noctule_model::ByPackage::default(),
            events: None,
        }
    }
}
