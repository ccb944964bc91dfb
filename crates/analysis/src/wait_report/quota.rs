//! Finds the quota that held a row back.

use std::collections::HashMap;

use noctule_model::{Cause, Counter, IdMap, QuotaRow, QuotaUse};

use super::WaitReportRow;
use crate::party::{Party, is_below};

use crate::evidence::CONTENDED;
use crate::report::Row;

/// One of the cgroups whose figures a row adds up.
pub(super) struct Member {
    pub(super) path: String,
    /// Time for which the cgroup's threads ran or waited in the window, in nanoseconds.
    pub(super) wanted_ns: u64,
}

/// Period length if the recording does not have it: the kernel's default.
const PERIOD_NS: u64 = 100_000_000;

/// Maximum number of periods that the kernel counts after the last thread of a group ends: the
/// current period, and another one before the timer stops.
const PERIODS_AFTER_END: u64 = 2;

/// A quota that did not throttle is considered if at least this fraction of it was used.
const NEARLY_USED: f64 = 0.9;

/// Quotas that throttled in a window, or nearly did.
pub(super) struct Throttled<'a>(Vec<Growth<'a>>);

/// The growth of a quota's counts in a window.
struct Growth<'a> {
    path: &'a str,
    cpus: f64,
    period_ns: u64,
    throttled_ns: u64,
    periods: u64,
    throttled_periods: u64,
    /// CPU time of the groups below the quota.
    used_ns: u64,
    /// Time for which the threads of these groups ran or waited.
    wanted_ns: u64,
}

/// Figures for the time before the quota ran out, summed over all periods.
struct Open {
    /// The time before the quota ran out, as a fraction of the CPU demand of the groups below.
    wanted: f64,
    /// CPU time that the groups below could still have used, in nanoseconds.
    unused_ns: f64,
    /// CPU time used, as a fraction of the time that the quota allowed.
    used: f64,
}

impl<'a> Throttled<'a> {
    /// Compares the quotas at the start of the window with the quotas at its end, or at the removal
    /// of their cgroups. `began` returns whether the cgroup of a quota was created in the window.
    /// `groups` contains the usage of all groups.
    pub(super) fn between(
        first: &[QuotaRow],
        last: impl Iterator<Item = &'a QuotaRow>,
        began: impl Fn(&QuotaRow) -> bool,
        groups: &[Row],
        window_ns: u64,
    ) -> Self {
        let before: IdMap<_, _> = first.iter().map(|row| (row.cgroup, row)).collect();
        let grown = last.map(|row| Growth::new(row, before.get(&row.cgroup).copied(), &began));
        let mut grown: Vec<Growth<'_>> = grown.collect();
        let places: HashMap<&str, usize> =
            (0..).zip(&grown).map(|(at, it)| (it.path, at)).collect();
        for group in groups.iter().filter(|_| !places.is_empty()) {
            let path = &*group.owner.path;
            let above = path.match_indices('/').map(|(at, _)| &path[..at]);
            for place in above.chain([path]).filter_map(|path| places.get(path)) {
                let quota = &mut grown[*place];
                quota.used_ns = quota
                    .used_ns
                    .saturating_add(group.counters[Counter::CpuTime]);
                quota.wanted_ns = quota.wanted_ns.saturating_add(wanted_ns(group));
            }
        }
        let nearly = |it: &Growth<'_>| it.open(window_ns).used >= NEARLY_USED;
        grown.retain(|it| it.throttled_ns > 0 || nearly(it));
        Self(grown)
    }

    /// Returns the quota that held the row back: the one that throttled most among the quotas of
    /// members, ancestors and descendants.
    ///
    /// If several quotas bind, returns the innermost. The quota of a member that hardly runs may
    /// have throttled for longer, and an outer quota would not have granted more than the inner
    /// one.
    pub(super) fn of(
        &self,
        row: &WaitReportRow,
        members: &[Member],
        window_ns: u64,
    ) -> Option<QuotaUse> {
        let own = match &row.party {
            Party::Group(owner) => Some(&*owner.path),
            Party::Command => None,
            _ => return None,
        };
        let concerns = |quota: &&Growth<'_>| {
            members.iter().any(|member| {
                // All groups are below the root group, but the root row does not contain their
                // processes.
                let inside = member.path != "/" && is_below(quota.path, &member.path);
                inside || is_below(&member.path, quota.path)
            })
        };
        let quotas = self.0.iter().filter(concerns).map(|quota| {
            let use_of_row = QuotaUse {
                gain: quota.gain(row, window_ns),
                ..quota.usage(own, members, window_ns)
            };
            (quota, use_of_row)
        });
        let held = quotas.filter(|(quota, usage)| quota.throttled_ns > 0 || usage.binds());
        let most = held.max_by_key(|(quota, usage)| match usage.binds() {
            true => (
                1 + u8::from(usage.ran_out()),
                quota.path.len(),
                quota.throttled_ns,
            ),
            false => (0, 0, quota.throttled_ns),
        });
        most.map(|(_, usage)| usage)
    }
}

