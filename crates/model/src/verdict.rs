//! The kinds of verdict.

/// What is the matter with a group that waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum VerdictKind {
    /// It hardly waits.
    #[default]
    Quiet,
    /// It waits for other groups, and one of them causes most of it.
    NoisyNeighbour,
    /// It waits for its own quota.
    Throttled,
    /// It waits for its own quota and for the CPU.
    ThrottledAndContended,
    /// It waits for its own threads.
    SelfContended,
    /// It waits for the system: threads of the kernel, units outside containers.
    System,
    /// The host, or interrupts, take the CPU from whoever has it.
    Host,
    /// It waits for the CPU, and no single culprit causes most of it.
    Contended,
}

impl VerdictKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Quiet,
        Self::NoisyNeighbour,
        Self::Throttled,
        Self::ThrottledAndContended,
        Self::SelfContended,
        Self::System,
        Self::Host,
        Self::Contended,
    ];

    /// The name in JSON and in labels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::NoisyNeighbour => "noisy_neighbour",
            Self::Throttled => "throttled",
            Self::ThrottledAndContended => "throttled_and_contended",
            Self::SelfContended => "self_contended",
            Self::System => "system",
            Self::Host => "host",
            Self::Contended => "contended",
        }
    }
}
