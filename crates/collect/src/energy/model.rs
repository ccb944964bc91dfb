//! Computes the energy of a machine without a meter, from the operator's configuration.

use noctule_model::{FeatureState, Node, ZoneReading};

/// Power of one CPU of this machine, in watts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuWatts {
    pub idle: f64,
    pub busy: f64,
}

/// Computes the energy of the CPUs from their idle and busy time.
pub(super) struct Model {
    watts: CpuWatts,
    reading: ZoneReading,
}

impl Model {
    pub(super) fn new(watts: CpuWatts) -> Self {
        Self {
            watts,
            reading: ZoneReading::of(0),
        }
    }

    /// Returns the reading for a batch. The energy in it never decreases.
    pub(super) fn read(&mut self, node: &Node, taken_ns: u64) -> ZoneReading {
        if self.reading.state == FeatureState::On {
            let busy_ns = node.elapsed_ns.saturating_sub(node.idle_ns);
            let used = microjoules(self.watts.busy, busy_ns);
            self.reading.energy_uj = used + microjoules(self.watts.idle, node.idle_ns);
            (self.reading.before_ns, self.reading.after_ns) = (taken_ns, taken_ns);
        }
        self.reading.clone()
    }

    /// Stops the model because a meter was found. Measured zones are never combined with computed
    /// ones.
    pub(super) fn stop(&mut self) {
        if self.reading.state == FeatureState::On {
            self.reading.state = FeatureState::Degraded;
            self.reading.gaps += 1;
            self.reading.reason = Some("a meter was found: the model is no longer used".into());
        }
    }
}

fn microjoules(watts: f64, ns: u64) -> u64 {
    let microwatts = (watts * 1e6) as u128;
    (microwatts * u128::from(ns) / 1_000_000_000) as u64
}
