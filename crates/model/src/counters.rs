//! What is counted for each process, cgroup and node.

use std::ops::{Add, AddAssign, Index, IndexMut};

/// The ten softirq vectors, in the kernel's order (`enum` in linux/interrupt.h), named as
/// `/proc/softirqs` names them, in lower case.
pub const SOFTIRQ_VECTORS: [&str; 10] = [
    "hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer", "rcu",
];

/// What kept a thread from the CPU that it waited for.
///
/// At the level of a process or a cgroup by itself, as the kernel side counts it: every other
/// cgroup is a neighbour, and only threads of the kernel are the system. Where owners are known (a
/// [`crate::WaitReport`], a [`crate::SubjectRow`]): groups of the same subject count as its own, and
/// units outside containers as the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// The quota of its group, or of one above, had run out.
    Throttle,
    /// Another container or group ran.
    Neighbour,
    /// Another thread of its own group ran.
    Own,
    /// A thread of the kernel, or a unit outside containers, ran.
    System,
    /// Nobody ran: the CPU was idle and had to wake up.
    Idle,
    /// It is not known who ran: the wait is older than what the CPU remembers.
    Unattributed,
}

impl Cause {
    /// Every cause, in order of its index.
    pub const ALL: [Self; 6] = [
        Self::Throttle,
        Self::Neighbour,
        Self::Own,
        Self::System,
        Self::Idle,
        Self::Unattributed,
    ];

    /// The value of the label `cause`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Throttle => "throttle",
            Self::Neighbour => "neighbour",
            Self::Own => "self",
            Self::System => "system",
            Self::Idle => "idle",
            Self::Unattributed => "unattributed",
        }
    }
}

/// Who took the CPU from a thread that wanted to go on. As for [`Cause`], it depends on whether
/// owners are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Preemptor {
    /// Another container or group.
    Neighbour,
    /// Another thread of its own group.
    Own,
    /// A thread of the kernel, or a unit outside containers.
    System,
}

impl Preemptor {
    /// Every preemptor, in order of its index.
    pub const ALL: [Self; 3] = [Self::Neighbour, Self::Own, Self::System];

    /// The value of the label `by`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Neighbour => "neighbour",
            Self::Own => "self",
            Self::System => "system",
        }
    }
}

/// One monotonic counter. The position is the position in the kernel side's `enum counter`; the
/// `kernel` crate checks that at compile time.
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
    /// Pages read through the page cache.
    PageReads,
    /// Pages of the page cache made dirty.
    PageWrites,
    /// Switches because the thread gave up the CPU.
    SwitchesVoluntary,
    /// Switches although the thread wanted to go on, because of another thread.
    SwitchesPreempted,
    /// Switches although the thread wanted to go on, because of a quota. 0 when waits are not
    /// measured: then they are among the preempted ones.
    SwitchesThrottled,
    /// Nanoseconds of waiting for a CPU, by cause. A wait is counted when it ends.
    Wait(Cause),
    /// Preemptions by whoever got the CPU.
    PreemptedBy(Preemptor),
    /// Softirqs of one vector (0..10) that ran on top of the thread.
    Softirq(u8),
}

impl Counter {
    /// How many counters there are.
    pub const COUNT: usize = Self::SOFTIRQS + SOFTIRQ_VECTORS.len();

    /// Index of the first softirq vector.
    const SOFTIRQS: usize = 19;

    /// Every counter, in order of its index.
    pub fn all() -> impl Iterator<Item = Self> {
        use Counter::{
            CacheMisses, CpuTime, Cycles, Instructions, PageReads, PageWrites, ReferenceCycles,
            SwitchesPreempted, SwitchesThrottled, SwitchesVoluntary,
        };
        [
            CpuTime,
            Cycles,
            ReferenceCycles,
            Instructions,
            CacheMisses,
            PageReads,
            PageWrites,
            SwitchesVoluntary,
            SwitchesPreempted,
            SwitchesThrottled,
        ]
        .into_iter()
        .chain(Cause::ALL.map(Self::Wait))
        .chain(Preemptor::ALL.map(Self::PreemptedBy))
        .chain((0..SOFTIRQ_VECTORS.len() as u8).map(Self::Softirq))
    }