/// Returns the time for which the threads of a group ran or waited.
pub(super) fn wanted_ns(group: &Row) -> u64 {
    let waits = Cause::ALL.map(|cause| group.counters[Counter::Wait(cause)]);
    let waits = waits.into_iter().fold(0, u64::saturating_add);
    waits.saturating_add(group.counters[Counter::CpuTime])
}

impl<'a> Growth<'a> {
    fn new(
        row: &'a QuotaRow,
        before: Option<&QuotaRow>,
        began: &impl Fn(&QuotaRow) -> bool,
    ) -> Self {
        let since = |now: u64, then: fn(&QuotaRow) -> u64| match before {
            Some(before) => now.saturating_sub(then(before)),
            None if began(row) => now,
            // The quota was not read at the start, so its growth in the window is unknown.
            None => 0,
        };
        let throttled_ns = match before {
            Some(before) => row.throttled_ns.saturating_sub(before.throttled_ns),
            None => row.throttled_ns,
        };
        let throttled_periods = since(row.throttled_periods, |b| b.throttled_periods);
        let periods = since(row.periods, |b| b.periods);
        let open = periods.saturating_sub(throttled_periods);
        let after = if row.ended {
            open.min(PERIODS_AFTER_END)
        } else {
            0
        };
        Self {
            path: &row.path,
            cpus: row.cpus,
            period_ns: if row.period_ns > 0 {
                row.period_ns
            } else {
                PERIOD_NS
            },
            throttled_ns,
            periods: periods - after,
            throttled_periods,
            used_ns: 0,
            wanted_ns: 0,
        }
    }

    /// Returns figures for the time before the quota ran out. Threads may wait in parallel, so the
    /// exact time for which any thread was runnable is unknown. The sum over its threads is used,
    /// up to the length of the window.
    fn open(&self, window_ns: u64) -> Open {
        let period_ns = self.period_ns as f64;
        let window_ns = window_ns as f64;
        let full_ns = (self.throttled_periods as f64 * period_ns).min(window_ns);
        let wanted_ns = window_ns.min(self.wanted_ns as f64);
        let wanted_open_ns = (wanted_ns - full_ns).max(0.0);
        let periods = self.periods.saturating_sub(self.throttled_periods) as f64;
        // The kernel does not count periods in which the group does not run at all.
        let open_ns = wanted_open_ns
            .max(periods * period_ns)
            .min(window_ns - full_ns);
        let used_open_ns = (self.used_ns as f64 - full_ns * self.cpus).max(0.0);
        Open {
            wanted: wanted_open_ns / wanted_ns.max(1.0),
            unused_ns: (open_ns * self.cpus - used_open_ns).max(0.0),
            used: self.used_ns as f64 / ((full_ns + open_ns) * self.cpus).max(1.0),
        }
    }

    /// Returns [`QuotaUse::gain`]: the most that the row could gain if nothing outside the quota
    /// used the CPU.
    fn gain(&self, row: &WaitReportRow, window_ns: u64) -> f64 {
        let open = self.open(window_ns);
        let outside_ns = row.waited_outside_ns(self.path) as f64 * open.wanted;
        outside_ns.min(open.unused_ns) / row.cpu_ns.max(1) as f64
    }

    /// Returns how a row with these members used the quota. `path` is the row's path if it is a
    /// group.
    fn usage(&self, path: Option<&str>, members: &[Member], window_ns: u64) -> QuotaUse {
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
            used: self.open(window_ns).used,
            gain: 0.0,
        }
    }
}

impl Party {
    /// Returns whether the whole party is at or below that path.
    pub(super) fn is_inside(&self, above: &str) -> bool {
        match self {
            Self::Group(owner) => is_below(&owner.path, above),
            Self::Below { path, .. } => is_below(path, above),
            _ => false,
        }
    }
}

impl WaitReportRow {
    /// Returns how long the row waited for CPUs that were held neither by its own threads nor by
    /// other groups below that path.
    fn waited_outside_ns(&self, path: &str) -> u64 {
        let waited = |cause: Cause| self.wait_ns[cause as usize];
        let contended = CONTENDED.map(waited).into_iter();
        let contended = contended.fold(0, u64::saturating_add);
        let inside = self.culprits.iter().filter(|it| it.party.is_inside(path));
        let inside = inside
            .map(|it| it.blame.wait_ns)
            .fold(0, u64::saturating_add);
        contended.saturating_sub(inside.saturating_add(waited(Cause::Own)))
    }
}
