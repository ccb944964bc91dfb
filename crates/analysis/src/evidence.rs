//! What is the matter with a group that waits: a pure function of what was measured.

use noctule_model::{Cause, VerdictKind, Waiting};

use crate::OwnWaits;

/// When a wait is worth a verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Part of the time for which the group wanted the CPU that it must have waited. Contention and
    /// throttling are compared with it one by one.
    pub wait_share: f64,
    /// Seconds of waiting in each second below which the group is quiet, whatever its share.
    pub wait_seconds_per_second: f64,
    /// Part of what was waited for others that one culprit must have caused to be named as the one.
    pub culprit_share: f64,
    /// Against its own history: when the 99th percentile of its waits is this many times the usual
    /// one, a quarter of the two thresholds above is enough.
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
    /// `culprit_share`, less where one was named before.
    pub(crate) fn culprit_share_after(&self, before: VerdictKind) -> f64 {
        self.culprit_share * stay(before == VerdictKind::HurtByNeighbour)
    }
}

/// Causes of a wait in which somebody else had the CPU.
pub(crate) const CONTENDED: [Cause; 6] = [
    Cause::Neighbour,
    Cause::Own,
    Cause::Kernel,
    Cause::Interrupt,
    Cause::Host,
    Cause::Unattributed,
];

/// Waits below this length are nobody's trouble, whatever they usually are: they are not compared
/// with the history.
const COMPARED_NS: u64 = 1_000_000;

/// A wait that goes on for that long is worth a verdict, whatever its part of the wanted time.
pub(crate) const STARVES_NS: u64 = 1_000_000_000;

/// What was measured of one group in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Length of the window, nanoseconds.
    pub window_ns: u64,
    /// How long its threads ran.
    pub cpu_ns: u64,
    /// How long they waited, by index of [`Cause`].
    pub wait_ns: [u64; Cause::ALL.len()],
    /// Its threads that wait at the end of the window.
    pub waiting: Waiting,
    /// 99th percentile of its waits; `None` when there was none.
    pub p99_ns: Option<u64>,
    /// The most that one other group caused, or many below one, of those that can be named. Threads of the kernel
    /// are no group.
    pub top_culprit_ns: u64,
    /// A quota was used up ([`noctule_model::QuotaUse::binds`]): it could not have used the time that others had.
    pub quota_binds: bool,
    /// What it waited for other groups that cost it something: where a quota binds, those that use it up with
    /// this one; else all.
    pub costly_ns: u64,
    /// Why its threads waited for each other.
    pub own_waits: OwnWaits,
    /// The usual figures of the group; `None` when too little is known.
    pub baseline: Option<Baseline>,
}

/// What is usual for a group: medians over the windows of the last minutes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Baseline {
    /// 99th percentile of its waits, nanoseconds.
    pub p99_ns: u64,
    /// Part of the time for which it wanted the CPU that it waited behind somebody.
    pub contended_share: f64,
}

impl Evidence {
    /// Waited because of one cause.
    pub fn of(&self, cause: Cause) -> u64 {
        self.wait_ns[cause as usize]
    }

    /// Waited behind somebody: another group, threads of the kernel, its own threads, interrupts or the host.
    /// What is not attributed is among it, because somebody had the CPU.
    /// Waits of its threads for each other while CPUs were idle that they may use are the scheduler's choice, and none.
    pub fn contended_ns(&self) -> u64 {
        let all: u64 = CONTENDED.iter().map(|cause| self.of(*cause)).sum();
        match self.own_waits {
            OwnWaits::Spare => all - self.of(Cause::Own),
            OwnWaits::TooMany | OwnWaits::Crowded => all,
        }
    }

    /// Waited for its own threads, because there are more of them than CPUs that they may use.
    pub fn own_ns(&self) -> u64 {
        match self.own_waits {
            OwnWaits::TooMany => self.of(Cause::Own),
            OwnWaits::Crowded | OwnWaits::Spare => 0,
        }
    }

    /// Waited for its own threads, because others had the CPUs that they could have used.
    pub fn crowded_ns(&self) -> u64 {
        match self.own_waits {
            OwnWaits::Crowded => self.of(Cause::Own),
            OwnWaits::TooMany | OwnWaits::Spare => 0,
        }
    }

    /// Waited because of other groups.
    pub fn neighbours_ns(&self) -> u64 {
        self.of(Cause::Neighbour) + self.crowded_ns()
    }

    /// Whether most of what it waited because of other groups was for its own threads.
    pub fn is_crowded(&self) -> bool {
        self.crowded_ns() > self.of(Cause::Neighbour)
    }

    /// The part of [`Self::neighbours_ns`] of which the culprits are compared: those that had the CPU, or those that had
    /// the CPUs beside.
    pub fn blamed_ns(&self) -> u64 {
        match self.is_crowded() {
            true => self.neighbours_ns(),
            false => self.of(Cause::Neighbour),
        }
    }

    /// Waited behind somebody or throttled: what a verdict is about.
    pub fn lost_ns(&self) -> u64 {
        self.contended_ns() + self.of(Cause::Throttle)
    }

    /// Waited behind other groups and threads of the kernel.
    pub fn others_ns(&self) -> u64 {
        self.of(Cause::Neighbour) + self.of(Cause::Kernel)
    }

