//! The last minutes in memory: one point for each batch, for pictures over time.
//!
//! A point has the growth between two batches, so that any range of them adds up. Its size is bounded:
//! owners and pairs beyond the places of a point are in the sums of the node alone, and the point says so.

mod cpu;
mod events;
mod packed;
mod point;
mod range;
#[cfg(test)]
mod tests;
mod thin;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use noctule_model::{Batch, Blamed, Level, Reason, Subject, VerdictKind};

use crate::{Party, WaitReport, WaitReportRow};
pub use cpu::{CpuPoint, CpuStep, CpuStrip};
pub use events::{EventLog, EventLogLimits, at_most};
pub use packed::{OwnerLengths, OwnerPoint, PackedRows, PairPoint, PointRows};
use point::Numbers;
pub use point::{NodePoint, TimePoint};
pub use range::{OwnerSum, PairSum, SpanStep, TimeSpan, TimeSpanQuery, ZoneSum};
pub use thin::Thinned;

/// Number of an owner in the points of a history; it stays the same for as long as any point has it.
pub type OwnerId = u32;

/// How much a history holds.
#[derive(Clone, Copy, Debug)]
pub struct TimelineLimits {
    /// Points; the oldest is forgotten for a new one.
    pub points: usize,
    /// Owners of each point: those with the most CPU time, waits and waits behind them.
    pub owners: usize,
    /// Pairs of a victim and a culprit of each point.
    pub pairs: usize,
    /// Buckets of the distributions of the owners' waits, over all owners of a point.
    pub lengths: usize,
    /// Judged windows.
    pub windows: usize,
    /// Findings of each judged window.
    pub findings: usize,
}

impl TimelineLimits {
    /// 15 minutes of seconds: some 3 MB, where 128 owners use the CPU in each of them.
    pub const RECENT: Self = Self {
        points: 900,
        owners: 128,
        pairs: 64,
        lengths: 512,
        windows: 180,
        findings: 50,
    };
}

impl Default for TimelineLimits {
    fn default() -> Self {
        Self::RECENT
    }
}

/// What was found of one group in a judged window.
#[derive(Clone, Debug)]
pub struct Hurt {
    /// Who was hurt.
    pub party: Party,
    /// Its number in the points, where one has it.
    pub id: Option<OwnerId>,
    /// That of the culprit.
    pub culprit_id: Option<OwnerId>,
    /// The kind of the verdict.
    pub kind: VerdictKind,
    /// Who is to blame, where somebody is.
    pub culprit: Option<Party>,
    /// The numbers of its sentence.
    pub reason: Reason,
    /// What it waited in the window, nanoseconds.
    pub wait_ns: u64,
    /// Begin of the first window without a break in which it had this verdict with this culprit, nanoseconds since
    /// 1970.
    pub since_unix_ns: u64,
}

/// A verdict that a group has had for some windows.
#[derive(Clone, Debug)]
struct Episode {
    kind: VerdictKind,
    culprit: Option<crate::report::Key>,
    since_unix_ns: u64,
}

/// The findings of one window, the longest waits first.
#[derive(Clone, Debug)]
pub struct JudgedWindow {
    /// When the window ended, nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// Its length, nanoseconds.
    pub window_ns: u64,
    /// Groups that were hurt; quiet ones are left out.
    pub findings: Vec<Hurt>,
    /// Groups that were hurt and found no place among the findings.
    pub more: usize,
    /// The verdicts of those of them that have a number.
    pub unlisted: Box<[(OwnerId, VerdictKind)]>,
}

/// Gathers points. Every batch must be given, in order.
#[derive(Debug)]
pub struct Timeline {
    limits: TimelineLimits,
    last: Option<Arc<Batch>>,
    points: VecDeque<Arc<TimePoint>>,
    judged: VecDeque<Arc<JudgedWindow>>,
    episodes: HashMap<crate::report::Key, Episode>,
    numbers: Numbers,
}

/// What a history holds at one moment: cheap to take, and made ready without holding up the history.
#[derive(Clone, Debug, Default)]
pub struct TimelineView {
    /// The points, the oldest first.
    pub points: Vec<Arc<TimePoint>>,
    /// The judged windows, the oldest first.
    pub judged: Vec<Arc<JudgedWindow>>,
    /// Who the numbers of the points are.
    pub parties: Arc<HashMap<OwnerId, Party>>,
}

impl Timeline {
    /// A history without points.
    pub fn new(limits: TimelineLimits) -> Self {
        Self {
            limits,
            last: None,
            points: VecDeque::new(),
            judged: VecDeque::new(),
            episodes: HashMap::new(),
            numbers: Numbers::default(),
        }
    }

