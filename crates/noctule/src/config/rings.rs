//! Default sizes of ring buffers.

/// Size of a ring buffer, depending on the number of CPUs. A ring holds the records of all CPUs
/// until its reader runs, so more CPUs need a larger ring. The memory of a ring is always allocated
/// and charged to the agent's unit or pod, so the size is limited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingSize {
    of_a_cpu: u32,
    least: u32,
    most: u32,
}

impl RingSize {
    /// Size of the ring of exited processes. The ring of cgroup events has a quarter of this size.
    pub(crate) const ENDED: Self = Self::kibibytes(512, 1 << 10, 4 << 10);
    /// Size of the ring of process, OOM and TCP events.
    pub(crate) const EVENTS: Self = Self::kibibytes(1 << 10, 2 << 10, 8 << 10);
    /// Size of the ring of file events, and of the ring of DNS and UDP events.
    pub(crate) const BULK: Self = Self::kibibytes(4 << 10, 8 << 10, 16 << 10);

    /// Minimum configurable size.
    pub(crate) const LEAST: u64 = 4096;

    /// Returns the configured size for a comparison with [`Self::LEAST`]; 0 means the default and
    /// always passes.
    pub(crate) fn asked(configured: u32) -> u64 {
        match configured {
            0 => Self::LEAST,
            configured => configured.into(),
        }
    }

    const fn kibibytes(of_a_cpu: u32, least: u32, most: u32) -> Self {
        Self {
            of_a_cpu: of_a_cpu << 10,
            least: least << 10,
            most: most << 10,
        }
    }

    /// Returns the size in bytes for this number of CPUs, or the configured size unless that is 0.
    pub(crate) fn bytes(self, configured: u32, cpus: usize) -> u32 {
        let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
        match configured {
            0 => self
                .of_a_cpu
                .saturating_mul(cpus)
                .clamp(self.least, self.most),
            configured => configured,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_size_follows_cpus_unless_configured() {
        let sizes = [0, 1, 2, 4, 64, usize::MAX].map(|cpus| RingSize::EVENTS.bytes(0, cpus) >> 20);
        assert_eq!(sizes, [2, 2, 2, 4, 8, 8]);
        assert_eq!(RingSize::ENDED.bytes(4096, 64), 4096);
    }
}
