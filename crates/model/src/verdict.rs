//! Kinds of verdicts.

/// What happens to a group that wants to run, as the group experiences it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum VerdictKind {
    /// Nothing significant.
    #[default]
    Quiet,
    /// Another container, unit or group has the CPU and causes most of the wait.
    HurtByNeighbour,
    /// Several groups have the CPU and no single group causes most of the wait, or the groups are
    /// unknown.
    HurtByNeighbours,
    /// A CPU quota holds the group back: its own, or the quota of an ancestor or descendant.
    HeldByQuota,
    /// A quota holds the group back, and other groups have the CPU while the quota lets it run.
    QuotaAndNeighbours,
    /// The group's own threads have the CPU.
    TooManyThreads,
    /// Kernel threads have the CPU.
    HurtByKernel,
    /// The hypervisor takes the CPU (steal time).
    HurtByHost,
    /// Interrupts took the CPU while the group had it.
    HurtByInterrupts,
    /// The group's threads wait for block I/O or for write-back.
    HeldByDisk,
    /// The group's threads wait for a file system, without block I/O of their own.
    HeldByFilesystem,
    /// A memory limit holds the group back: its own, or the limit of an ancestor or descendant.
    HeldByMemoryLimit,
    /// The group's threads wait for memory, and no limit of the group explains the wait.
    HeldByReclaim,
    /// The group's threads wait for a lock that another group holds.
    HeldByLock,
    /// The group's threads are stopped or frozen.
    Stopped,
}

impl VerdictKind {
    pub const ALL: [Self; 15] = [
        Self::Quiet,
        Self::HurtByNeighbour,
        Self::HurtByNeighbours,
        Self::HeldByQuota,
        Self::QuotaAndNeighbours,
        Self::TooManyThreads,
        Self::HurtByKernel,
        Self::HurtByHost,
        Self::HurtByInterrupts,
        Self::HeldByDisk,
        Self::HeldByFilesystem,
        Self::HeldByMemoryLimit,
        Self::HeldByReclaim,
        Self::HeldByLock,
        Self::Stopped,
    ];

    /// Returns the name in JSON and in labels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::HurtByNeighbour => "hurt_by_neighbour",
            Self::HurtByNeighbours => "hurt_by_neighbours",
            Self::HeldByQuota => "held_by_quota",
            Self::QuotaAndNeighbours => "quota_and_neighbours",
            Self::TooManyThreads => "too_many_threads",
            Self::HurtByKernel => "hurt_by_kernel",
            Self::HurtByHost => "hurt_by_host",
            Self::HurtByInterrupts => "hurt_by_interrupts",
            Self::HeldByDisk => "held_by_disk",
            Self::HeldByFilesystem => "held_by_filesystem",
            Self::HeldByMemoryLimit => "held_by_memory_limit",
            Self::HeldByReclaim => "held_by_reclaim",
            Self::HeldByLock => "held_by_lock",
            Self::Stopped => "stopped",
        }
    }

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
