//! Who waited for the CPU: figures of each window, and verdicts that take longer to make.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use noctule_analysis::{
    Judge, JudgeOptions, Party, ReportBuilder, Row, Selection, Thresholds, Verdict, WaitReport,
    WaitReportRow,
};
use noctule_model::{
    Batch, Cause, CgroupId, Counters, Histogram, Joules, Level, Owner, Preemptor, Reason, Subject,
};
use noctule_text::escape;

use crate::data::level::{self, Key};

/// Levels at which waits are known: they are kept by cgroup, not by process.
const LEVELS: [Level; 4] = [Level::Container, Level::Unit, Level::Pod, Level::Cgroup];

/// How many intervals a verdict takes, and how long it takes at least.
const INTERVALS: u32 = 5;
const LEAST: Duration = Duration::from_secs(2);

/// The level at which waits are shown when this one was asked for.
pub(crate) fn level(wished: Level) -> Level {
    match wished {
        Level::Process => Level::Container,
        other => other,
    }
}

/// How long the window of a verdict is.
pub(crate) fn verdict_window(interval: Duration) -> Duration {
    (interval * INTERVALS).max(LEAST)
}

/// The waits of every group, at every level.
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

/// The last verdicts at a level.
#[derive(Clone, Debug)]
struct Judged {
    report: Arc<WaitReport>,
    time_unix_ns: u64,
}

/// One group that waited.
#[derive(Clone, Debug)]
pub(crate) struct Waited {
    /// Which group.
    pub(crate) key: Key,
    /// Its waits in the window; those of a group that did not wait in it are empty.
    pub(crate) now: WaitReportRow,
    /// The last verdict; `None` until there is one.
    pub(crate) verdict: Option<LastVerdict>,
}

/// A verdict, and the window that it is about.
#[derive(Clone, Debug)]
pub(crate) struct LastVerdict {
    report: Arc<WaitReport>,
    at: usize,
    /// When the window ended, nanoseconds since 1970.
    pub(crate) time_unix_ns: u64,
}

impl LastVerdict {
    /// The row with the verdict: its figures are those of the verdict's own window.
    pub(crate) fn row(&self) -> &WaitReportRow {
        &self.report.rows[self.at]
    }

    /// Why the verdict is what it is.
    pub(crate) fn reason(&self, level: Level) -> Reason {
        self.report.reason(self.row(), level)
    }

    /// Length of the window that was judged, in nanoseconds.
    pub(crate) fn window_ns(&self) -> u64 {
        self.report.window_ns
    }
}

impl Waits {
    /// Nothing was seen yet.
    pub(crate) fn new(interval: Duration, thresholds: Thresholds, selection: Selection) -> Self {
        // A batch that comes a little early must not put the verdict off by a whole interval.
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

    /// Takes the next batch. Every one must be given, in order.
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

    /// Takes the window that ended with that batch.
    pub(crate) fn window(&mut self, window: &ReportBuilder) {
        for waiting in &mut self.levels {
            let report = window.waits(waiting.level, false, &self.thresholds);
            waiting.rows = rows(report, waiting.judged.as_ref(), waiting.level);
            // The verdicts are those of all groups.
            let selection = &self.selection;
            waiting.rows.retain(|row| match &row.now.party {
                _ if row.now.waited() || selection.is_empty() => true,
                Party::Group(owner) => selection.pids().is_empty() && selection.fits(owner),
                _ => false,
            });
        }
    }

    /// The groups that waited, in the window or in that of the last verdict.
    pub(crate) fn rows(&self, wished: Level) -> &[Arc<Waited>] {
        let level = level(wished);
        let found = self.levels.iter().find(|waiting| waiting.level == level);
        found.map_or(&[], |waiting| &waiting.rows)
    }
}

/// Rows stay until a verdict no longer names them, with zeros: a table whose rows come and go with
/// every breath of a group cannot be read.
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
                now: idle(&verdict.row().party),
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

fn idle(party: &Party) -> WaitReportRow {
    WaitReportRow {
        party: party.clone(),
        cpu_ns: 0,
        histogram: Histogram::default(),
        wait_ns: [0; Cause::ALL.len()],
        blocked_ns: Default::default(),
        waiting: noctule_model::Waiting::default(),
        culprits: Vec::new(),
        preemptions: [0; Preemptor::ALL.len()],
        throttles: 0,
        quota: None,
        settings: noctule_model::Settings::default(),
        hurts: noctule_analysis::Hurts::default(),
        around: noctule_analysis::Surroundings::default(),
        verdict: Verdict::default(),
    }
}

/// The identity of a party. Only groups, and those without room for a row of their own, are rows.
fn key(party: &Party, level: Level) -> Key {
    match party {
        Party::Group(owner) => level::owner_key(owner, level),
        Party::Kernel | Party::Command | Party::Below { .. } | Party::Unnamed => {
            Key::Subject(Subject::Overflow)
        }
    }
}

impl Waited {
    /// The name that the table shows, safe for a terminal.
    pub(crate) fn name(&self, level: Level) -> String {
        escape(&self.now.party.name(level))
    }

    /// The group as a row of the table, whose counters are not shown here.
    pub(crate) fn as_row(&self) -> Row {
        let owner = match &self.now.party {
            Party::Group(owner) => owner.clone(),
            other => Arc::new(Owner {
                path: other.name(Level::Cgroup),
                ..Owner::unknown(CgroupId::default())
            }),
        };
        Row {
            process: None,
            owner,
            counters: Counters::default(),
            joules: Joules::default(),
            packages: noctule_model::ByPackage::default(),
            events: None,
        }
    }
}
