//! Counters of the thread accounts, for each process, cgroup and node.

use crate::counts::group;
use crate::named::named_values;
use crate::{BlockClass, Countable, Counts, FeatureId, Measurable, Measured};

/// The ten softirq vectors, in the order of the kernel's `enum` in linux/interrupt.h. The names are
/// the lower-case names in `/proc/softirqs`.
pub const SOFTIRQ_VECTORS: [&str; 10] = [
    "hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer", "rcu",
];

named_values! {
    /// Why a thread had to wait for a CPU.
    ///
    /// For a process or a single cgroup, every other cgroup is a neighbour, as on the kernel side.
    /// Where owners are known (a [`crate::SubjectRow`], a `WaitReport` of noctule-analysis), other
    /// cgroups of the same subject are not neighbours.
    ///
    /// The name is the value of the label `cause`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Cause {
        /// The CPU quota of the thread's cgroup, or of an ancestor, had run out.
        Throttle: "throttle",
        /// Another container, unit or group ran.
        Neighbour: "neighbour",
        /// Another thread of the same group ran.
        Own: "self",
        /// A kernel thread ran.
        Kernel: "kernel",
        /// Interrupts took the CPU from the running thread. Only kernels with
        /// `CONFIG_IRQ_TIME_ACCOUNTING` measure this time; on other kernels the running thread's
        /// time contains it.
        Interrupt: "interrupt",
        /// The host took the CPU from the virtual machine (steal time).
        Host: "host",
        /// The CPU was idle and had to wake up.
        Idle: "idle",
        /// The running task is unknown: the wait is older than the history kept for the CPU.
        Unattributed: "unattributed",
    }
}

named_values! {
    /// The task that preempted a thread. As for [`Cause`], the value depends on whether owners are
    /// known.
    ///
    /// The name is the value of the label `by`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Preemptor {
        /// Another container, unit or group.
        Neighbour: "neighbour",
        /// Another thread of the same group.
        Own: "self",
        /// A kernel thread.
        Kernel: "kernel",
    }
}

/// A monotonic counter. The position of a counter equals its position in the kernel side's
/// `enum counter`, which the `kernel` crate checks at compile time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counter {
    /// Nanoseconds on a CPU, as the scheduler accounts them.
    CpuTime,
    /// CPU cycles (hardware counter).
    Cycles,
    /// Cycles of the reference clock (hardware counter; not on arm64).
    ReferenceCycles,
    /// Retired instructions (hardware counter).
    Instructions,
    /// Last-level cache misses (hardware counter).
    CacheMisses,
    /// Nanoseconds on a CPU while the sibling hardware thread of the core was also busy. Measured
    /// only on cores with two hardware threads.
    SiblingBusy,
    /// Pages read through the page cache.
    PageReads,
    /// Page-cache pages dirtied.
    PageWrites,
    /// Voluntary context switches.
    SwitchesVoluntary,
    /// Context switches to another thread while this thread was still runnable.
    SwitchesPreempted,
    /// Context switches because of a CPU quota. 0 if waits are not measured, because these switches
    /// then count as preemptions.
    SwitchesThrottled,
    /// Nanoseconds of waiting for a CPU, by cause. A batch includes the elapsed time of a wait in
    /// progress once that time reaches 0.1 ms.
    Wait(Cause),
    /// Preemptions, by the task that got the CPU.
    PreemptedBy(Preemptor),
    /// Softirqs of one vector (0..10) that interrupted the thread.
    Softirq(u8),
    /// Nanoseconds in which the thread neither ran nor waited for a CPU, by the kind of event that
    /// it waited for. Counted when the thread is runnable again; [`crate::Blocked`] has the time of
    /// blocks in progress.
    Blocked(BlockClass),
}

impl Counter {
    /// Number of counters.
    pub const COUNT: usize = Self::FIRST_BLOCKED + BlockClass::COUNT;

    /// Time waited for a CPU, by cause.
    pub const WAITS: [Self; Cause::ALL.len()] = group!(Cause::ALL => Self::Wait);

    /// Preemptions, by the task that got the CPU.
    pub const PREEMPTIONS: [Self; Preemptor::ALL.len()] =
        group!(Preemptor::ALL => Self::PreemptedBy);

    pub const SOFTIRQS: [Self; SOFTIRQ_VECTORS.len()] =
        group!([0, 1, 2, 3, 4, 5, 6, 7, 8, 9] => Self::Softirq);

    /// Blocked time, by class.
    pub const BLOCKED: [Self; BlockClass::COUNT] = group!(BlockClass::ALL => Self::Blocked);

    /// Indexes of the first cause of waits, the first preemptor and the first softirq vector.
    const FIRST_WAIT: usize = 11;
    const FIRST_PREEMPTION: usize = Self::FIRST_WAIT + Cause::COUNT;
    const FIRST_SOFTIRQ: usize = Self::FIRST_PREEMPTION + Preemptor::COUNT;

    /// Index of the first class of blocked time.
    const FIRST_BLOCKED: usize = Self::FIRST_SOFTIRQ + SOFTIRQ_VECTORS.len();

