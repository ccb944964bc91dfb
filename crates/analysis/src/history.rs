//! The last minutes in memory, with one point for each batch. The history feeds the charts.
//!
//! A point contains the growth between two batches, so the points of any range add up. The number
//! of owners and pairs in a point is limited. Further owners and pairs are included only in the
//! sums of the node, and the point contains their number.

mod cpu;
mod episodes;
mod events;
mod packed;
mod point;
mod range;
#[cfg(test)]
mod tests;
mod thin;

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use noctule_model::{Batch, Blamed, Level, Reason, Subject, VerdictKind};

use crate::{Party, WaitReport, WaitReportRow};
pub use cpu::{CpuPoint, CpuStep, CpuStrip};
pub use episodes::{Account, Accounts, Episode, HurtGroup};
pub use events::{EventLog, EventLogLimits, at_most, is_trouble};
pub use packed::{OwnerLengths, OwnerPoint, PackedRows, PairPoint, PointRows};
use point::Numbers;
pub use point::{NodePoint, Power, Restart, TimePoint};
pub use range::{OwnerSum, PairSum, SpanStep, TimeSpan, TimeSpanQuery, ZoneSum};
pub use thin::Thinned;

/// Number of an owner in the points of a history. The number does not change while any point refers
/// to it.
pub type OwnerId = u32;

/// Limits of a history.
#[derive(Clone, Copy, Debug)]
pub struct TimelineLimits {
    /// Maximum number of points. A new point replaces the oldest.
    pub points: usize,
    /// Maximum number of owners in a point. A point keeps the owners with the most CPU time, the
    /// longest waits, and the longest waits of other owners behind them.
    pub owners: usize,
    /// Maximum number of victim-culprit pairs in a point.
    pub pairs: usize,
    /// Maximum number of histogram buckets in a point, over all owners.
    pub lengths: usize,
    /// Maximum number of judged windows.
    pub windows: usize,
    /// Maximum number of findings in a judged window.
    pub findings: usize,
}

impl TimelineLimits {
    /// 15 minutes at one batch per second: about 3 MB if 128 owners use the CPU in each second.
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

/// The finding about one group in a judged window.
#[derive(Clone, Debug)]
pub struct Hurt {
    /// The group that was hurt.
    pub party: Party,
    /// The number of the group in the points, if it has one.
    pub id: Option<OwnerId>,
    /// The number of the culprit in the points, if it has one.
    pub culprit_id: Option<OwnerId>,
    pub kind: VerdictKind,
    /// The party to blame, if there is one.
    pub culprit: Option<Party>,
    /// The figures behind the verdict.
    pub reason: Reason,
    /// The group's wait for a CPU in the window, in nanoseconds.
    pub wait_ns: u64,
    /// The lost time that led to the verdict, in nanoseconds: `wait_ns`, or the time of a stall.
    pub hurt_ns: u64,
    /// The parties that the group waited for, the longest wait first; at most [`Self::BEHIND`].
    pub behind: Vec<WaitedFor>,
    /// Start of the first of the consecutive windows in which the group had this verdict and
    /// culprit, in nanoseconds since 1970.
    pub since_unix_ns: u64,
}

impl Hurt {
    /// Maximum number of parties in [`Self::behind`].
    pub const BEHIND: usize = 4;
}

/// A party that had a CPU while a group waited for it.
#[derive(Clone, Debug)]
pub struct WaitedFor {
    pub party: Party,
    /// The number of the party in the points, if it has one.
    pub id: Option<OwnerId>,
    /// How long the group waited for the party in the window, in nanoseconds.
    pub wait_ns: u64,
}

/// A verdict that a group has had for one or more windows without interruption.
#[derive(Clone, Debug)]
struct Ongoing {
    kind: VerdictKind,
    culprit: Option<crate::report::Key>,
    since_unix_ns: u64,
}

/// The findings of one window, in descending order of wait.
#[derive(Clone, Debug)]
pub struct JudgedWindow {
    /// End of the window, in nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// Length of the window, in nanoseconds.
    pub window_ns: u64,
    /// Groups that were hurt. Quiet groups are left out.
    pub findings: Vec<Hurt>,
    /// Number of hurt groups beyond the limit of findings.
    pub more: usize,
    /// The verdicts of the groups in `more` that have a number.
    pub unlisted: Box<[(OwnerId, VerdictKind)]>,
    /// The time of the groups' threads.
    pub accounts: Accounts,
}

/// Collects points. It must observe every batch, in order.
#[derive(Debug)]
pub struct Timeline {
    limits: TimelineLimits,
    last: Option<Arc<Batch>>,
    points: VecDeque<Arc<TimePoint>>,
    judged: VecDeque<Arc<JudgedWindow>>,
    episodes: HashMap<crate::report::Key, Ongoing>,
    numbers: Numbers,
}

/// A snapshot of a history. Taking a snapshot is cheap, and reading one does not block the history.
#[derive(Clone, Debug, Default)]
pub struct TimelineView {
    /// The points, oldest first.
    pub points: Vec<Arc<TimePoint>>,
    /// The judged windows, oldest first.
    pub judged: Vec<Arc<JudgedWindow>>,
    /// The parties by number.
    pub parties: Arc<HashMap<OwnerId, Party>>,
    /// The latest restarts, oldest first.
    pub restarts: Vec<Restart>,
}

impl Timeline {
    /// Creates an empty history.
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

