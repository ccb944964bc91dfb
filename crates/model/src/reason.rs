//! The reason for a verdict.

use std::fmt;

use crate::{AsleepThreads, BlockClass, MemoryUse, ThreadRoom, VerdictKind, Waiting};

/// The figures that the sentence about a verdict contains. Shares are fractions, from 0 to 1, of
/// the group's CPU demand: the time for which its threads ran or waited for a CPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reason {
    pub kind: VerdictKind,
    /// Whether the window is still shorter than its full length.
    pub provisional: bool,
    /// Share spent waiting for other groups, the group's own threads, the kernel, interrupts or the
    /// host.
    pub contended: f64,
    /// Share spent waiting for other groups, if that reduced the CPU time of the group. If a quota
    /// is the limit, only groups with the same quota are included.
    pub costly: f64,
    /// Share spent throttled by a CPU quota.
    pub throttled: f64,
    /// Share spent waiting for threads of the same group.
    pub own: f64,
    /// Share spent waiting for threads of the same group although each could have had a CPU. Other
    /// groups had those CPUs.
    pub crowded: f64,
    /// The group's threads and the CPUs that they may use, if known.
    pub room: Option<ThreadRoom>,
    /// Share spent waiting for kernel threads.
    pub kernel: f64,
    /// Share spent waiting while interrupts had the CPU.
    pub interrupts: f64,
    /// Share spent waiting while the host had the CPU.
    pub host: f64,
    /// 99th percentile of the group's waits, in nanoseconds; `None` if no wait ended.
    pub p99_ns: Option<u64>,
    /// Average number of the group's threads that ran or waited in the window.
    pub threads: f64,
    /// Average number of CPUs that these threads had in the window.
    pub cpus: f64,
    /// The threads that are waiting, if one of them has waited long enough to be mentioned.
    pub waiting: Option<Waiting>,
    /// Other groups that had the CPU, main culprit first. Groups below 1% of the wait are left out.
    pub culprits: Vec<ReasonCulprit>,
    /// Share spent waiting for groups with unknown names, because the table of victims and culprits
    /// was full.
    pub nameless: f64,
    /// The quota that throttled the group, if it can be read.
    pub quota: Option<QuotaUse>,
    /// Whether the quota was used up, so that groups outside it took nothing from this group.
    pub quota_binds: bool,
    /// The group's long waits compared with the usual ones, if they are much longer.
    pub unusual: Option<Unusual>,
    /// Causes other than the CPU and stops that held the group's threads, in descending order. Each
    /// has its share of the active time, in which the threads ran, waited for a CPU or were held.
    pub stalls: Vec<(VerdictKind, f64)>,
    /// How memory held back the group's threads, if known.
    pub memory: Option<MemoryUse>,
    /// Share of the active time in which the threads waited for a CPU.
    pub runnable: f64,
    /// Share of the total time of all threads, asleep or not, in which they were stopped or frozen.
    pub stopped: f64,
    /// The time that the verdict describes, as a fraction of the window. Set if the group was
    /// active for less than half of the window, because in that case the other shares look larger
    /// than they are.
    pub of_window: Option<f64>,
    /// Whether stalls are measured. If not, a quiet verdict is about the CPU alone.
    pub sees_stalls: bool,
    /// The class in which a group without a verdict spent most of the time of all its threads, and
    /// the share of that time, if at least half. [`BlockClass::Poll`] includes
    /// [`BlockClass::Timer`].
    pub mostly: Option<(BlockClass, f64)>,
    /// The last group in the chain of lock holders, if the verdict names one: its name, and the
    /// reason for its own verdict.
    pub holder: Option<(String, Box<Self>)>,
    /// Whether the group is the root group, which has no weight and cannot be moved.
    pub is_root: bool,
    /// Settings of the group, if the kernel's files were read.
    pub settings: Settings,
}

/// The settings of a group, and alternatives that it does not use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The weights that determine how the group shares the CPU with the main culprit.
    pub rivals: Option<Rivals>,
    /// The CPUs that the group's threads may use, if they may not use all.
    pub affinity: Option<Affinity>,
    /// Set if the group yields to the main culprit regardless of weights.
    pub idle: Option<IdleGroup>,
    /// The pid of the main culprit's busiest process, if that process runs before all ordinary
    /// processes.
    pub real_time: Option<(u32, RealTime)>,
    /// Kernel threads that ran in the window, busiest first, if the verdict blames kernel threads.
    pub kernel_threads: Vec<String>,
    /// Commands of the root group that ran in the window, busiest first, if the root group is a
    /// culprit. The name of that group says nothing about the workload.
    pub root_commands: Vec<String>,
    /// The threads that are stopped or frozen, if that is the verdict.
    pub stopped: Option<AsleepThreads>,
}

/// The share of CPU time that a group gets among its siblings, as the kernel stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuWeight {
    /// `cpu.weight` of cgroup v2: the default is 100, the maximum 10,000.
    Weight(u64),
    /// `cpu.shares` of v1: the default is 1024, the maximum 262,144.
    Shares(u64),
}

