//! Reasons of verdicts: the numbers that support each verdict.

use noctule_model::{BlockClass, Cause, Level, Reason, ReasonCulprit, Unusual, VerdictKind};

use crate::evidence::STARVES_NS;
use crate::{Party, Verdict, WaitReport, WaitReportRow};

/// A reason mentions waits that are at least this many times as long as usual.
const MIN_UNUSUAL_RATIO: f64 = 2.0;
/// If a group was active for less than this share of the window, the reason states the share.
const SELDOM: f64 = 0.5;
/// Maximum number of culprits in a reason.
const CULPRITS: usize = 3;

impl WaitReport {
    /// Returns the reason for the verdict of a row.
    pub fn reason(&self, row: &WaitReportRow, level: Level) -> Reason {
        let holders = self.holders(row, level);
        self.reason_behind(row, holders.last().copied(), level)
    }

    /// Returns the reason for the verdict of a row with that last holder of locks.
    pub(crate) fn reason_behind(
        &self,
        row: &WaitReportRow,
        holder: Option<&WaitReportRow>,
        level: Level,
    ) -> Reason {
        let of = |row: &WaitReportRow| Reason {
            provisional: self.provisional,
            sees_stalls: self.measured.has_blocked(),
            ..row.reason(level)
        };
        Reason {
            holder: holder.map(|row| (row.party.name(level), Box::new(of(row)))),
            ..of(row)
        }
    }
}

impl WaitReportRow {
    /// Returns the reason for the row's verdict.
    fn reason(&self, level: Level) -> Reason {
        let evidence = &self.verdict.evidence;
        let unusual = evidence.times_usual().zip(evidence.p99_ns);
        let of = |cause| evidence.share(evidence.of(cause));
        let window = evidence.window_ns.max(1) as f64;
        Reason {
            kind: self.verdict.kind,
            provisional: false,
            contended: evidence.share(evidence.contended_ns()),
            costly: evidence.share(evidence.costly_ns),
            throttled: of(Cause::Throttle),
            own: of(Cause::Own),
            crowded: evidence.share(evidence.crowded_ns()),
            room: self.around.room,
            kernel: of(Cause::Kernel),
            interrupts: of(Cause::Interrupt),
            host: of(Cause::Host),
            p99_ns: evidence.p99_ns,
            threads: evidence.wanted_ns() as f64 / window,
            cpus: evidence.cpu_ns as f64 / window,
            waiting: Some(evidence.waiting).filter(|waiting| waiting.longest_ns >= STARVES_NS),
            culprits: self.reason_culprits(level),
            nameless: evidence.share(self.nameless_ns()),
            quota: self.quota.clone(),
            quota_binds: evidence.quota_binds,
            stalls: self.stalls(),
            memory: self.memory.clone(),
            runnable: self.total_ns() as f64 / evidence.active_ns().max(1) as f64,
            stopped: evidence.stalls.stopped_ns as f64 / evidence.threads_ns.max(1) as f64,
            of_window: self.of_window(),
            sees_stalls: false,
            mostly: self.mostly(),
            holder: None,
            is_root: self.party.is_root(),
            settings: self.settings.clone(),
            unusual: unusual
                .filter(|(times, _)| *times >= MIN_UNUSUAL_RATIO)
                .map(|(times, p99_ns)| Unusual { p99_ns, times }),
        }
    }

    fn stalls(&self) -> Vec<(VerdictKind, f64)> {
        let evidence = &self.verdict.evidence;
        let active = evidence.active_ns().max(1) as f64;
        let parts = evidence.stalls.parts().into_iter();
        let parts = parts.map(|(kind, ns)| (kind, ns as f64 / active));
        let mut parts: Vec<_> = parts.filter(|(_, part)| *part > 0.0).collect();
        parts.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        parts
    }

    /// Returns the time that the verdict describes, as a fraction of the window, if the group was
    /// active for less than half of the window.
    fn of_window(&self) -> Option<f64> {
        let Verdict { kind, evidence, .. } = &self.verdict;
        let window = evidence.window_ns.max(1) as f64;
        let part = evidence.hurt_ns(*kind) as f64 / window;
        let is_seldom = (evidence.active_ns() as f64) < SELDOM * window;
        (*kind != VerdictKind::Quiet && *kind != VerdictKind::Stopped && is_seldom).then_some(part)
    }

