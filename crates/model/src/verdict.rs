//! Kinds of verdicts.

use crate::named::named_values;

named_values! {
    /// What happens to a group that wants to run, as the group experiences it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum VerdictKind {
        /// Nothing significant.
        #[default]
        Quiet: "quiet",
        /// Another container, unit or group has the CPU and causes most of the wait.
        HurtByNeighbour: "hurt_by_neighbour",
        /// Several groups have the CPU and no single group causes most of the wait, or the groups are
        /// unknown.
        HurtByNeighbours: "hurt_by_neighbours",
        /// A CPU quota holds the group back: its own, or the quota of an ancestor or descendant.
        HeldByQuota: "held_by_quota",
        /// A quota holds the group back, and other groups have the CPU while the quota lets it run.
        QuotaAndNeighbours: "quota_and_neighbours",
        /// The group's own threads have the CPU.
        TooManyThreads: "too_many_threads",
        /// Kernel threads have the CPU.
        HurtByKernel: "hurt_by_kernel",
        /// The hypervisor takes the CPU (steal time).
        HurtByHost: "hurt_by_host",
        /// Interrupts took the CPU while the group had it.
        HurtByInterrupts: "hurt_by_interrupts",
        /// The group's threads wait for block I/O or for write-back.
        HeldByDisk: "held_by_disk",
        /// The group's threads wait for a file system, without block I/O of their own.
        HeldByFilesystem: "held_by_filesystem",
        /// A memory limit holds the group back: its own, or the limit of an ancestor or descendant.
        HeldByMemoryLimit: "held_by_memory_limit",
        /// The group's threads wait for memory, and no limit of the group explains the wait.
        HeldByReclaim: "held_by_reclaim",
        /// The group's threads wait for a lock that another group holds.
        HeldByLock: "held_by_lock",
        /// The group's threads are stopped or frozen.
        Stopped: "stopped",
    }
}

impl VerdictKind {
    /// Returns whether a CPU quota holds the group back.
    pub const fn is_held(self) -> bool {
        matches!(self, Self::HeldByQuota | Self::QuotaAndNeighbours)
    }

    /// Returns whether another task has the CPU, including the group's own threads.
    pub const fn is_contended(self) -> bool {
        !matches!(self, Self::Quiet | Self::HeldByQuota) && !self.is_stall()
    }

    /// Returns whether the group's threads are blocked by something other than the CPU.
    pub const fn is_stall(self) -> bool {
        matches!(
            self,
            Self::HeldByDisk
                | Self::HeldByFilesystem
                | Self::HeldByMemoryLimit
                | Self::HeldByReclaim
                | Self::HeldByLock
                | Self::Stopped
        )
    }

    /// Returns whether the group itself is the cause, because of its limit or its threads.
    pub const fn is_own(self) -> bool {
        matches!(
            self,
            Self::HeldByQuota | Self::TooManyThreads | Self::HeldByMemoryLimit | Self::Stopped
        )
    }
}
