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
    /// The most that one other group caused, threads of the kernel included.
    pub top_culprit_ns: u64,
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

    /// Waited behind somebody: another group, the system, its own threads, interrupts or the host.
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

    /// Waited because of others.
    pub fn others_ns(&self) -> u64 {
        self.of(Cause::Neighbour) + self.of(Cause::Kernel)
    }

    /// Waited because interrupts or the host had the CPU.
    pub fn taken_ns(&self) -> u64 {
        self.of(Cause::Interrupt) + self.of(Cause::Host)
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

    /// Decides.
    pub fn verdict(&self, thresholds: &Thresholds) -> VerdictKind {
        let unusual = self
            .times_usual()
            .is_some_and(|times| times >= thresholds.baseline_factor);
        let matters = |ns: u64, ease: f64| {
            let per_second = ns as f64 / self.window_ns.max(1) as f64;
            per_second >= thresholds.wait_seconds_per_second * ease
                && self.share(ns) >= thresholds.wait_share * ease
        };
        let throttled = matters(self.of(Cause::Throttle), 1.0);
        let contended = matters(self.contended_ns(), if unusual { 0.25 } else { 1.0 });
        match (throttled, contended) {
            (false, false) => VerdictKind::Quiet,
            (true, false) => VerdictKind::Throttled,
            (true, true) => VerdictKind::ThrottledAndContended,
            (false, true) => self.contention(thresholds),
        }
    }

    /// Whether one culprit causes most of what was waited for others.
    pub fn has_culprit(&self, thresholds: &Thresholds) -> bool {
        self.others_ns() > 0
            && self.top_culprit_ns as f64 >= thresholds.culprit_share * self.others_ns() as f64
    }

    fn contention(&self, thresholds: &Thresholds) -> VerdictKind {
        // What nobody is known for makes nobody's share smaller.
        let half = (self.contended_ns() - self.of(Cause::Unattributed)) / 2;
        if self.taken_ns() > half {
            VerdictKind::Host
        } else if self.of(Cause::Own) > half {
            VerdictKind::SelfContended
        } else if self.of(Cause::Kernel) > half {
            VerdictKind::System
        } else if self.of(Cause::Neighbour) > half && self.has_culprit(thresholds) {
            VerdictKind::NoisyNeighbour
        } else {
            VerdictKind::Contended
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A window of 1 s: ran for `cpu`, waited for throttle, neighbour, own, system, interrupts, host,
    /// idle and unattributed, all in milliseconds; one culprit has all of the neighbours' part.
    fn evidence(cpu: u64, wait: [u64; 8]) -> Evidence {
        Evidence {
            window_ns: 1000 * MS,
            cpu_ns: cpu * MS,
            wait_ns: wait.map(|ms| ms * MS),
            top_culprit_ns: wait[1] * MS,
            p99_ns: Some(4 * MS),
            baseline: None,
        }
    }

    #[test]
    fn each_kind() {
        use VerdictKind::*;
        let cases = [
            (
                evidence(500, [0, 0, 0, 0, 0, 0, 20, 0]),
                Quiet,
                "wake-ups of idle CPUs",
            ),
            (
                evidence(950, [0, 50, 0, 0, 0, 0, 0, 0]),
                Quiet,
                "5 % is little",
            ),
            (
                evidence(10, [0, 5, 0, 0, 0, 0, 0, 0]),
                Quiet,
                "a third of nearly nothing",
            ),
            (
                evidence(500, [0, 500, 0, 0, 0, 0, 0, 0]),
                NoisyNeighbour,
                "",
            ),
            (evidence(200, [800, 0, 0, 0, 0, 0, 0, 0]), Throttled, ""),
            (
                evidence(200, [500, 300, 0, 0, 0, 0, 0, 0]),
                ThrottledAndContended,
                "",
            ),
            (
                evidence(500, [0, 10, 500, 0, 0, 0, 0, 0]),
                SelfContended,
                "",
            ),
            (evidence(500, [0, 10, 0, 300, 0, 0, 0, 0]), System, ""),
            (
                evidence(500, [0, 100, 100, 100, 0, 0, 0, 0]),
                Contended,
                "no cause has half",
            ),
            (
                evidence(500, [0, 0, 0, 0, 0, 0, 0, 300]),
                Contended,
                "it is not known who",
            ),
            (
                evidence(500, [0, 100, 0, 0, 0, 0, 0, 200]),
                NoisyNeighbour,
                "of what is known, all",
            ),
            (
                evidence(500, [0, 100, 50, 0, 60, 110, 0, 0]),
                Host,
                "the host of an overcommitted machine is no neighbour",
            ),
        ];
        for (evidence, kind, why) in cases {
            assert_eq!(
                evidence.verdict(&Thresholds::default()),
                kind,
                "{why} {evidence:?}"
            );
        }
    }

    #[test]
    fn many_small_neighbours_are_no_single_culprit() {
        let mut evidence = evidence(500, [0, 500, 0, 0, 0, 0, 0, 0]);
        evidence.top_culprit_ns = 200 * MS;
        assert_eq!(
            evidence.verdict(&Thresholds::default()),
            VerdictKind::Contended
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
        assert_eq!(evidence.verdict(&Thresholds::default()), VerdictKind::Quiet);
        evidence.baseline = usual(MS / 10);
        assert_eq!(
            evidence.verdict(&Thresholds::default()),
            VerdictKind::NoisyNeighbour
        );
        evidence.p99_ns = Some(MS / 2);
        assert_eq!(evidence.verdict(&Thresholds::default()), VerdictKind::Quiet);
    }

    #[test]
    fn nothing_measured_is_quiet() {
        assert_eq!(
            Evidence::default().verdict(&Thresholds::default()),
            VerdictKind::Quiet
        );
    }
}