    /// Returns the class in which the threads spent at least half of their time, unless it is a
    /// stall.
    fn mostly(&self) -> Option<(BlockClass, f64)> {
        let of = |class: BlockClass| self.blocked_ns[class as usize];
        let idle = of(BlockClass::Poll).saturating_add(of(BlockClass::Timer));
        let is_meant = |class: &BlockClass| {
            !class.is_stall() && !matches!(class, BlockClass::Timer | BlockClass::Other)
        };
        let parts = BlockClass::ALL.into_iter().filter(is_meant);
        let parts = parts.map(|class| match class {
            BlockClass::Poll => (class, idle),
            _ => (class, of(class)),
        });
        let (class, ns) = parts.max_by_key(|(_, ns)| *ns)?;
        let part = ns as f64 / self.threads_ns().max(1) as f64;
        (part >= 0.5).then_some((class, part))
    }

    fn nameless_ns(&self) -> u64 {
        let nameless = self.culprits.iter().filter(|c| c.party == Party::Unnamed);
        nameless.map(|c| c.blame.wait_ns).sum()
    }

    /// Returns the other groups that had the CPU. The share of each is relative to the row's CPU
    /// demand.
    pub(crate) fn reason_culprits(&self, level: Level) -> Vec<ReasonCulprit> {
        let evidence = &self.verdict.evidence;
        if self.verdict.kind == VerdictKind::HeldByLock {
            let active_ns = evidence.active_ns().max(1) as f64;
            let least_ns = evidence.hurt_ns(VerdictKind::HeldByLock).div_ceil(100);
            let most = match self.verdict.culprit {
                Some(_) => 1,
                None => CULPRITS,
            };
            let holders = self.lock_holders().unwrap_or_default().into_iter();
            let holders = holders.filter(|(_, ns)| *ns >= least_ns).take(most);
            let holders = holders.map(|(party, ns)| ReasonCulprit {
                name: party.name(level),
                share: ns as f64 / active_ns,
            });
            return holders.collect();
        }
        if self.verdict.kind == VerdictKind::HeldByDisk {
            let rival = self.disk_rival.iter();
            let rival = rival.filter(|_| self.verdict.culprit.is_some());
            let rival = rival.map(|(party, part)| ReasonCulprit {
                name: party.name(level),
                share: *part,
            });
            return rival.collect();
        }
        if self.verdict.kind == VerdictKind::Quiet || self.verdict.kind.is_stall() {
            return Vec::new();
        }
        let named = |party: &Party, ns| ReasonCulprit {
            name: party.name(level),
            share: evidence.share(ns),
        };
        if let Some(many @ Party::Below { .. }) = &self.verdict.culprit {
            return vec![named(many, evidence.top_culprit_ns)];
        }
        // No other group ran in place of this group's threads. Other groups had the other CPUs.
        if evidence.is_crowded()
            && matches!(
                self.verdict.kind,
                VerdictKind::HurtByNeighbour | VerdictKind::HurtByNeighbours
            )
        {
            let part = evidence.crowded_ns() as f64 / self.around.others_cpu_ns.max(1) as f64;
            let busiest = self.around.busiest.iter();
            let busiest = busiest.map(|(party, ns)| named(party, (*ns as f64 * part) as u64));
            return busiest.filter(|it| it.share >= 0.01).collect();
        }
        // If a quota binds, groups that do not share it cost the row nothing.
        let is_meant = |party: &Party| match self.verdict.kind {
            VerdictKind::QuotaAndNeighbours => !evidence.quota_binds || self.uses_limit(party),
            // A group whose path is unknown may share the quota, so it is not named.
            VerdictKind::HeldByQuota => !self.uses_limit(party) && party.has_path(),
            _ => true,
        };
        self.culprits
            .iter()
            .filter(|c| !matches!(c.party, Party::Kernel | Party::Unnamed))
            .filter(|c| is_meant(&c.party))
            .filter(|c| self.is_worth_naming(c.blame.wait_ns))
            .take(CULPRITS)
            .map(|c| named(&c.party, c.blame.wait_ns))
            .collect()
    }
}
