//! Stalls: time for which something other than the CPU held the threads of a group.

use noctule_model::{BlockClass, MemoryUse, VerdictKind};

use crate::evidence::stay;
use crate::{Evidence, Thresholds};

/// Minimum fraction of all threads' time for which a group must be stopped to get the verdict that
/// it is stopped. A stopped job in a session, or a process in a debugger, shows nothing about the
/// other threads.
const STOPPED: f64 = 0.5;

/// Time for which the threads of a group were held, by cause, in nanoseconds. Each block counts
/// once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Waits for block I/O or for write-back.
    pub disk_ns: u64,
    /// Waits for a file system.
    pub filesystem_ns: u64,
    /// Waits because of a memory limit of the group.
    pub memory_limit_ns: u64,
    /// Other waits for memory.
    pub reclaim_ns: u64,
    /// Waits for locks that other groups held. `None` if the holders are not measured. The class
    /// [`BlockClass::Lock`] includes threads without work, so it alone never leads to a verdict.
    pub lock_ns: Option<u64>,
    /// Time for which the threads were stopped or frozen.
    pub stopped_ns: u64,
}

impl Stalls {
    /// Returns the stalls of a group with this blocked time, by index of [`BlockClass`]. Waits for
    /// evicted pages that are read again look like other waits for a disk, so they are estimated
    /// from the proportion of such reads.
    pub(crate) fn new(blocked_ns: &[u64; BlockClass::COUNT], memory: Option<&MemoryUse>) -> Self {
        let of = |class: BlockClass| blocked_ns[class as usize];
        let reads_ns = of(BlockClass::Disk);
        let part = memory.and_then(|memory| memory.reread_part).unwrap_or(0.0);
        let rereads_ns = (reads_ns as f64 * part) as u64;
        let memory_ns = of(BlockClass::Memory).saturating_add(rereads_ns);
        let is_limited = memory.is_some_and(|memory| memory.limit.is_some());
        let (memory_limit_ns, reclaim_ns) = match is_limited {
            true => (memory_ns, 0),
            false => (0, memory_ns),
        };
        Self {
            disk_ns: reads_ns
                .saturating_sub(rereads_ns)
                .saturating_add(of(BlockClass::Writeback)),
            filesystem_ns: of(BlockClass::Filesystem),
            memory_limit_ns,
            reclaim_ns,
            lock_ns: None,
            stopped_ns: of(BlockClass::Stopped),
        }
    }

    /// Yields the causes except stops, each with its verdict.
    pub fn parts(&self) -> [(VerdictKind, u64); 5] {
        [
            (VerdictKind::HeldByDisk, self.disk_ns),
            (VerdictKind::HeldByFilesystem, self.filesystem_ns),
            (VerdictKind::HeldByMemoryLimit, self.memory_limit_ns),
            (VerdictKind::HeldByReclaim, self.reclaim_ns),
            (VerdictKind::HeldByLock, self.lock_ns.unwrap_or(0)),
        ]
    }

    /// Returns the time on which a verdict of this kind is based; 0 if the kind is about the CPU.
    pub fn of(&self, kind: VerdictKind) -> u64 {
        if kind == VerdictKind::Stopped {
            return self.stopped_ns;
        }
        let mut parts = self.parts().into_iter();
        parts.find(|(it, _)| *it == kind).map_or(0, |(_, ns)| ns)
    }
}

impl Evidence {
    /// Returns the time for which the group's threads ran, waited for a CPU or were held. Stopped
    /// time does not count.
    pub fn active_ns(&self) -> u64 {
        let held = self.stalls.parts().into_iter();
        held.fold(self.wanted_ns(), |sum, (_, ns)| sum.saturating_add(ns))
    }

    /// Returns the time on which a verdict of this kind is based, in nanoseconds.
    pub fn hurt_ns(&self, kind: VerdictKind) -> u64 {
        match kind {
            VerdictKind::Quiet => 0,
            kind if kind.is_stall() => self.stalls.of(kind),
            _ => self.lost_ns(),
        }
    }

    /// Returns whether the group's threads were stopped for most of the sum of their time.
    pub(crate) fn is_stopped(&self, thresholds: &Thresholds, before: VerdictKind) -> bool {
        let ease = stay(before == VerdictKind::Stopped);
        let stopped = self.stalls.stopped_ns as f64;
        let least = thresholds.wait_seconds_per_second * self.window_ns.max(1) as f64;
        stopped >= least * ease && stopped >= STOPPED * ease * self.threads_ns as f64
    }

    /// Returns the largest stall that is worth a verdict, and its weight: the time in nanoseconds,
    /// increased if it was already the verdict.
    pub(crate) fn largest_stall(
        &self,
        thresholds: &Thresholds,
        before: VerdictKind,
    ) -> Option<(VerdictKind, f64)> {
        let active = self.active_ns().max(1) as f64;
        let window = self.window_ns.max(1) as f64;
        let weighed = self.stalls.parts().into_iter().map(|(kind, ns)| {
            let weight = ns as f64 / stay(before == kind);
            (kind, weight)
        });
        let matters = |&(_, weight): &(VerdictKind, f64)| {
            weight / window >= thresholds.wait_seconds_per_second
                && weight / active >= thresholds.wait_share
        };
        let largest = weighed.max_by(|a, b| a.1.total_cmp(&b.1));
        largest.filter(matters)
    }
}

