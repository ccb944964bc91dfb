//! Episodes: the verdicts of the judged windows over time, and the account of a group in them.

use std::cmp::Reverse;
use std::collections::HashMap;

use noctule_model::{BlockClass, Level, Reason, VerdictKind};
use serde::{Deserialize, Serialize};

use super::packed::{pack, unpack};
use super::point::{Micros, Numbers, micros, nanos};
use super::{Hurt, JudgedWindow, OwnerId, TimelineView};
use crate::report::Key;
use crate::{Party, WaitReport, WaitReportRow};

/// Maximum number of episodes of one group. The episodes with the least lost time are left out.
const EPISODES: usize = 200;

/// Windows in which a group had the same verdict because of the same culprit, without interruption.
#[derive(Clone, Debug)]
pub struct Episode {
    /// Start of the first window, in nanoseconds since 1970.
    pub from_unix_ns: u64,
    /// End of the last window.
    pub to_unix_ns: u64,
    pub kind: VerdictKind,
    pub culprit: Option<Party>,
    pub culprit_id: Option<OwnerId>,
    /// Wait of the group for a CPU in these windows, in nanoseconds.
    pub wait_ns: u64,
    /// The lost time that led to the verdicts, in nanoseconds.
    pub hurt_ns: u64,
    /// Length of these windows, in nanoseconds.
    pub judged_ns: u64,
    /// End of the worst window, in which the group lost the most time, in nanoseconds since 1970.
    pub worst_unix_ns: u64,
    /// The reason in the worst window.
    pub reason: Reason,
    /// The time that the group lost in the worst window, in nanoseconds.
    worst_ns: u64,
    /// [`Hurt::since_unix_ns`], which is equal in all windows of the episode.
    since_unix_ns: u64,
}

/// The episodes of one group, in order of time.
#[derive(Clone, Debug)]
pub struct HurtGroup {
    pub party: Party,
    /// The number of the group in the points, if it has one.
    pub id: Option<OwnerId>,
    /// The group's wait for a CPU in all its episodes, in nanoseconds.
    pub wait_ns: u64,
    /// The lost time that led to all its verdicts, in nanoseconds.
    pub hurt_ns: u64,
    pub episodes: Vec<Episode>,
}

impl Episode {
    fn of(hurt: &Hurt, window: &JudgedWindow) -> Self {
        Self {
            from_unix_ns: window.began_unix_ns(),
            to_unix_ns: window.time_unix_ns,
            kind: hurt.kind,
            culprit: hurt.culprit.clone(),
            culprit_id: hurt.culprit_id,
            wait_ns: hurt.wait_ns,
            hurt_ns: hurt.hurt_ns,
            judged_ns: window.window_ns,
            worst_unix_ns: window.time_unix_ns,
            reason: hurt.reason.clone(),
            worst_ns: hurt.hurt_ns,
            since_unix_ns: hurt.since_unix_ns,
        }
    }

    /// Extends the episode by a window. Returns `false` if the window does not continue the
    /// episode.
    fn try_extend(&mut self, hurt: &Hurt, window: &JudgedWindow) -> bool {
        if self.since_unix_ns != hurt.since_unix_ns {
            return false;
        }
        self.to_unix_ns = window.time_unix_ns;
        self.wait_ns += hurt.wait_ns;
        self.hurt_ns += hurt.hurt_ns;
        self.judged_ns += window.window_ns;
        if hurt.hurt_ns > self.worst_ns {
            self.worst_ns = hurt.hurt_ns;
            self.worst_unix_ns = window.time_unix_ns;
            self.reason = hurt.reason.clone();
            self.culprit_id = hurt.culprit_id;
        }
        true
    }
}

impl JudgedWindow {
    /// Returns the start of the window, in nanoseconds since 1970.
    pub fn began_unix_ns(&self) -> u64 {
        self.time_unix_ns.saturating_sub(self.window_ns)
    }
}

impl TimelineView {
    /// Returns the groups that were hurt in windows that overlap a range, in descending order of
    /// lost time.
    pub fn episodes(&self, from_unix_ns: u64, to_unix_ns: u64) -> Vec<HurtGroup> {
        let mut groups: HashMap<Key, HurtGroup> = HashMap::new();
        for window in self.judged_within(from_unix_ns, to_unix_ns) {
            for hurt in &window.findings {
                let key = hurt.party.key(Level::Container);
                let group = groups.entry(key).or_insert_with(|| HurtGroup {
                    party: hurt.party.clone(),
                    id: hurt.id,
                    wait_ns: 0,
                    hurt_ns: 0,
                    episodes: Vec::new(),
                });
                // The group may have got its name or its number only in this window.
                group.party = hurt.party.clone();
                group.id = hurt.id.or(group.id);
                group.wait_ns += hurt.wait_ns;
                group.hurt_ns += hurt.hurt_ns;
                let last = group.episodes.last_mut();
                if !last.is_some_and(|last| last.try_extend(hurt, window)) {
                    group.episodes.push(Episode::of(hurt, window));
                }
            }
        }
        let mut groups: Vec<HurtGroup> = groups.into_values().collect();
        groups.sort_by_cached_key(|it| (Reverse(it.hurt_ns), it.party.name(Level::Container)));
        for group in &mut groups {
            // The group may no longer be in any point.
            group.id = group.id.filter(|id| self.parties.contains_key(id));
            group.episodes.sort_by_key(|it| Reverse(it.hurt_ns));
            group.episodes.truncate(EPISODES);
            group.episodes.sort_by_key(|it| it.from_unix_ns);
        }
        groups
    }

