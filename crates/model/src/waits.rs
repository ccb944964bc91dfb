//! Waits for the CPU by victim and culprit, as counted by the kernel side.

use crate::{CgroupId, Cumulative, Histogram};

/// A set of threads that can wait for others or make others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// The threads of a cgroup.
    Cgroup(CgroupId),
    /// Kernel threads outside any cgroup of their own. They are only culprits; as victims they
    /// belong to the root cgroup.
    Kernel,
    /// The command that the agent follows and its descendants, in any cgroup.
    Followed,
    /// All groups that have no row, because there was no room, they were removed long ago, or their
    /// pair was dropped.
    Unnamed,
}

/// Effect of one group on another. Both values never decrease, but restart from 0 if the pair was
/// dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blame {
    /// Time that the victim waited while the culprit had the CPU, in nanoseconds.
    pub wait_ns: u64,
    /// Number of times that the culprit preempted the victim.
    pub preemptions: u64,
}

impl Blame {
    /// Returns the growth since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            wait_ns: self.wait_ns.saturating_sub(earlier.wait_ns),
            preemptions: self.preemptions.saturating_sub(earlier.preemptions),
        }
    }
}

impl Cumulative for Blame {
    fn since(&self, earlier: &Self) -> Self {
        Self::since(self, earlier)
    }
}

impl std::ops::AddAssign<&Blame> for Blame {
    fn add_assign(&mut self, other: &Self) {
        self.wait_ns += other.wait_ns;
        self.preemptions += other.preemptions;
    }
}

/// A cell of the matrix of victims and culprits. The cells exclude waits for kernel threads and for
/// the victim's own cgroup, which are counters ([`crate::Cause`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlameRow {
    /// The group that waited.
    pub victim: Group,
    /// The group that had the CPU; [`Group::Unnamed`] if the table had no room for the pair.
    pub culprit: Group,
    /// Counts since the agent started, or since the pair was dropped. If room is scarce, a pair
    /// that does not grow is dropped, and its counts move to the victim's row of
    /// [`Group::Unnamed`].
    pub blame: Blame,
}

/// Waits in progress at the moment of a batch: threads that are runnable but not running, including
/// throttled ones. Unlike counters, both values can decrease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Number of waiting threads.
    pub threads: u64,
    /// The longest wait so far, in nanoseconds. For a wait that began before the agent started,
    /// only the time since the thread arrived on its CPU is known.
    pub longest_ns: u64,
}

impl Waiting {
    /// Creates the value for one thread that has waited for `ns`; 0 means that it does not wait.
    pub const fn thread(ns: u64) -> Self {
        Self {
            threads: (ns > 0) as u64,
            longest_ns: ns,
        }
    }
}

/// The runnable threads of a group, and the CPUs that they may use (affinity and cpuset).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadRoom {
    /// Number of threads that ran or waited for at least a hundredth of the group's total.
    pub threads: u32,
    /// Number of online CPUs that any of these threads may use.
    pub cpus: u32,
}

impl ThreadRoom {
    /// Returns whether each of the threads could have its own CPU.
    pub const fn is_enough(self) -> bool {
        self.threads <= self.cpus
    }
}

impl std::ops::AddAssign<&Waiting> for Waiting {
    fn add_assign(&mut self, other: &Self) {
        self.threads += other.threads;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }
}

/// Histogram of a group's waits for a CPU ([`crate::Batch::waits`]) or for a connection
/// ([`crate::Batch::connects`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitRow {
    pub group: Group,
    /// Waits since the agent started, in nanoseconds. A wait for a CPU ends each time a thread gets
    /// a CPU, however short the wait was. For connections, only established ones are included.
    pub histogram: Histogram,
}
