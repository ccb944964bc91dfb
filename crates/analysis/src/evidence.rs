//! Evidence and verdict: a pure function from the figures of a group to the diagnosis of its waits.

use noctule_model::{Cause, VerdictKind, Waiting};

use crate::{OwnWaits, Stalls};

/// Limits above which a wait leads to a verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Minimum wait, as a fraction of the group's CPU demand. Contention and throttling are each
    /// compared with it.
    pub wait_share: f64,
    /// A group that waits less than this, in seconds of wait per second, is quiet, whatever its
    /// share.
    pub wait_seconds_per_second: f64,
    /// A culprit is named if it caused at least this fraction of the wait for other groups.
    pub culprit_share: f64,
    /// If the 99th percentile of the waits is this many times the usual value, a quarter of the
    /// first two thresholds is enough.
    pub baseline_factor: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            wait_share: 0.1,
            wait_seconds_per_second: 0.05,
            culprit_share: 0.5,
            baseline_factor: 4.0,
        }
    }
}

impl Thresholds {
    /// Returns `culprit_share`, reduced if the previous verdict already named a culprit.
    pub(crate) fn culprit_share_after(&self, before: VerdictKind) -> f64 {
        self.culprit_share * stay(before == VerdictKind::HurtByNeighbour)
    }
}

/// Causes of a wait during which the CPU ran something else.
pub(crate) const CONTENDED: [Cause; 6] = [
    Cause::Neighbour,
    Cause::Own,
    Cause::Kernel,
    Cause::Interrupt,
    Cause::Host,
    Cause::Unattributed,
];

/// Waits shorter than this do not matter, so they are not compared with the history.
const COMPARED_NS: u64 = 1_000_000;

/// A wait of this length leads to a verdict, even if it is a small fraction of the group's CPU
/// demand.
pub(crate) const STARVES_NS: u64 = 1_000_000_000;

/// Figures of one group in one window. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Length of the window.
    pub window_ns: u64,
    /// Time for which the group's threads ran.
    pub cpu_ns: u64,
    /// Time for which the group's threads waited, by index of [`Cause`].
    pub wait_ns: [u64; Cause::ALL.len()],
    /// Threads that were still waiting at the end of the window.
    pub waiting: Waiting,
    /// 99th percentile of the group's waits; `None` if there were none.
    pub p99_ns: Option<u64>,
    /// Longest wait caused by one nameable group, or by several groups below one path. Kernel
    /// threads do not count as a group.
    pub top_culprit_ns: u64,
    /// Whether the group used up a quota ([`noctule_model::QuotaUse::binds`]). Such a group could
    /// not have used the CPU time that went to other groups.
    pub quota_binds: bool,
    /// Wait for other groups that cost the group CPU time. If a quota binds, only waits for groups
    /// that share the quota are included.
    pub costly_ns: u64,
    /// Why the group's threads waited for each other.
    pub own_waits: OwnWaits,
    /// Time for which something other than the CPU held the group's threads.
    pub stalls: Stalls,
    /// Total time for which the group's threads ran, waited for a CPU or were blocked.
    pub threads_ns: u64,
    /// The usual figures of the group; `None` if its history is too short.
    pub baseline: Option<Baseline>,
}

/// Usual figures of a group: medians over the windows of the last minutes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Baseline {
    /// 99th percentile of the group's waits, in nanoseconds.
    pub p99_ns: u64,
    /// Contended wait as a fraction of the group's CPU demand.
    pub contended_share: f64,
}

impl Evidence {
    /// Returns the wait with this cause.
    pub fn of(&self, cause: Cause) -> u64 {
        self.wait_ns[cause as usize]
    }