    /// Takes the next batch; its point, from the second batch on.
    pub fn observe(&mut self, batch: &Arc<Batch>) -> Option<Arc<TimePoint>> {
        let last = self.last.replace(batch.clone())?;
        let point = Arc::new(TimePoint::between(
            &last,
            batch,
            &self.limits,
            &mut self.numbers,
        ));
        self.points.push_back(point.clone());
        while self.points.len() > self.limits.points {
            self.points.pop_front();
        }
        if let Some(oldest) = self.points.front() {
            self.numbers.forget(oldest.sequence);
        }
        Some(point)
    }

    /// Takes the report of a window that ended at a moment, nanoseconds since 1970. One in which no waits were
    /// measured says nothing, and is left out: it would call everybody quiet.
    pub fn judge(&mut self, report: &WaitReport, level: Level, time_unix_ns: u64) {
        if !report.measured.has_waits() {
            self.episodes.clear();
            return;
        }
        let hurt = report
            .rows
            .iter()
            .filter(|row| row.verdict.kind != VerdictKind::Quiet);
        let began = time_unix_ns.saturating_sub(report.window_ns);
        let episode = |row: &WaitReportRow| {
            let key = row.party.key(level);
            let (kind, culprit) = (row.verdict.kind, row.verdict.culprit.as_ref());
            let culprit = culprit.map(|culprit| culprit.key(level));
            let before = self.episodes.get(&key);
            let before = before
                .cloned()
                .filter(|it| it.kind == kind && it.culprit == culprit);
            let began = Episode {
                kind,
                culprit,
                since_unix_ns: began,
            };
            (key, before.unwrap_or(began))
        };
        let episodes: HashMap<_, _> = hurt.clone().map(episode).collect();
        let findings = hurt.clone().take(self.limits.findings);
        let findings: Vec<Hurt> = findings
            .map(|row| Hurt {
                party: row.party.clone(),
                id: self.numbers.of(&row.party),
                culprit_id: (row.verdict.culprit.as_ref()).and_then(|who| self.numbers.of(who)),
                kind: row.verdict.kind,
                culprit: row.verdict.culprit.clone(),
                reason: report.reason(row, level),
                wait_ns: row.total_ns(),
                since_unix_ns: (episodes.get(&row.party.key(level)))
                    .map_or(began, |episode| episode.since_unix_ns),
            })
            .collect();
        let unlisted = hurt.clone().skip(findings.len());
        let unlisted = unlisted
            .filter_map(|row| Some((self.numbers.of(&row.party)?, row.verdict.kind)))
            .collect();
        self.judged.push_back(Arc::new(JudgedWindow {
            time_unix_ns,
            window_ns: report.window_ns,
            more: hurt.count() - findings.len(),
            findings,
            unlisted,
        }));
        while self.judged.len() > self.limits.windows {
            self.judged.pop_front();
        }
        self.episodes = episodes;
    }

    /// What there is now.
    pub fn view(&self) -> TimelineView {
        TimelineView {
            points: self.points.iter().cloned().collect(),
            judged: self.judged.iter().cloned().collect(),
            parties: self.numbers.parties(),
        }
    }
}

impl JudgedWindow {
    /// The verdict of each owner that was hurt, whether its finding is listed or not. Others were quiet.
    pub fn verdicts(&self) -> HashMap<OwnerId, VerdictKind> {
        let listed = self.findings.iter();
        let listed = listed.filter_map(|hurt| Some((hurt.id?, hurt.kind)));
        listed.chain(self.unlisted.iter().copied()).collect()
    }
}

impl TimelineView {
    /// The window that was judged last at a moment, nanoseconds since 1970. One that ended longer ago than two of its
    /// lengths says nothing of then: the next was not recorded, or had no waits that were measured.
    pub fn judged_at(&self, unix_ns: u64) -> Option<&Arc<JudgedWindow>> {
        let mut before = self.judged.iter().rev();
        let last = before.find(|judged| judged.time_unix_ns <= unix_ns);
        last.filter(|last| unix_ns - last.time_unix_ns <= last.window_ns.saturating_mul(2))
    }
}

/// Somebody who has a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Somebody<'a> {
    Kernel,
    Unnamed,
    Subject(&'a Subject),
}

impl<'a> From<&'a Blamed> for Somebody<'a> {
    fn from(blamed: &'a Blamed) -> Self {
        match blamed {
            Blamed::Kernel => Self::Kernel,
            Blamed::Unnamed => Self::Unnamed,
            Blamed::Subject(subject) => Self::from(&**subject),
        }
    }
}

impl<'a> From<&'a Subject> for Somebody<'a> {
    fn from(subject: &'a Subject) -> Self {
        match subject {
            Subject::Overflow => Self::Unnamed,
            subject => Self::Subject(subject),
        }
    }
}
