//! Energy that is charged to somebody.

use crate::{Countable, Counts, ZoneKind};

/// Microjoules by the kind of zone, added up over the sockets. Only zones that no zone of the same kind
/// contains are in it. It only goes up.
pub type Joules = Counts<ZoneKind, { ZoneKind::ALL.len() }>;

impl ZoneKind {
    /// Every kind, in the order of [`Joules`].
    pub const ALL: [Self; 8] = [
        Self::Package,
        Self::Core,
        Self::Uncore,
        Self::Dram,
        Self::Psys,
        Self::Platform,
        Self::Gpu,
        Self::Other,
    ];
}

impl Countable for ZoneKind {
    fn position(self) -> usize {
        self as usize
    }
}

/// What divides the active energy of a zone among those who ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Driver {
    /// CPU cycles.
    Cycles,
    /// Time on a CPU: there is no counter for what is better.
    #[default]
    CpuTime,
    /// Last-level cache misses.
    CacheMisses,
    /// What its parts were charged; the rest of the zone is `other`.
    Parts,
    /// Nothing: it is not known who uses such a zone, and all of it is `other`.
    Nothing,
}

impl Driver {
    /// The word for it in every output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::CpuTime => "cpu_time",
            Self::CacheMisses => "cache_misses",
            Self::Parts => "parts",
            Self::Nothing => "nothing",
        }
    }
}

/// Where the energy of one zone went, in microjoules since the agent's first batch. It only goes up, and
/// `idle + active + interrupts + other + unattributed = total` exactly.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ZoneAccount {
    /// What the meter counted, up to the moment of the batch.
    pub total_uj: u64,
    /// What the zone takes when nothing runs.
    pub idle_uj: u64,
    /// What was charged to cgroups; to processes, those that ended, and threads of the kernel.
    pub active_uj: u64,
    /// What interrupts took, where the kernel measures their time.
    pub interrupts_uj: u64,
    /// What is in none of the zone's parts, or what nobody on the CPUs causes.
    pub other_uj: u64,
    /// What nobody can be charged with: who ran is not known.
    pub unattributed_uj: u64,
    /// What divides the active part.
    pub driver: Driver,
    /// The zone belongs to one of several sockets, and who ran on which is not known: time on all of
    /// them counts.
    pub sockets_mixed: bool,
    /// Power follows the frequency to this exponent, as fitted; `None` while the plain ratio predicts
    /// the meter as well.
    pub exponent: Option<f64>,
    /// Estimate of the power without any load, in watts; `None` where there is none yet, and of zones
    /// that are divided by their parts.
    pub idle_watts: Option<f64>,
    /// Uncertainty of what is idle and what active, in microjoules: the half-width of the idle power
    /// times time.
    pub idle_doubt_uj: f64,
    /// What the model of power missed, squared and added up over the ticks, in microjoules squared.
    pub residual_uj2: f64,
    /// Ticks that count in [`Self::residual_uj2`].
    pub ticks: u64,
    /// How far the meter was read from the moment of the batch, as energy at that power, in
    /// microjoules; the largest of the last ticks.
    pub skew_uj: f64,
    /// Half-width of the relative error of what is active, over the last minutes; `None` before
    /// anything was active.
    pub error_ratio: Option<f64>,
}

impl ZoneAccount {
    /// Where the energy went: the value of the label `kind`, and microjoules. The sum is the total.
    pub fn parts(&self) -> [(&'static str, u64); 5] {
        [
            ("idle", self.idle_uj),
            ("active", self.active_uj),
            ("interrupts", self.interrupts_uj),
            ("other", self.other_uj),
            ("unattributed", self.unattributed_uj),
        ]
    }

    /// What was added since `earlier`; what is a state stays.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            total_uj: self.total_uj.saturating_sub(earlier.total_uj),
            idle_uj: self.idle_uj.saturating_sub(earlier.idle_uj),
            active_uj: self.active_uj.saturating_sub(earlier.active_uj),
            interrupts_uj: self.interrupts_uj.saturating_sub(earlier.interrupts_uj),
            other_uj: self.other_uj.saturating_sub(earlier.other_uj),
            unattributed_uj: self.unattributed_uj.saturating_sub(earlier.unattributed_uj),
            idle_doubt_uj: (self.idle_doubt_uj - earlier.idle_doubt_uj).max(0.0),
            residual_uj2: (self.residual_uj2 - earlier.residual_uj2).max(0.0),
            ticks: self.ticks.saturating_sub(earlier.ticks),
            ..self.clone()
        }
    }

    /// Half-width of the relative error of the active energy of a window, whose growth this is:
    /// the step of the meter and the skew of its reads at both ends, what the model of power missed,
    /// and what may be idle or not. `None` where nothing is active.
    pub fn relative_error(&self, resolution_uj: u64) -> Option<f64> {
        let active = (self.active_uj + self.interrupts_uj + self.unattributed_uj) as f64;
        if active <= 0.0 {
            return None;
        }
        let ends = 2.0 * (resolution_uj as f64 + self.skew_uj);
        let sum = ends * ends + 4.0 * self.residual_uj2 + self.idle_doubt_uj * self.idle_doubt_uj;
        Some(sum.sqrt() / active)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_position() {
        for (place, kind) in ZoneKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.position(), place, "{kind:?}");
        }
    }

    #[test]
    fn the_error_of_a_long_window_is_smaller() {
        let account = |seconds: f64| ZoneAccount {
            active_uj: (seconds * 1e6) as u64,
            residual_uj2: seconds * 1e8,
            skew_uj: 1000.0,
            ..ZoneAccount::default()
        };
        let error = |seconds| account(seconds).relative_error(61).expect("an error");
        assert!(error(100.0) < error(10.0));
        assert_eq!(ZoneAccount::default().relative_error(1), None);
    }
}