    /// Returns the wait during which something else had the CPU: another group, kernel threads, the
    /// group's own threads, interrupts or the host.
    ///
    /// Unattributed wait is included, because something had the CPU. Waits of the group's threads
    /// for each other are left out if CPUs that they may use were idle: the scheduler chose to
    /// queue them.
    pub fn contended_ns(&self) -> u64 {
        let all: u64 = CONTENDED.iter().map(|cause| self.of(*cause)).sum();
        match self.own_waits {
            OwnWaits::Spare => all - self.of(Cause::Own),
            OwnWaits::TooMany | OwnWaits::Crowded => all,
        }
    }

    /// Returns the wait for the group's own threads, if it has more threads than CPUs that they may
    /// use.
    pub fn own_ns(&self) -> u64 {
        match self.own_waits {
            OwnWaits::TooMany => self.of(Cause::Own),
            OwnWaits::Crowded | OwnWaits::Spare => 0,
        }
    }

    /// Returns the wait for the group's own threads, if other groups occupied CPUs that these
    /// threads could have used.
    pub fn crowded_ns(&self) -> u64 {
        match self.own_waits {
            OwnWaits::Crowded => self.of(Cause::Own),
            OwnWaits::TooMany | OwnWaits::Spare => 0,
        }
    }

    /// Returns the wait that other groups caused.
    pub fn neighbours_ns(&self) -> u64 {
        self.of(Cause::Neighbour) + self.crowded_ns()
    }

    /// Returns whether other groups caused more wait by crowding the group's threads onto few CPUs
    /// than by running in their place.
    pub fn is_crowded(&self) -> bool {
        self.crowded_ns() > self.of(Cause::Neighbour)
    }

    /// Returns the wait with which the wait behind a culprit is compared. If the group was crowded,
    /// culprits had the other CPUs, so the result is [`Self::neighbours_ns`]. Otherwise culprits
    /// had the CPU itself.
    pub fn blamed_ns(&self) -> u64 {
        match self.is_crowded() {
            true => self.neighbours_ns(),
            false => self.of(Cause::Neighbour),
        }
    }

    /// Returns the contended and throttled wait, on which verdicts about the CPU are based.
    pub fn lost_ns(&self) -> u64 {
        self.contended_ns() + self.of(Cause::Throttle)
    }

    /// Returns the wait for other groups and kernel threads.
    pub fn wait_on_others_ns(&self) -> u64 {
        self.of(Cause::Neighbour) + self.of(Cause::Kernel)
    }

    /// Returns the CPU demand: the time for which the group's threads ran or waited for a CPU.
    pub fn wanted_ns(&self) -> u64 {
        self.cpu_ns + self.wait_ns.iter().sum::<u64>()
    }

    /// Returns a time as a fraction of the group's CPU demand.
    pub fn share(&self, ns: u64) -> f64 {
        ns as f64 / self.wanted_ns().max(1) as f64
    }

    /// Returns the ratio of the long waits to the usual ones. Returns `None` without a history, or
    /// if the waits are too short to matter.
    pub fn times_usual(&self) -> Option<f64> {
        let p99 = self.p99_ns.filter(|&ns| ns >= COMPARED_NS)?;
        Some(p99 as f64 / self.baseline?.p99_ns.max(1) as f64)
    }

    /// Returns the verdict, which describes the largest loss: the wait for a CPU, or one kind of
    /// stall. `before` is the verdict of the previous window. The verdict changes only when the
    /// figures are clearly on the other side of a threshold.
    pub fn verdict(&self, thresholds: &Thresholds, before: VerdictKind) -> VerdictKind {
        if self.is_stopped(thresholds, before) {
            return VerdictKind::Stopped;
        }
        let cpu = self.cpu_verdict(thresholds, before);
        let was_cpu = before != VerdictKind::Quiet && !before.is_stall();
        let lost = self.hurt_ns(cpu) as f64 / stay(was_cpu);
        let stall = self.largest_stall(thresholds, before);
        stall
            .filter(|&(_, weight)| weight > lost)
            .map_or(cpu, |(kind, _)| kind)
    }

