//! Energy charged to groups.

use crate::named::named_values;
use crate::{Countable, Counts, ZoneKind};

/// Microjoules by kind of zone, summed over the sockets. The sum excludes zones inside another zone
/// of the same kind. The sum never decreases.
pub type Joules = Counts<ZoneKind, { ZoneKind::ALL.len() }>;

impl Countable for ZoneKind {
    fn position(self) -> usize {
        self as usize
    }
}

named_values! {
    /// The quantity that determines how the active energy of a zone is divided among tasks.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Driver {
        /// CPU cycles.
        Cycles: "cycles",
        /// Time on a CPU, because no better counter exists.
        #[default]
        CpuTime: "cpu_time",
        /// Last-level cache misses.
        CacheMisses: "cache_misses",
        /// The energy charged for the zone's parts. The remaining energy of the zone is `other`.
        Parts: "parts",
        /// Nothing: the users of the zone are unknown, so all its energy is `other`.
        Nothing: "nothing",
    }
}

/// Attribution of one zone's energy, in microjoules since the agent's first batch. No part ever
/// decreases, and `idle + active + interrupts + other + unattributed = total` exactly.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ZoneAccount {
    /// Energy counted by the meter, up to the moment of the batch.
    pub total_uj: u64,
    /// Energy that the zone uses without any load.
    pub idle_uj: u64,
    /// Energy charged to cgroups, including their ended processes and kernel threads.
    pub active_uj: u64,
    /// Energy of interrupts, if the kernel measures their time.
    pub interrupts_uj: u64,
    /// Energy of the zone that belongs to none of its parts, or that tasks on the CPUs did not
    /// cause.
    pub other_uj: u64,
    /// Energy that cannot be charged, because the tasks that ran are unknown.
    pub unattributed_uj: u64,
    /// The quantity that determines how the active energy is divided.
    pub driver: Driver,
    /// Whether the zone belongs to one of several sockets and use per socket is unknown, so that
    /// the energy is divided by the use of all sockets.
    pub sockets_mixed: bool,
    /// Fitted exponent of the relation between power and frequency; `None` while the plain ratio
    /// predicts the meter equally well.
    pub exponent: Option<f64>,
    /// Estimated power without load, in watts. `None` before the first estimate, and for zones
    /// divided by their parts.
    pub idle_watts: Option<f64>,
    /// Uncertainty of the split into idle and active energy, in microjoules: the half-width of the
    /// idle power, multiplied by time.
    pub idle_doubt_uj: f64,
    /// Squared errors of the power model, summed over the ticks, in microjoules squared.
    pub residual_uj2: f64,
    /// Number of ticks in [`Self::residual_uj2`].
    pub ticks: u64,
    /// Time between the meter reading and the batch, converted to energy at the current power, in
    /// microjoules: the maximum over the last ticks.
    pub skew_uj: f64,
    /// Half-width of the relative error of the active energy over the last minutes; `None` if there
    /// was no active energy so far.
    pub error_ratio: Option<f64>,
}

impl ZoneAccount {
    /// Returns the parts of the total: the value of the label `kind`, and microjoules. The parts
    /// add up to the total.
    pub fn parts(&self) -> [(&'static str, u64); 5] {
        [
            ("idle", self.idle_uj),
            ("active", self.active_uj),
            ("interrupts", self.interrupts_uj),
            ("other", self.other_uj),
            ("unattributed", self.unattributed_uj),
        ]
    }

    /// Returns the growth since `earlier`. Fields that are not sums keep their value.
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

    /// Returns the half-width of the relative error of a window's active energy, if `self` is the
    /// growth in that window. The error combines the meter's resolution and read skew at both ends,
    /// the errors of the power model, and the uncertainty of the idle power. Returns `None` if
    /// there is no active energy.
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
