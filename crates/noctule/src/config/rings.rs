//! Sizes of the kernel side's rings where the configuration names none.

/// A ring holds what the CPUs write until its reader has had its turn, so machines with more of them
/// have larger ones. Its memory is there whether or not anything is in it, and counts against the limit
/// of the agent's unit or pod: so none grows without end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingSize {
    of_a_cpu: u32,
    least: u32,
    most: u32,
}

impl RingSize {
    /// Ended processes. That of cgroups has a quarter.
    pub(crate) const ENDED: Self = Self::kibibytes(512, 1 << 10, 4 << 10);
    /// Processes, OOM kills and TCP.
    pub(crate) const EVENTS: Self = Self::kibibytes(1 << 10, 2 << 10, 8 << 10);
    /// Files, DNS and UDP: each has one of its own.
    pub(crate) const BULK: Self = Self::kibibytes(4 << 10, 8 << 10, 16 << 10);

    /// The least that can be configured.
    pub(crate) const LEAST: u64 = 4096;

    /// What was configured, to be compared with [`Self::LEAST`]: 0 asks for no size.
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

    /// Bytes on a machine of so many CPUs; what was configured wins over that, unless it is 0.
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
    fn rings_grow_with_the_cpus_and_what_is_configured_wins() {
        let sizes = [0, 1, 2, 4, 64, usize::MAX].map(|cpus| RingSize::EVENTS.bytes(0, cpus) >> 20);
        assert_eq!(sizes, [2, 2, 2, 4, 8, 8]);
        assert_eq!(RingSize::ENDED.bytes(4096, 64), 4096);
    }
}