impl CpuWeight {
    /// Returns the number.
    pub const fn value(self) -> u64 {
        match self {
            Self::Weight(value) | Self::Shares(value) => value,
        }
    }

    /// Returns the kernel's word: `weight` or `shares`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Weight(_) => "weight",
            Self::Shares(_) => "shares",
        }
    }

    /// Returns the kernel's default.
    pub const fn usual(self) -> u64 {
        match self {
            Self::Weight(_) => 100,
            Self::Shares(_) => 1024,
        }
    }
}

/// Two siblings: one is the group or its ancestor, and the other is a culprit or an ancestor of
/// that culprit. The scheduler divides the CPU between the siblings by weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Rivals {
    /// Path and weight on the side of the group.
    pub own: (String, CpuWeight),
    /// Path and weight on the side of the culprit.
    pub culprit: (String, CpuWeight),
}

/// A group that runs only if no other group needs the CPU, because its own `cpu.idle` or an
/// ancestor's is 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleGroup {
    /// Path of the ancestor with the setting, if it is not the group itself.
    pub above: Option<String>,
}

/// The policy by which the kernel runs a thread before all ordinary threads, regardless of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealTime {
    /// `SCHED_FIFO`, with its priority.
    Fifo(u32),
    /// `SCHED_RR`, with its priority.
    RoundRobin(u32),
    /// `SCHED_DEADLINE`.
    Deadline,
}

impl RealTime {
    /// Converts the kernel's numbers for a policy and its priority. Returns `None` for ordinary
    /// threads.
    pub const fn new(policy: u32, priority: u32) -> Option<Self> {
        match policy {
            1 => Some(Self::Fifo(priority)),
            2 => Some(Self::RoundRobin(priority)),
            6 => Some(Self::Deadline),
            _ => None,
        }
    }
}

impl fmt::Display for RealTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo(priority) => write!(f, "FIFO {priority}"),
            Self::RoundRobin(priority) => write!(f, "RR {priority}"),
            Self::Deadline => f.write_str("DEADLINE"),
        }
    }
}

/// The CPUs that threads may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Affinity {
    /// CPU numbers.
    pub cpus: Vec<u32>,
    /// The CPU with the most idle time among those that the threads may not use, and the idle share
    /// of that CPU in the window.
    pub idle: Option<(u32, f64)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ReasonCulprit {
    /// A name for people, which is not escaped.
    pub name: String,
    /// Time that the group waited for this culprit, as a share of the group's CPU demand. In a
    /// verdict about a lock, the share is relative to the group's active time. In a verdict about a
    /// disk, this is the culprit's share of the disk's time.
    pub share: f64,
}

/// Use of a CPU quota in a window, from the kernel's statistics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuotaUse {
    /// CPUs that the quota allows.
    pub cpus: f64,
    /// Path of the group with the quota, if that is an ancestor or descendant instead of the group
    /// itself.
    pub group: Option<String>,
    /// Periods in which the group with the quota ran, excluding periods after its last process
    /// exited.
    pub periods: u64,
    /// Periods in which the quota ran out.
    pub throttled_periods: u64,
    /// Share of the row's CPU demand that belongs to its members below the group with the quota.
    /// The share is 1 if the row itself or an ancestor has the quota.
    pub part: f64,
    /// Share of the allowance that the groups below used while they ran or waited for a CPU. The
    /// share can exceed 1, because the first or last period may lie partly outside the window.
    pub used: f64,
    /// Upper limit of the row's gain, relative to its use, if no group outside the quota had used
    /// the CPU. The gain consists of the waits before the quota ran out, but is at most the unused
    /// allowance.
    pub gain: f64,
}

impl QuotaUse {
    /// Minimum share of the CPU demand that a binding quota affects, and minimum share of periods
    /// in which the quota ran out. See [`Self::binds`].
    const BINDS: f64 = 0.9;
    /// Minimum share of periods if the row would gain little without other groups.
    const MOSTLY: f64 = 0.5;
    /// Gain, relative to the row's use, below which the gain is small.
    const SMALL_GAIN: f64 = 0.1;

    /// Returns whether the quota would have limited the row even without other groups. The quota
    /// must affect nearly all of the row's CPU demand. In addition, the quota ran out in nearly all
    /// periods, or the row would have gained little CPU time without other groups.
    pub fn binds(&self) -> bool {
        let used_up = self.ran_out_in(Self::MOSTLY) || self.used >= Self::BINDS;
        let no_gain = used_up && self.gain < Self::SMALL_GAIN;
        self.part >= Self::BINDS && (self.ran_out() || no_gain)
    }

    /// Returns whether the quota ran out in nearly all periods.
    pub fn ran_out(&self) -> bool {
        self.ran_out_in(Self::BINDS)
    }

    fn ran_out_in(&self, part: f64) -> bool {
        self.periods > 0 && self.throttled_periods as f64 >= part * self.periods as f64
    }
}

/// Waits that are unusually long for this group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unusual {
    /// 99th percentile of the group's waits, in nanoseconds.
    pub p99_ns: u64,
    /// The ratio of this 99th percentile to the group's usual one.
    pub times: f64,
}