    /// Returns the verdict about the CPU alone.
    fn cpu_verdict(&self, thresholds: &Thresholds, before: VerdictKind) -> VerdictKind {
        let unusual = self
            .times_usual()
            .is_some_and(|times| times >= thresholds.baseline_factor);
        let matters = |ns: u64, ease: f64| {
            let per_second = ns as f64 / self.window_ns.max(1) as f64;
            per_second >= thresholds.wait_seconds_per_second * ease
                && self.share(ns) >= thresholds.wait_share * ease
        };
        let held = matters(self.of(Cause::Throttle), stay(before.is_held()));
        let ease = stay(before.is_contended()) * if unusual { 0.25 } else { 1.0 };
        let contended = matters(self.contended_ns(), ease);
        let by_neighbours = matters(self.costly_ns, ease);
        let not_own = self.contended_ns() - self.own_ns() - self.neighbours_ns();
        match (held, contended) {
            (false, false) if !self.starves() => VerdictKind::Quiet,
            (false, false) if self.of(Cause::Throttle) >= self.contended_ns() => {
                VerdictKind::HeldByQuota
            }
            (false, false) => self.contention(thresholds, before),
            (true, _) if by_neighbours => VerdictKind::QuotaAndNeighbours,
            (true, _) if self.quota_binds || self.of(Cause::Throttle) >= not_own => {
                VerdictKind::HeldByQuota
            }
            (true, false) => VerdictKind::HeldByQuota,
            // Other groups slowed the group so much that its quota ran out only shortly before the
            // end of each period.
            (false, true) if self.quota_binds && !by_neighbours && !self.is_mostly_own() => {
                VerdictKind::HeldByQuota
            }
            (_, true) => self.contention(thresholds, before),
        }
    }

    /// Returns whether the group's own threads caused more than half of the contended wait.
    fn is_mostly_own(&self) -> bool {
        2 * self.own_ns() > self.contended_ns()
    }

    /// Returns whether a thread has waited for so long that the group cannot be quiet. This wait
    /// may be a small fraction of the CPU demand of all threads. `lost_ns` excludes waits for an
    /// idle CPU to wake up, which are short.
    fn starves(&self) -> bool {
        self.waiting.longest_ns >= STARVES_NS && self.lost_ns() > 0
    }

    /// Returns whether one culprit caused most of the wait for other groups.
    fn has_culprit(&self, thresholds: &Thresholds, before: VerdictKind) -> bool {
        let share = thresholds.culprit_share_after(before);
        let neighbours = self.blamed_ns();
        neighbours > 0 && self.top_culprit_ns as f64 >= share * neighbours as f64
    }

    /// Returns the verdict for the cause of most of the contended wait.
    fn contention(&self, thresholds: &Thresholds, before: VerdictKind) -> VerdictKind {
        use VerdictKind::{
            HurtByHost, HurtByInterrupts, HurtByKernel, HurtByNeighbour, HurtByNeighbours,
            TooManyThreads,
        };
        let neighbours = match self.has_culprit(thresholds, before) {
            true => HurtByNeighbour,
            false => HurtByNeighbours,
        };
        let classes = [
            (neighbours, self.neighbours_ns()),
            (TooManyThreads, self.own_ns()),
            (HurtByKernel, self.of(Cause::Kernel)),
            (HurtByHost, self.of(Cause::Host)),
            (HurtByInterrupts, self.of(Cause::Interrupt)),
        ];
        let class = |kind| match kind {
            HurtByNeighbours => HurtByNeighbour,
            other => other,
        };
        let weight =
            |(kind, ns): &(VerdictKind, u64)| *ns as f64 / stay(class(*kind) == class(before));
        let known = self.contended_ns() - self.of(Cause::Unattributed);
        let largest = classes
            .iter()
            .max_by(|a, b| weight(a).total_cmp(&weight(b)));
        match largest {
            // Too little is known about the parties that had the CPU to blame one class.
            Some((kind, _)) if self.share(known) >= KNOWN * self.share(self.contended_ns()) => {
                *kind
            }
            _ => HurtByNeighbours,
        }
    }
}