    /// Position in [`Counters`].
    pub const fn index(self) -> usize {
        match self {
            Self::CpuTime => 0,
            Self::Cycles => 1,
            Self::ReferenceCycles => 2,
            Self::Instructions => 3,
            Self::CacheMisses => 4,
            Self::PageReads => 5,
            Self::PageWrites => 6,
            Self::SwitchesVoluntary => 7,
            Self::SwitchesPreempted => 8,
            Self::SwitchesThrottled => 9,
            Self::Wait(cause) => 10 + cause as usize,
            Self::PreemptedBy(preemptor) => 16 + preemptor as usize,
            Self::Softirq(vector) => Self::SOFTIRQS + vector as usize,
        }
    }
}

/// A value for each counter. Which of them mean anything is said once for the whole batch, by
/// [`Measured`]: a counter that is not measured must be shown as absent, never as 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters([u64; Counter::COUNT]);

impl Counters {
    /// Takes values in order of [`Counter::index`].
    pub const fn from_array(values: [u64; Counter::COUNT]) -> Self {
        Self(values)
    }

    /// What was added since `earlier`; 0 where the counter went back, which only a new start of
    /// the source can cause.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.zip(earlier, u64::saturating_sub)
    }

    /// The larger value of each counter: makes a series that only goes up.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        self.zip(other, u64::max)
    }

    /// Average frequency while these counters grew, in hertz: cycles / reference cycles x nominal
    /// frequency; where the machine has no reference cycles or does not tell their frequency,
    /// cycles / CPU time, which is lower when a hypervisor or an interrupt takes part of that time.
    /// `None` when cycles are not measured or nothing ran.
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

    /// True when every counter is 0.
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|&v| v == 0)
    }

    fn zip(&self, other: &Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

impl Index<Counter> for Counters {
    type Output = u64;
    fn index(&self, counter: Counter) -> &u64 {
        &self.0[counter.index()]
    }
}

impl IndexMut<Counter> for Counters {
    fn index_mut(&mut self, counter: Counter) -> &mut u64 {
        &mut self.0[counter.index()]
    }
}

impl AddAssign<&Counters> for Counters {
    fn add_assign(&mut self, other: &Self) {
        *self = *self + other;
    }
}

impl Add<&Counters> for Counters {
    type Output = Self;
    fn add(self, other: &Self) -> Self {
        self.zip(other, u64::wrapping_add)
    }
}

/// The set of counters that this machine can measure with these privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured(u32);

impl Measured {
    /// No counter at all.
    pub const NONE: Self = Self(0);

    /// This set and one more.
    #[must_use]
    pub const fn with(self, counter: Counter) -> Self {
        Self(self.0 | 1 << counter.index())
    }

    /// Whether the counter is measured.
    pub const fn has(self, counter: Counter) -> bool {
        self.0 & (1 << counter.index()) != 0
    }

    /// The counter's value, or `None` when it is not measured.
    pub fn value(self, counters: &Counters, counter: Counter) -> Option<u64> {
        self.has(counter).then(|| counters[counter])
    }
}

impl FromIterator<Counter> for Measured {
    fn from_iter<I: IntoIterator<Item = Counter>>(counters: I) -> Self {
        counters.into_iter().fold(Self::NONE, Self::with)
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

    #[test]
    fn unmeasured_is_none_not_zero() {
        let measured = Measured::from_iter([Counter::CpuTime, Counter::Softirq(9)]);
        let counters = Counters::default();
        assert_eq!(measured.value(&counters, Counter::Softirq(9)), Some(0));
        assert_eq!(measured.value(&counters, Counter::Cycles), None);
    }

    #[test]
    fn since_never_wraps() {
        let mut later = Counters::default();
        later[Counter::CpuTime] = 5;
        let mut earlier = later;
        earlier[Counter::Cycles] = 9;
        let delta = later.since(&earlier);
        assert!(delta.is_zero());
        assert_eq!((delta + &later)[Counter::CpuTime], 5);
    }
}