    /// Time for which its threads wanted a CPU: they ran or waited.
    pub fn wanted_ns(&self) -> u64 {
        self.cpu_ns + self.wait_ns.iter().sum::<u64>()
    }

    /// A time as a part of that for which it wanted the CPU.
    pub fn share(&self, ns: u64) -> f64 {
        ns as f64 / self.wanted_ns().max(1) as f64
    }

    /// How many times longer than usual its long waits are; `None` without a history, or when they
    /// are too short to matter.
    pub fn times_usual(&self) -> Option<f64> {
        let p99 = self.p99_ns.filter(|&ns| ns >= COMPARED_NS)?;
        Some(p99 as f64 / self.baseline?.p99_ns.max(1) as f64)
    }

    /// Decides. `before` is the verdict of the window before this one: it stays until the figures
    /// are clearly on the other side of a threshold.
    pub fn verdict(&self, thresholds: &Thresholds, before: VerdictKind) -> VerdictKind {
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
            // The quota lasted nearly to the end of each period only because others had the CPU.
            (false, true) if self.quota_binds && !by_neighbours && !self.is_mostly_own() => {
                VerdictKind::HeldByQuota
            }
            (_, true) => self.contention(thresholds, before),
        }
    }

    /// Whether it waited for its own threads more than for all others.
    fn is_mostly_own(&self) -> bool {
        2 * self.own_ns() > self.contended_ns()
    }

    /// Whether a thread of it has not run for so long that it is not quiet, although its waits are a small
    /// part of what all its threads wanted. Waits for an idle CPU to wake up are short.
    fn starves(&self) -> bool {
        self.waiting.longest_ns >= STARVES_NS && self.lost_ns() > 0
    }

    /// Whether one culprit causes most of what was waited for other groups.
    fn has_culprit(&self, thresholds: &Thresholds, before: VerdictKind) -> bool {
        let share = thresholds.culprit_share_after(before);
        let neighbours = self.blamed_ns();
        neighbours > 0 && self.top_culprit_ns as f64 >= share * neighbours as f64
    }

    /// Who has the CPU for the largest part of the contention.
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
            // Next to nothing is known of who had the CPU: nobody is named for it.
            Some((kind, _)) if self.share(known) >= KNOWN * self.share(self.contended_ns()) => {
                *kind
            }
            _ => HurtByNeighbours,
        }
    }
}

/// Part of the contention of which it must be known who had the CPU.
const KNOWN: f64 = 0.1;

/// What a threshold is multiplied with: who is above it stays until it is clearly below.
fn stay(above: bool) -> f64 {
    if above { 0.8 } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A window of 1 s: ran for `cpu`, waited for throttle, neighbour, own, kernel, interrupts, host,
    /// idle and unattributed, all in milliseconds; one culprit has all of the neighbours' part.
    fn evidence(cpu: u64, wait: [u64; 8]) -> Evidence {
        Evidence {
            window_ns: 1000 * MS,
            cpu_ns: cpu * MS,
            wait_ns: wait.map(|ms| ms * MS),
            top_culprit_ns: wait[1] * MS,
            quota_binds: false,
            costly_ns: wait[1] * MS,
            own_waits: OwnWaits::TooMany,
            waiting: Waiting::default(),
            p99_ns: Some(4 * MS),
            baseline: None,
        }
    }

    fn judged(evidence: &Evidence) -> VerdictKind {
        evidence.verdict(&Thresholds::default(), VerdictKind::Quiet)
    }

    #[test]
    fn each_kind() {
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
    fn a_neighbour_is_not_accused_of_time_that_the_quota_denies() {
        let mut evidence = evidence(300, [400, 300, 0, 0, 0, 0, 0, 0]);
        evidence.quota_binds = true;
        evidence.costly_ns = 0;
        assert_eq!(judged(&evidence), VerdictKind::HeldByQuota);
        // One that uses up the same limit takes that time from it.
        evidence.costly_ns = 200 * MS;
        assert_eq!(judged(&evidence), VerdictKind::QuotaAndNeighbours);
    }

    #[test]
    fn threads_that_could_have_a_cpu_each_do_not_hurt_each_other() {
        let mut evidence = evidence(1000, [0, 10, 990, 0, 0, 0, 0, 0]);
        assert_eq!(judged(&evidence), VerdictKind::TooManyThreads);
        evidence.own_waits = OwnWaits::Spare;
        assert_eq!(judged(&evidence), VerdictKind::Quiet);
        evidence.own_waits = OwnWaits::Crowded;
        assert_eq!(judged(&evidence), VerdictKind::HurtByNeighbours);
        evidence.top_culprit_ns = 900 * MS;
        assert_eq!(judged(&evidence), VerdictKind::HurtByNeighbour);
        // Most of what it waited is known by name.
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
    fn what_is_unusual_for_the_group_needs_less() {
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
    fn a_group_of_which_a_thread_starves_is_not_quiet() {
        use VerdictKind::*;
        // One of 64 threads: its wait is a small part of what all of them wanted.
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
    fn nothing_measured_is_quiet() {
        assert_eq!(judged(&Evidence::default()), VerdictKind::Quiet);
    }
}
