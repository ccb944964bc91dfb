//! Kinds of verdicts.

/// What happens to a waiting group, from its own point of view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum VerdictKind {
    /// Nothing that matters.
    #[default]
    Quiet,
    /// Another container, unit or group has the CPU and causes most of the wait.
    HurtByNeighbour,
    /// Several groups have the CPU and none causes most of the wait, or they are unknown.
    HurtByNeighbours,
    /// Its own CPU quota, or one above or inside it, holds it back.
    HeldByQuota,
    /// Its quota holds it back, and others have the CPU while the quota lets it run.
    QuotaAndNeighbours,
    /// Its own threads have the CPU.
    TooManyThreads,
    /// Kernel threads have the CPU.
    HurtByKernel,
    /// The hypervisor takes the CPU (steal time).
    HurtByHost,
    /// Interrupts took the CPU while the group had it.
    HurtByInterrupts,
}

impl VerdictKind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Quiet,
        Self::HurtByNeighbour,
        Self::HurtByNeighbours,
        Self::HeldByQuota,
        Self::QuotaAndNeighbours,
        Self::TooManyThreads,
        Self::HurtByKernel,
        Self::HurtByHost,
        Self::HurtByInterrupts,
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
        }
    }

    /// Returns whether a quota holds the group back.
    pub const fn is_held(self) -> bool {
        matches!(self, Self::HeldByQuota | Self::QuotaAndNeighbours)
    }

    /// Returns whether another task has the CPU, including the group's own threads.
    pub const fn is_contended(self) -> bool {
        !matches!(self, Self::Quiet | Self::HeldByQuota)
    }

    /// Returns whether the group causes it itself, by its limit or its threads.
    pub const fn is_own(self) -> bool {
        matches!(self, Self::HeldByQuota | Self::TooManyThreads)
    }
}