/// Minimum fraction of the contended wait whose cause must be known for any verdict but
/// `HurtByNeighbours`.
const KNOWN: f64 = 0.1;

/// Returns the factor for a threshold. The factor is lower if the group is already above the
/// threshold, so that the verdict does not flap.
pub(crate) fn stay(above: bool) -> f64 {
    if above { 0.8 } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns the evidence for a window of 1 s in which the group ran for `cpu` ms. `wait` lists
    /// its waits by cause, in ms: throttling, neighbours, its own threads, the kernel, interrupts,
    /// the host, idle, and unattributed. One culprit caused all waits for neighbours.
    fn evidence(cpu: u64, wait: [u64; 8]) -> Evidence {
        Evidence {
            window_ns: 1000 * MS,
            cpu_ns: cpu * MS,
            wait_ns: wait.map(|ms| ms * MS),
            top_culprit_ns: wait[1] * MS,
            costly_ns: wait[1] * MS,
            p99_ns: Some(4 * MS),
            ..Evidence::default()
        }
    }

    fn judged(evidence: &Evidence) -> VerdictKind {
        evidence.verdict(&Thresholds::default(), VerdictKind::Quiet)
    }

    #[test]
    fn evidence_leads_to_each_verdict() {
        use VerdictKind::*;
        let cases = [
            (500, [0, 0, 0, 0, 0, 0, 20, 0], Quiet, "idle CPUs wake up"),
            (950, [0, 50, 0, 0, 0, 0, 0, 0], Quiet, "5 % is little"),
            (10, [0, 5, 0, 0, 0, 0, 0, 0], Quiet, "of nearly nothing"),
            (2, [0, 30, 0, 0, 0, 0, 0, 0], Quiet, "3 % of the window"),
            (2, [0, 60, 0, 0, 0, 0, 0, 0], HurtByNeighbour, "6 % of it"),
            (500, [0, 500, 0, 0, 0, 0, 0, 0], HurtByNeighbour, ""),
            (200, [800, 0, 0, 0, 0, 0, 0, 0], HeldByQuota, ""),
            (200, [500, 300, 0, 0, 0, 0, 0, 0], QuotaAndNeighbours, ""),
            (200, [500, 0, 300, 0, 0, 0, 0, 0], HeldByQuota, "threads"),
            (200, [120, 0, 0, 0, 0, 500, 0, 0], HurtByHost, "far more"),
            (500, [0, 10, 500, 0, 0, 0, 0, 0], TooManyThreads, ""),
            (500, [0, 10, 0, 300, 0, 0, 0, 0], HurtByKernel, ""),
            (500, [0, 120, 100, 100, 0, 0, 0, 0], HurtByNeighbour, "most"),
            (500, [0, 0, 0, 0, 0, 0, 0, 300], HurtByNeighbours, "unknown"),
            (
                500,
                [0, 100, 0, 0, 0, 0, 0, 200],
                HurtByNeighbour,
                "of known",
            ),
            (500, [0, 100, 50, 0, 60, 110, 0, 0], HurtByHost, ""),
            (500, [0, 100, 50, 0, 160, 110, 0, 0], HurtByInterrupts, ""),
        ];
        for (cpu, wait, kind, why) in cases {
            let evidence = evidence(cpu, wait);
            assert_eq!(judged(&evidence), kind, "{why} {evidence:?}");
        }
    }

    #[test]
    fn many_small_neighbours_are_no_single_culprit() {
        let mut evidence = evidence(500, [0, 500, 0, 0, 0, 0, 0, 0]);
        evidence.top_culprit_ns = 200 * MS;
        assert_eq!(judged(&evidence), VerdictKind::HurtByNeighbours);
    }

    #[test]
    fn neighbour_is_not_blamed_for_quota_throttling() {
        let mut evidence = evidence(300, [400, 300, 0, 0, 0, 0, 0, 0]);
        evidence.quota_binds = true;
        evidence.costly_ns = 0;
        assert_eq!(judged(&evidence), VerdictKind::HeldByQuota);
        // A group below the same limit takes the CPU time.
        evidence.costly_ns = 200 * MS;
        assert_eq!(judged(&evidence), VerdictKind::QuotaAndNeighbours);
    }

    #[test]
    fn threads_with_enough_cpus_do_not_hurt_each_other() {
        let mut evidence = evidence(1000, [0, 10, 990, 0, 0, 0, 0, 0]);
        assert_eq!(judged(&evidence), VerdictKind::TooManyThreads);
        evidence.own_waits = OwnWaits::Spare;
        assert_eq!(judged(&evidence), VerdictKind::Quiet);
        evidence.own_waits = OwnWaits::Crowded;
        assert_eq!(judged(&evidence), VerdictKind::HurtByNeighbours);
        evidence.top_culprit_ns = 900 * MS;
        assert_eq!(judged(&evidence), VerdictKind::HurtByNeighbour);
        // The culprits are known for most of the wait.
        let mut evidence = self::evidence(1000, [0, 600, 300, 0, 0, 0, 0, 0]);
        evidence.own_waits = OwnWaits::Crowded;
        evidence.top_culprit_ns = 350 * MS;
        assert_eq!(judged(&evidence), VerdictKind::HurtByNeighbour);
    }

    #[test]
    fn a_verdict_stays_until_the_figures_are_clearly_below_the_threshold() {
        use VerdictKind::*;
        let cases = [
            (910, [0, 90, 0, 0, 0, 0, 0, 0], HurtByNeighbour),
            (910, [90, 0, 0, 0, 0, 0, 0, 0], HeldByQuota),
            (500, [0, 100, 90, 0, 0, 0, 0, 0], TooManyThreads),
        ];
        for (cpu, wait, before) in cases {
            let evidence = evidence(cpu, wait);
            assert_eq!(evidence.verdict(&Thresholds::default(), before), before);
            assert_ne!(judged(&evidence), before);
        }
        let below = evidence(930, [0, 70, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            below.verdict(&Thresholds::default(), HurtByNeighbour),
            Quiet
        );
    }

    #[test]
    fn unusual_waits_have_a_lower_threshold() {
        let mut evidence = evidence(950, [0, 50, 0, 0, 0, 0, 0, 0]);
        let usual = |p99_ns| {
            Some(Baseline {
                p99_ns,
                contended_share: 0.01,
            })
        };
        evidence.baseline = usual(3 * MS);
        assert_eq!(judged(&evidence), VerdictKind::Quiet);
        evidence.baseline = usual(MS / 10);
        assert_eq!(judged(&evidence), VerdictKind::HurtByNeighbour);
        evidence.p99_ns = Some(MS / 2);
        assert_eq!(judged(&evidence), VerdictKind::Quiet);
    }

    #[test]
    fn group_with_a_starving_thread_is_not_quiet() {
        use VerdictKind::*;
        // One of 64 threads waits, which is a small fraction of the CPU demand of all 64.
        let cases = [
            ([0, 1000, 0, 0, 0, 0, 0, 0], HurtByNeighbour),
            ([0, 0, 1000, 0, 0, 0, 0, 0], TooManyThreads),
            ([1000, 0, 0, 0, 0, 0, 0, 0], HeldByQuota),
            ([0, 0, 0, 0, 0, 0, 1000, 0], Quiet),
        ];
        for (wait, kind) in cases {
            let mut evidence = evidence(63_000, wait);
            assert_eq!(judged(&evidence), Quiet, "{wait:?}");
            evidence.waiting = Waiting::thread(STARVES_NS - 1);
            assert_eq!(judged(&evidence), Quiet, "{wait:?}");
            evidence.waiting = Waiting::thread(STARVES_NS);
            assert_eq!(judged(&evidence), kind, "{wait:?}");
        }
    }

    #[test]
    fn verdict_without_measurements_is_quiet() {
        assert_eq!(judged(&Evidence::default()), VerdictKind::Quiet);
    }
}