    /// Adds the next batch. Returns its point, from the second batch onwards.
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
            self.numbers.forget(oldest);
        }
        Some(point)
    }

    /// Adds the report of a window that ended at `time_unix_ns`. Ignores a report without measured
    /// waits, because the verdict of every group would be `Quiet`.
    pub fn judge(&mut self, report: &WaitReport, level: Level, time_unix_ns: u64) {
        if !report.measured.has_waits() {
            self.episodes.clear();
            return;
        }
        let hurt = report.rows.iter();
        let mut hurt: Vec<_> = hurt
            .filter(|row| row.verdict.kind != VerdictKind::Quiet)
            .collect();
        hurt.sort_by_key(|row| Reverse(row.verdict.hurt_ns()));
        let began = time_unix_ns.saturating_sub(report.window_ns);
        // A gap ends every ongoing verdict.
        if let Some(last) = self.judged.back()
            && began > last.time_unix_ns + report.window_ns / 2
        {
            self.episodes.clear();
        }
        let episode = |row: &WaitReportRow| {
            let key = row.party.key(level);
            let (kind, culprit) = (row.verdict.kind, row.verdict.culprit.as_ref());
            let culprit = culprit.map(|culprit| culprit.key(level));
            let before = self.episodes.get(&key);
            let before = before
                .cloned()
                .filter(|it| it.kind == kind && it.culprit == culprit);
            let began = Ongoing {
                kind,
                culprit,
                since_unix_ns: began,
            };
            (key, before.unwrap_or(began))
        };
        let episodes: HashMap<_, _> = hurt.iter().copied().map(episode).collect();
        let findings = hurt.iter().take(self.limits.findings);
        let findings: Vec<Hurt> = findings
            .map(|row| Hurt {
                party: row.party.clone(),
                id: self.numbers.of(&row.party),
                culprit_id: (row.verdict.culprit.as_ref()).and_then(|who| self.numbers.of(who)),
                kind: row.verdict.kind,
                culprit: row.verdict.culprit.clone(),
                reason: report.reason(row, level),
                wait_ns: row.total_ns(),
                hurt_ns: row.verdict.hurt_ns(),
                behind: self.behind(row),
                since_unix_ns: (episodes.get(&row.party.key(level)))
                    .map_or(began, |episode| episode.since_unix_ns),
            })
            .collect();
        let unlisted = hurt.iter().skip(findings.len());
        let unlisted = unlisted
            .filter_map(|row| Some((self.numbers.of(&row.party)?, row.verdict.kind)))
            .collect();
        self.judged.push_back(Arc::new(JudgedWindow {
            time_unix_ns,
            window_ns: report.window_ns,
            more: hurt.len() - findings.len(),
            findings,
            unlisted,
            accounts: Accounts::of(report, &self.numbers, self.limits.owners),
        }));
        while self.judged.len() > self.limits.windows {
            self.judged.pop_front();
        }
        self.episodes = episodes;
    }

    fn behind(&self, row: &WaitReportRow) -> Vec<WaitedFor> {
        let worth = row.culprits.iter();
        let worth = worth.filter(|it| row.is_worth_naming(it.blame.wait_ns));
        let waited = worth.take(Hurt::BEHIND).map(|it| WaitedFor {
            party: it.party.clone(),
            id: self.numbers.of(&it.party),
            wait_ns: it.blame.wait_ns,
        });
        waited.collect()
    }

    /// Returns a snapshot.
    pub fn view(&self) -> TimelineView {
        TimelineView {
            points: self.points.iter().cloned().collect(),
            judged: self.judged.iter().cloned().collect(),
            parties: self.numbers.parties(),
            restarts: self.numbers.restarts(),
        }
    }
}

impl JudgedWindow {
    /// Returns the verdict of each hurt owner, including owners beyond the limit of findings. All
    /// other owners were quiet.
    pub fn verdicts(&self) -> HashMap<OwnerId, VerdictKind> {
        let listed = self.findings.iter();
        let listed = listed.filter_map(|hurt| Some((hurt.id?, hurt.kind)));
        listed.chain(self.unlisted.iter().copied()).collect()
    }
}

impl TimelineView {
    /// Returns the last window that ended by this time (nanoseconds since 1970). Returns `None` if
    /// that window ended more than twice its length before: the next window was then not recorded,
    /// or its waits were not measured.
    pub fn judged_at(&self, unix_ns: u64) -> Option<&Arc<JudgedWindow>> {
        let mut before = self.judged.iter().rev();
        let last = before.find(|judged| judged.time_unix_ns <= unix_ns);
        last.filter(|last| unix_ns - last.time_unix_ns <= last.window_ns.saturating_mul(2))
    }
}

/// A party that has a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum PartyRef<'a> {
    Kernel,
    Unnamed,
    Subject(&'a Subject),
}

impl<'a> From<&'a Blamed> for PartyRef<'a> {
    fn from(blamed: &'a Blamed) -> Self {
        match blamed {
            Blamed::Kernel => Self::Kernel,
            Blamed::Unnamed => Self::Unnamed,
            Blamed::Subject(subject) => Self::from(&**subject),
        }
    }
}

impl<'a> From<&'a Subject> for PartyRef<'a> {
    fn from(subject: &'a Subject) -> Self {
        match subject {
            Subject::Overflow => Self::Unnamed,
            subject => Self::Subject(subject),
        }
    }
}
