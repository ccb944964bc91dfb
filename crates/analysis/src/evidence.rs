//! What is the matter with a group that waits: a pure function of what was measured.

use noctule_model::{Cause, VerdictKind};

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
            wait_seconds_per_second: 0.01,
            culprit_share: 0.5,
            baseline_factor: 4.0,
        }
    }
}

/// Waits below this length are nobody's trouble, whatever they usually are: they are not compared
/// with the history.
const COMPARED_NS: u64 = 1_000_000;

/// What was measured of one group in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Length of the window, nanoseconds.
    pub window_ns: u64,
    /// How long its threads ran.
    pub cpu_ns: u64,
    /// How long they waited, by index of [`Cause`].
    pub wait_ns: [u64; Cause::ALL.len()],
    /// 99th percentile of its waits; `None` when there was none.
    pub p99_ns: Option<u64>,
    /// The most that one other group caused. Threads of the kernel are no group.
    pub top_culprit_ns: u64,
    /// Its quota ran out in nearly all periods: it could not have used the time that others had.
    pub quota_binds: bool,
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
    pub fn contended_ns(&self) -> u64 {
        [
            Cause::Neighbour,
            Cause::Own,
            Cause::Kernel,
            Cause::Interrupt,
            Cause::Host,
            Cause::Unattributed,
        ]
        .iter()
        .map(|cause| self.of(*cause))
        .sum()
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
        let by_neighbours = matters(self.of(Cause::Neighbour), ease) && !self.quota_binds;
        let not_own = self.contended_ns() - self.of(Cause::Own) - self.of(Cause::Neighbour);
        match (held, contended) {
            (false, false) => VerdictKind::Quiet,
            (true, _) if by_neighbours => VerdictKind::QuotaAndNeighbours,
            (true, _) if self.quota_binds || self.of(Cause::Throttle) >= not_own => {
                VerdictKind::HeldByQuota
            }
            (true, false) => VerdictKind::HeldByQuota,
            (_, true) => self.contention(thresholds, before),
        }
    }

    /// Whether one culprit causes most of what was waited for other groups.
    pub fn has_culprit(&self, thresholds: &Thresholds, before: VerdictKind) -> bool {
        let share = thresholds.culprit_share * stay(before == VerdictKind::HurtByNeighbour);
        let neighbours = self.of(Cause::Neighbour);
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
            (neighbours, Cause::Neighbour),
            (TooManyThreads, Cause::Own),
            (HurtByKernel, Cause::Kernel),
            (HurtByHost, Cause::Host),
            (HurtByInterrupts, Cause::Interrupt),
        ];
        let class = |kind| match kind {
            HurtByNeighbours => HurtByNeighbour,
            other => other,
        };
        let weight = |(kind, cause): &(VerdictKind, Cause)| {
            self.of(*cause) as f64 / stay(class(*kind) == class(before))
        };
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