#[cfg(test)]
mod tests {
    use noctule_model::{Cause, MemoryLimit, VerdictKind::*};

    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns the evidence of a window of 1 s, from times in milliseconds.
    fn evidence(ran: u64, waited: u64, blocked: &[(BlockClass, u64)]) -> Evidence {
        let mut blocked_ns = [0; BlockClass::COUNT];
        for (class, ms) in blocked {
            blocked_ns[*class as usize] = ms * MS;
        }
        let mut wait_ns = [0; Cause::ALL.len()];
        wait_ns[Cause::Neighbour as usize] = waited * MS;
        Evidence {
            window_ns: 1000 * MS,
            cpu_ns: ran * MS,
            wait_ns,
            top_culprit_ns: waited * MS,
            costly_ns: waited * MS,
            stalls: Stalls::new(&blocked_ns, None),
            threads_ns: (ran + waited) * MS + blocked_ns.iter().sum::<u64>(),
            ..Evidence::default()
        }
    }

    fn judged(evidence: &Evidence) -> VerdictKind {
        evidence.verdict(&Thresholds::default(), Quiet)
    }

    #[test]
    fn largest_harmful_part_is_the_verdict() {
        use BlockClass::*;
        type Case = (u64, u64, &'static [(BlockClass, u64)], VerdictKind);
        let cases: [Case; 15] = [
            (50, 20, &[(Disk, 900)], HeldByDisk),
            (50, 20, &[(Writeback, 900)], HeldByDisk),
            (
                50,
                20,
                &[(Disk, 300), (Writeback, 300), (Filesystem, 500)],
                HeldByDisk,
            ),
            (50, 20, &[(Disk, 150), (Filesystem, 780)], HeldByFilesystem),
            (50, 20, &[(Memory, 930)], HeldByReclaim),
            (300, 400, &[(Disk, 300)], HurtByNeighbour),
            (300, 300, &[(Disk, 400)], HeldByDisk),
            // The stall is below 10% of the active time, or below 5% of the window.
            (910, 0, &[(Disk, 90)], Quiet),
            (10, 0, &[(Disk, 40), (Poll, 950)], Quiet),
            (10, 0, &[(Disk, 60), (Poll, 930)], HeldByDisk),
            // A wait for a futex may be an idle pool, and a server waits for requests.
            (10, 0, &[(Lock, 990)], Quiet),
            (10, 0, &[(Poll, 500), (Network, 490)], Quiet),
            (0, 0, &[(Stopped, 1000)], VerdictKind::Stopped),
            // A stopped job among sleeping threads.
            (0, 0, &[(Stopped, 1000), (Poll, 3000)], Quiet),
            (100, 150, &[(Stopped, 700), (Poll, 1000)], HurtByNeighbour),
        ];
        for (ran, waited, blocked, kind) in cases {
            let evidence = evidence(ran, waited, blocked);
            assert_eq!(judged(&evidence), kind, "{ran} {waited} {blocked:?}");
        }
    }

    #[test]
    fn reads_of_evicted_pages_are_waits_for_memory() {
        let mut blocked_ns = [0; BlockClass::COUNT];
        blocked_ns[BlockClass::Disk as usize] = 800;
        blocked_ns[BlockClass::Writeback as usize] = 10;
        blocked_ns[BlockClass::Memory as usize] = 100;
        let mut memory = MemoryUse {
            reread_part: Some(0.75),
            ..MemoryUse::default()
        };
        let parts = |memory: Option<&MemoryUse>| {
            let stalls = Stalls::new(&blocked_ns, memory);
            (stalls.disk_ns, stalls.memory_limit_ns, stalls.reclaim_ns)
        };
        assert_eq!(parts(None), (810, 0, 100));
        assert_eq!(parts(Some(&memory)), (210, 0, 700));
        memory.limit = Some(MemoryLimit::default());
        assert_eq!(parts(Some(&memory)), (210, 700, 0));
    }

    #[test]
    fn lock_counts_only_if_its_holder_is_known() {
        let mut evidence = evidence(10, 0, &[(BlockClass::Lock, 990)]);
        evidence.stalls.lock_ns = Some(0);
        assert_eq!(judged(&evidence), Quiet);
        evidence.stalls.lock_ns = Some(900 * MS);
        assert_eq!(judged(&evidence), HeldByLock);
        assert_eq!(evidence.hurt_ns(HeldByLock), 900 * MS);
    }

    #[test]
    fn a_verdict_stays_until_another_part_is_clearly_larger() {
        let evidence = evidence(100, 400, &[(BlockClass::Disk, 440)]);
        let after = |before| evidence.verdict(&Thresholds::default(), before);
        let kinds = [Quiet, HurtByNeighbour, HeldByDisk].map(after);
        assert_eq!(kinds, [HeldByDisk, HurtByNeighbour, HeldByDisk]);
    }
}