    /// Returns the sum of a group's accounts over the windows that are mostly within a range. If
    /// these windows have no account of the group, returns the account of the last window before
    /// the end of the range, or `None` if that window has none either.
    pub fn account(&self, id: OwnerId, from_unix_ns: u64, to_unix_ns: u64) -> Option<Account> {
        let mut sum: Option<Account> = None;
        let within = self.judged_within(from_unix_ns, to_unix_ns);
        let mostly = within.filter(|window| {
            let middle = window.time_unix_ns - window.window_ns / 2;
            (from_unix_ns..=to_unix_ns).contains(&middle)
        });
        for window in mostly {
            add(&mut sum, window, id);
        }
        if sum.is_none()
            && let Some(last) = self.judged_at(to_unix_ns)
        {
            add(&mut sum, last, id);
        }
        sum
    }

    /// Returns the start and end of the part of a range that the judged windows cover. Without
    /// judged windows, uses the part that the points cover.
    pub fn judged_part(&self, from_unix_ns: u64, to_unix_ns: u64) -> (u64, u64) {
        let (windows, points) = (&self.judged, &self.points);
        let first_point = points.first().map(|it| it.time_unix_ns - it.length_ns);
        let last_point = points.last().map(|it| it.time_unix_ns);
        let first = windows.first().map(|it| it.began_unix_ns());
        let last = windows.last().map(|it| it.time_unix_ns);
        (
            from_unix_ns.max(first.or(first_point).unwrap_or(0)),
            to_unix_ns.min(last.or(last_point).unwrap_or(0)),
        )
    }

    fn judged_within(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = &JudgedWindow> {
        let windows = self.judged.iter().map(|window| &**window);
        windows.filter(move |it| it.time_unix_ns > from_ns && it.began_unix_ns() < to_ns)
    }
}

fn add(sum: &mut Option<Account>, window: &JudgedWindow, id: OwnerId) {
    let rows: Vec<AccountRow> = unpack(&window.accounts.0);
    if let Some(row) = rows.iter().find(|row| row.id == id) {
        let sum = sum.get_or_insert_with(|| Account {
            from_unix_ns: window.began_unix_ns(),
            has_blocked: true,
            ..Account::default()
        });
        sum.to_unix_ns = window.time_unix_ns;
        sum.judged_ns += window.window_ns;
        sum.cpu_ns += nanos(row.cpu_us);
        sum.wait_ns += nanos(row.wait_us);
        sum.has_blocked &= window.accounts.1;
        for &(class, us) in &row.blocked_us {
            sum.blocked_ns[usize::from(class)] += nanos(us);
        }
    }
}

/// The time of a group's threads in judged windows, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// Start of the first window, in nanoseconds since 1970.
    pub from_unix_ns: u64,
    /// End of the last window.
    pub to_unix_ns: u64,
    /// Total length of the windows with an account of the group.
    pub judged_ns: u64,
    /// Time on a CPU.
    pub cpu_ns: u64,
    /// Time runnable but not running.
    pub wait_ns: u64,
    /// Time blocked, by index of [`BlockClass`].
    pub blocked_ns: [u64; BlockClass::COUNT],
    /// Whether blocked time was measured in every window.
    pub has_blocked: bool,
}

/// The packed accounts of a window's groups, and whether blocked time was measured.
#[derive(Clone, Debug, Default)]
pub struct Accounts(Box<[u8]>, bool);

#[derive(Debug, Serialize, Deserialize)]
struct AccountRow {
    id: OwnerId,
    cpu_us: Micros,
    wait_us: Micros,
    blocked_us: Vec<(u8, Micros)>,
}

impl Accounts {
    /// Keeps the accounts of the groups that were active longest.
    pub(super) fn of(report: &WaitReport, numbers: &Numbers, most: usize) -> Self {
        let mut rows: Vec<&WaitReportRow> = report.rows.iter().collect();
        rows.sort_by_key(|row| Reverse(row.cpu_ns + row.total_ns() + row.stalled_ns()));
        let rows = rows.into_iter().take(most);
        let rows = rows.filter_map(|row| Some(AccountRow::new(numbers.of(&row.party)?, row)));
        let rows: Vec<AccountRow> = rows.collect();
        Self(pack(&rows), report.measured.has_blocked())
    }
}

impl AccountRow {
    fn new(id: OwnerId, row: &WaitReportRow) -> Self {
        let blocked = (0..).zip(row.blocked_ns.map(micros));
        Self {
            id,
            cpu_us: micros(row.cpu_ns),
            wait_us: micros(row.total_ns()),
            blocked_us: blocked.filter(|(_, us)| *us > 0).collect(),
        }
    }
}
