//! Why a verdict is what it is.

use std::fmt;

use crate::{BlockClass, ThreadRoom, VerdictKind, Waiting};

/// The numbers behind a verdict that its sentence names. Parts are between 0 and 1, of the time that
/// the group wanted the CPU: its threads ran or waited.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reason {
    /// The verdict.
    pub kind: VerdictKind,
    /// The window has not its full length yet.
    pub provisional: bool,
    /// It waited behind somebody: others, its own threads, the kernel, interrupts or the host.
    pub contended: f64,
    /// It waited behind other groups that cost it something: where a quota binds, those that use it up with this
    /// one.
    pub costly: f64,
    /// It was throttled by a CPU quota.
    pub throttled: f64,
    /// It waited behind its own threads.
    pub own: f64,
    /// It waited behind its own threads, which could have had a CPU each: others had these.
    pub crowded: f64,
    /// Its threads and the CPUs that they may use, where that is known.
    pub room: Option<ThreadRoom>,
    /// It waited behind threads of the kernel.
    pub kernel: f64,
    /// It waited while interrupts had the CPU.
    pub interrupts: f64,
    /// It waited while the host had the CPU.
    pub host: f64,
    /// 99th percentile of its waits, nanoseconds; `None` where none ended.
    pub p99_ns: Option<u64>,
    /// Its threads that ran or waited, on average over the window.
    pub threads: f64,
    /// CPUs that they had, on average over the window.
    pub cpus: f64,
    /// Its threads that wait now, where one of them has waited for so long that it is worth saying.
    pub waiting: Option<Waiting>,
    /// Others that had the CPU, the most to blame first, without those below 1% of the wait.
    pub culprits: Vec<ReasonCulprit>,
    /// It waited behind groups whose names are not known: the table of who waits for whom was full.
    pub nameless: f64,
    /// The quota that throttled it, where that can be read.
    pub quota: Option<QuotaUse>,
    /// The quota was used up: those who have the CPU and do not use it took nothing from the row.
    pub quota_binds: bool,
    /// Its long waits against the usual ones, where they are much longer.
    pub unusual: Option<Unusual>,
    /// What stalled its threads ([`BlockClass::is_stall`]), the longest first, and the parts of their
    /// active time: they ran, waited for a CPU, or were stalled.
    pub stalls: Vec<(BlockClass, f64)>,
    /// The part of the same time in which they waited for a CPU.
    pub runnable: f64,
    /// What the group is allowed, where the files of the kernel were read.
    pub settings: Settings,
}

/// What a group is allowed, and what it could have used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The weights by which it shares with the first culprit.
    pub rivals: Option<Rivals>,
    /// The CPUs that its threads may use, where these are not all.
    pub affinity: Option<Affinity>,
    /// It gives way to the first culprit whatever the weights are.
    pub idle: Option<IdleGroup>,
    /// The pid of the busiest process of the first culprit, where that goes before all ordinary ones.
    pub real_time: Option<(u32, RealTime)>,
    /// Threads of the kernel that ran in the window, the busiest first.
    pub kernel_threads: Vec<String>,
}

/// How much CPU time a group gets beside its siblings, as the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuWeight {
    /// `cpu.weight` of cgroup v2: 100 is usual, 10,000 is the most.
    Weight(u64),
    /// `cpu.shares` of v1: 1024 is usual, 262,144 is the most.
    Shares(u64),
}

impl CpuWeight {
    /// The number.
    pub const fn value(self) -> u64 {
        match self {
            Self::Weight(value) | Self::Shares(value) => value,
        }
    }

    /// What the kernel calls it: `weight` or `shares`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Weight(_) => "weight",
            Self::Shares(_) => "shares",
        }
    }

    /// The value of a group of which nobody has set it.
    pub const fn usual(self) -> u64 {
        match self {
            Self::Weight(_) => 100,
            Self::Shares(_) => 1024,
        }
    }
}

/// Two siblings: a group or one above it, and a culprit or one above that. The scheduler shares between
/// them by weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Rivals {
    /// Path and weight on the side of the group.
    pub own: (String, CpuWeight),
    /// The same on the side of the culprit.
    pub culprit: (String, CpuWeight),
}

/// The group runs only when nobody else wants the CPU: its `cpu.idle` is 1, or that of one above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleGroup {
    /// Path of the group that has the setting, where that is one above.
    pub above: Option<String>,
}

/// By which policy the kernel runs a thread before all ordinary ones, whatever the weights of their groups are.
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
    /// From the numbers of the kernel. `None` for ordinary threads.
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
    /// Their numbers.
    pub cpus: Vec<u32>,
    /// The CPU that was idle for most of the window among those that they may not use, and for which
    /// part of it.
    pub idle: Option<(u32, f64)>,
}

/// One of the culprits.
#[derive(Clone, Debug, PartialEq)]
pub struct ReasonCulprit {
    /// A name for people. Not escaped.
    pub name: String,
    /// Part of the time that the group wanted the CPU for which it waited behind this one.
    pub share: f64,
}

/// What a group used of a CPU quota in a window, by the kernel's own account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuotaUse {
    /// CPUs that it allows.
    pub cpus: f64,
    /// Path of the group that has it, where that is another one, above or inside.
    pub group: Option<String>,
    /// Periods in which that group ran, without those after its last process ended.
    pub periods: u64,
    /// Those of them in which the quota ran out.
    pub throttled_periods: u64,
    /// Part of the time for which the row wanted the CPU that its members below that group did: 1 for its own
    /// quota and one above it.
    pub part: f64,
    /// Part that the groups below used of what the quota allowed them while they wanted the CPU. Above 1 where a
    /// part of a window's first or last period is outside it.
    pub used: f64,
    /// What the row would at most gain if nobody outside the quota had had the CPU, as a part of what it used:
    /// its waits while the quota had not run out, but no more than the quota still allowed.
    pub gain: f64,
}

impl QuotaUse {
    /// Part of the periods, of what the quota allowed, and of what the row wanted, from which on the quota was what
    /// held the row back, whichever others ran.
    const BINDS: f64 = 0.9;
    /// The same of the periods, where the gain without others is small.
    const MOSTLY: f64 = 0.5;
    /// A gain below this part of what the row used is small.
    const SMALL_GAIN: f64 = 0.1;

    /// Whether the quota held back nearly all of the row, with or without others: it ran out in nearly all periods,
    /// or without the others the row would have used hardly more.
    pub fn binds(&self) -> bool {
        let used_up = self.ran_out_in(Self::MOSTLY) || self.used >= Self::BINDS;
        let no_gain = used_up && self.gain < Self::SMALL_GAIN;
        self.part >= Self::BINDS && (self.ran_out() || no_gain)
    }

    /// Whether it ran out in nearly all periods.
    pub fn ran_out(&self) -> bool {
        self.ran_out_in(Self::BINDS)
    }

    fn ran_out_in(&self, part: f64) -> bool {
        self.periods > 0 && self.throttled_periods as f64 >= part * self.periods as f64
    }
}

/// Waits that are long for this group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unusual {
    /// 99th percentile of its waits, nanoseconds.
    pub p99_ns: u64,
    /// How many times the usual one that is.
    pub times: f64,
}
