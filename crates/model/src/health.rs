//! The agent's own health: feature status, losses, cost.

use crate::FeatureId;
use crate::named::named_values;

named_values! {
    /// Whether a feature works.
    ///
    /// The name is the word used in every output.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FeatureState {
        /// Works as documented.
        On: "on",
        /// Works with the limitation that the reason describes.
        Degraded: "degraded",
        /// Does not work; its figures are absent.
        Off: "off",
    }
}

/// The status of a feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    pub id: FeatureId,
    /// Whether the feature works.
    pub state: FeatureState,
    /// The reason, for people.
    pub reason: String,
    /// How to fix the feature; empty if no action helps.
    pub mend: String,
}

/// The reason of a feature that works, but was not enabled.
pub const NOT_ASKED_FOR: &str = "not enabled";

impl Feature {
    /// Returns whether a change on this machine can enable the feature. Advice for other machines
    /// begins with `on a ...`. A feature that the configuration disables needs no advice.
    pub fn is_fixable_here(&self) -> bool {
        let elsewhere = self.mend.is_empty() || self.mend.starts_with("on a ");
        self.state != FeatureState::On && !elsewhere && self.reason != NOT_ASKED_FOR
    }

    /// Creates the status of a working feature. `how` describes the mechanism.
    pub fn on(id: FeatureId, how: impl Into<String>) -> Self {
        Self::new(id, FeatureState::On, how.into())
    }

    /// Creates the status of a degraded feature.
    pub fn degraded(id: FeatureId, reason: impl Into<String>) -> Self {
        Self::new(id, FeatureState::Degraded, reason.into())
    }

    /// Creates the status of a feature that does not work.
    pub fn off(id: FeatureId, reason: impl Into<String>) -> Self {
        Self::new(id, FeatureState::Off, reason.into())
    }

    /// Creates the status of a feature that the configuration disables in `section`.
    pub fn switched_off(id: FeatureId, section: &str) -> Self {
        Self::off(id, "switched off in the configuration").with_fix(format!(
            "switch it on in the section [{section}] of the configuration"
        ))
    }

    /// Adds instructions to fix the feature.
    #[must_use]
    pub fn with_fix(self, mend: impl Into<String>) -> Self {
        Self {
            mend: mend.into(),
            ..self
        }
    }

    fn new(id: FeatureId, state: FeatureState, reason: String) -> Self {
        let mend = String::new();
        Self {
            id,
            state,
            reason,
            mend,
        }
    }
}

/// Items that should have been counted or reported but were not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The kind of loss, e.g. `exit_record`.
    pub kind: &'static str,
    /// Where the loss happened, e.g. `switch.exits`.
    pub place: &'static str,
    /// Number of losses since the agent started.
    pub count: u64,
}

/// Cost of a BPF program, from the kernel's statistics, measured in short windows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramCost {
    pub name: String,
    /// Run time within the windows, in nanoseconds.
    pub run_ns: u64,
    /// Number of runs within the windows.
    pub runs: u64,
    /// Runs that the kernel skipped because the program was already running on that CPU.
    pub recursion_misses: u64,
}

/// Fill level of a BPF map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapFill {
    pub name: &'static str,
    /// Entries in use.
    pub entries: u64,
    /// Maximum number of entries.
    pub capacity: u64,
}

/// Delivery of data to a receiver, counted since the agent started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sending {
    /// The kind of data, e.g. `metrics`.
    pub signal: &'static str,
    /// Items (points, records) that the receiver accepted.
    pub sent: u64,
    /// Items that were not delivered, by reason.
    pub lost: Vec<(&'static str, u64)>,
    /// Items waiting now.
    pub waiting: u64,
    /// Bytes of the waiting items.
    pub waiting_bytes: u64,
    /// Number of retries.
    pub retries: u64,
}

/// Cost of the agent itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentCost {
    /// User and system time of the agent's process, in nanoseconds.
    pub cpu_ns: u64,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
    /// Time needed to take this batch, in nanoseconds.
    pub collect_ns: u64,
    /// Cost of the BPF programs; `None` without the right to enable BPF statistics (CAP_SYS_ADMIN).
    pub programs: Option<Vec<ProgramCost>>,
    /// Sum of the windows in which the programs were measured, in nanoseconds.
    pub programs_window_ns: u64,
    /// Fill level of each map with a fixed capacity.
    pub maps: Vec<MapFill>,
    /// Number of groups that currently get no more rows for destinations, because there was no room
    /// for other groups. `None` in a recording, which lacks the value.
    pub bounded_groups: Option<u64>,
    /// Delivery to the receiver; empty without one.
    pub sendings: Vec<Sending>,
}