    /// Returns all counters, in order of their index.
    pub fn all() -> impl Iterator<Item = Self> {
        use Counter::{
            CacheMisses, CpuTime, Cycles, Instructions, PageReads, PageWrites, ReferenceCycles,
            SiblingBusy, SwitchesPreempted, SwitchesThrottled, SwitchesVoluntary,
        };
        [
            CpuTime,
            Cycles,
            ReferenceCycles,
            Instructions,
            CacheMisses,
            SiblingBusy,
            PageReads,
            PageWrites,
            SwitchesVoluntary,
            SwitchesPreempted,
            SwitchesThrottled,
        ]
        .into_iter()
        .chain(Self::WAITS)
        .chain(Self::PREEMPTIONS)
        .chain(Self::SOFTIRQS)
        .chain(Self::BLOCKED)
    }

    /// Returns the feature that measures the counter.
    pub const fn feature(self) -> FeatureId {
        match self {
            Self::CpuTime | Self::SwitchesVoluntary | Self::SwitchesPreempted => FeatureId::CpuTime,
            Self::Cycles => FeatureId::Cycles,
            Self::ReferenceCycles => FeatureId::ReferenceCycles,
            Self::Instructions => FeatureId::Instructions,
            Self::CacheMisses => FeatureId::CacheMisses,
            Self::SiblingBusy => FeatureId::SmtOverlap,
            Self::PageReads => FeatureId::PageCacheReads,
            Self::PageWrites => FeatureId::PageCacheWrites,
            Self::SwitchesThrottled | Self::Wait(Cause::Throttle) => FeatureId::WaitThrottle,
            Self::Wait(_) | Self::PreemptedBy(_) => FeatureId::CpuWaits,
            Self::Softirq(_) => FeatureId::Softirqs,
            Self::Blocked(_) => FeatureId::BlockedTime,
        }
    }

    /// Returns the position in [`Counters`].
    pub const fn index(self) -> usize {
        match self {
            Self::CpuTime => 0,
            Self::Cycles => 1,
            Self::ReferenceCycles => 2,
            Self::Instructions => 3,
            Self::CacheMisses => 4,
            Self::SiblingBusy => 5,
            Self::PageReads => 6,
            Self::PageWrites => 7,
            Self::SwitchesVoluntary => 8,
            Self::SwitchesPreempted => 9,
            Self::SwitchesThrottled => 10,
            Self::Wait(cause) => Self::FIRST_WAIT + cause as usize,
            Self::PreemptedBy(preemptor) => Self::FIRST_PREEMPTION + preemptor as usize,
            Self::Softirq(vector) => Self::FIRST_SOFTIRQ + vector as usize,
            Self::Blocked(class) => Self::FIRST_BLOCKED + class as usize,
        }
    }
}

/// A value for each counter of a thread, process, cgroup or node.
pub type Counters = Counts<Counter, { Counter::COUNT }>;

impl Countable for Counter {
    fn position(self) -> usize {
        self.index()
    }
}

impl Measurable for Counter {
    const FIRST_BIT: u32 = 0;

    fn part(self) -> &'static str {
        match self {
            Self::PageReads => "read",
            Self::PageWrites => "write",
            Self::SwitchesVoluntary => "voluntary",
            Self::SwitchesPreempted => "preempted",
            Self::SwitchesThrottled => "throttled",
            Self::Wait(cause) => cause.name(),
            Self::PreemptedBy(preemptor) => preemptor.name(),
            Self::Softirq(vector) => SOFTIRQ_VECTORS[usize::from(vector)],
            Self::Blocked(class) => class.name(),
            _ => "",
        }
    }
}

impl Counters {
    /// Returns the counters without blocked time, which grows even if nothing happens.
    #[must_use]
    pub fn without_blocked(mut self) -> Self {
        for blocked in Counter::BLOCKED {
            self[blocked] = 0;
        }
        self
    }

    /// Returns the average frequency while these counters grew, in hertz: cycles / reference cycles
    /// x nominal frequency. If reference cycles are not measured or their frequency is unknown,
    /// returns cycles / CPU time. The quotient is too low if a hypervisor or interrupts take some
    /// of the time. Returns `None` if cycles are not measured or no thread ran.
    pub fn frequency_hertz(&self, measured: Measured, nominal_hertz: Option<u64>) -> Option<f64> {
        let ratio = |cycles: u64, base: u64| (base > 0).then(|| cycles as f64 / base as f64);
        let cycles = measured.value(self, Counter::Cycles)?;
        match (
            measured.value(self, Counter::ReferenceCycles),
            nominal_hertz,
        ) {
            (Some(reference), Some(hertz)) => Some(ratio(cycles, reference)? * hertz as f64),
            _ => Some(ratio(cycles, self[Counter::CpuTime])? * 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_is_the_position_in_all() {
        let indices: Vec<usize> = Counter::all().map(Counter::index).collect();
        assert_eq!(indices, (0..Counter::COUNT).collect::<Vec<_>>());
    }
}
