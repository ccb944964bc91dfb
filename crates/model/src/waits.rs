//! Who waited for the CPU and who had it, as the kernel side counts it.

use crate::{CgroupId, Cumulative, Histogram};

/// Whose threads waited, or ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// The threads of a cgroup.
    Cgroup(CgroupId),
    /// Threads of the kernel that are in no cgroup of their own. They appear as culprits only: as
    /// victims they are in the root group.
    Kernel,
    /// The command that the agent follows, with its descendants, whichever cgroups they are in.
    Followed,
    /// Groups for which there was no room, that are gone for long, or of which a pair was forgotten, together.
    Unnamed,
}

/// What one group did to another. Both only go up, but those of a pair that was forgotten begin again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blame {
    /// How long the victim waited while the culprit had the CPU, in nanoseconds.
    pub wait_ns: u64,
    /// How often the culprit took the CPU from the victim.
    pub preemptions: u64,
}

impl Blame {
    /// What was added since `earlier`.
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

/// One cell of the matrix of victims and culprits. Waits behind threads of the kernel and of the
/// victim's own cgroup are not in it: they are counters ([`crate::Cause`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlameRow {
    /// Who waited.
    pub victim: Group,
    /// Who had the CPU; [`Group::Unnamed`] when the table had no room for it.
    pub culprit: Group,
    /// Since the agent started, or since the pair was forgotten: where there is hardly room for others, one
    /// that does not grow is, and what it had goes to the victim's row of [`Group::Unnamed`].
    pub blame: Blame,
}

/// The waits that go on at the moment of a batch: threads that are runnable and do not run. Those that
/// are throttled are among them. Goes up and down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How many threads wait.
    pub threads: u64,
    /// How long the one has waited that has waited longest, nanoseconds. Of a wait that began before the
    /// agent it is known since the thread came to its CPU.
    pub longest_ns: u64,
}

impl Waiting {
    /// One thread, which has waited for so long; 0: it does not wait.
    pub const fn thread(ns: u64) -> Self {
        Self {
            threads: (ns > 0) as u64,
            longest_ns: ns,
        }
    }
}

/// The threads of a group that want the CPU, and the CPUs that they may use (affinity and cpuset).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadRoom {
    /// Threads that ran or waited for a hundredth of what all did, or longer.
    pub threads: u32,
    /// CPUs that are online and that any of these threads may use.
    pub cpus: u32,
}

impl ThreadRoom {
    /// Whether each of the threads could have a CPU of its own.
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

/// How long the waits of a group were: for a CPU ([`crate::Batch::waits`]), or for the other end of
/// a connection ([`crate::Batch::connects`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitRow {
    /// Who waited.
    pub group: Group,
    /// One value in nanoseconds for each wait, since the agent started. For a CPU: every time that a
    /// thread gets one is the end of a wait, however short. For a connection: each that was
    /// established.
    pub histogram: Histogram,
}
