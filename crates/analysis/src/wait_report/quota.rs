//! The quota that held a row back.

use noctule_model::{IdMap, QuotaRow, QuotaUse};

use super::Party;
use super::parent::is_below;

/// A group of a row.
pub(super) struct Member {
    /// Its path.
    pub(super) path: String,
    /// How long its threads ran or waited in the window, nanoseconds.
    pub(super) wanted_ns: u64,
}

/// What quotas throttled in a window.
pub(super) struct Throttled<'a>(Vec<Growth<'a>>);

struct Growth<'a> {
    path: &'a str,
    cpus: f64,
    throttled_ns: u64,
    periods: u64,
    throttled_periods: u64,
}

impl<'a> Throttled<'a> {
    /// From the quotas at the beginning, and those at the end or when their groups went. `began`: whether the group of
    /// one began in the window.
    pub(super) fn between(
        first: &[QuotaRow],
        last: impl Iterator<Item = &'a QuotaRow>,
        began: impl Fn(&QuotaRow) -> bool,
    ) -> Self {
        let before: IdMap<_, _> = first.iter().map(|row| (row.cgroup, row)).collect();
        let grown = last.map(|row| {
            let before = before.get(&row.cgroup).copied();
            let since = |now: u64, then: fn(&QuotaRow) -> u64| match before {
                Some(before) => now.saturating_sub(then(before)),
                None if began(row) => now,
                // Of one that was not read at the beginning it is not known what belongs to the window.
                None => 0,
            };
            let throttled_ns = match before {
                Some(before) => row.throttled_ns.saturating_sub(before.throttled_ns),
                None => row.throttled_ns,
            };
            Growth {
                path: &row.path,
                cpus: row.cpus,
                throttled_ns,
                periods: since(row.periods, |b| b.periods),
                throttled_periods: since(row.throttled_periods, |b| b.throttled_periods),
            }
        });
        Self(grown.filter(|it| it.throttled_ns > 0).collect())
    }

    /// The quota of a member, of a group above one or of one inside it that throttled for longest in the window. If
    /// any binds, the innermost of these: one of a member that hardly runs can have throttled for longer, and one
    /// above would not have given what the inner one denies.
    pub(super) fn of(&self, party: &Party, members: &[Member]) -> Option<QuotaUse> {
        let own = match party {
            Party::Group(owner) => Some(&*owner.path),
            Party::Command => None,
            _ => return None,
        };
        let concerns = |quota: &&Growth<'_>| {
            members.iter().any(|member| {
                // Every group is inside the root group, whose row has the processes of none of them.
                let inside = member.path != "/" && is_below(quota.path, &member.path);
                inside || is_below(&member.path, quota.path)
            })
        };
        let quotas = self.0.iter().filter(concerns);
        let quotas = quotas.map(|quota| (quota, quota.usage(own, members)));
        let most = quotas.max_by_key(|(quota, usage)| match usage.binds() {
            true => (true, quota.path.len(), quota.throttled_ns),
            false => (false, 0, quota.throttled_ns),
        });
        most.map(|(_, usage)| usage)
    }
}

impl Growth<'_> {
    /// What it means for the row with these members, and with this path if it is a group.
    fn usage(&self, path: Option<&str>, members: &[Member]) -> QuotaUse {
        let below = |member: &&Member| is_below(&member.path, self.path);
        let sum = |ns: u64, member: &Member| ns + member.wanted_ns;
        let wanted_ns = members.iter().fold(0, sum);
        let below_ns = members.iter().filter(below).fold(0, sum);
        let is_own = path == Some(self.path) && members.iter().all(|member| below(&member));
        QuotaUse {
            cpus: self.cpus,
            group: (!is_own).then(|| self.path.to_owned()),
            periods: self.periods,
            throttled_periods: self.throttled_periods,
            part: match wanted_ns {
                0 => 0.0,
                _ => below_ns as f64 / wanted_ns as f64,
            },
        }
    }
}
