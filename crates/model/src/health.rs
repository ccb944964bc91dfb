//! The agent's report of itself: the status of its features, losses, cost.

use crate::FeatureId;

/// Whether something that noctule can do works here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureState {
    /// Works as documented.
    On,
    /// Works with a limit that the reason names.
    Degraded,
    /// Does not work here; its figures are absent.
    Off,
}

impl FeatureState {
    /// The word for it in every output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Degraded => "degraded",
            Self::Off => "off",
        }
    }
}

/// The status of one feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Which one.
    pub id: FeatureId,
    /// Whether it works.
    pub state: FeatureState,
    /// Why it is so, in words for people.
    pub reason: String,
    /// How to change it; empty when there is nothing to do.
    pub mend: String,
}

impl Feature {
    /// It works; `how`: through what.
    pub fn on(id: FeatureId, how: impl Into<String>) -> Self {
        Self::new(id, FeatureState::On, how.into())
    }

    /// It works in part.
    pub fn degraded(id: FeatureId, reason: impl Into<String>) -> Self {
        Self::new(id, FeatureState::Degraded, reason.into())
    }

    /// It does not work.
    pub fn off(id: FeatureId, reason: impl Into<String>) -> Self {
        Self::new(id, FeatureState::Off, reason.into())
    }

    /// The user wants it so, in this section of the configuration.
    pub fn switched_off(id: FeatureId, section: &str) -> Self {
        Self::off(id, "switched off in the configuration").mended_by(format!(
            "switch it on in the section [{section}] of the configuration"
        ))
    }

    /// With how to change it.
    #[must_use]
    pub fn mended_by(self, mend: impl Into<String>) -> Self {
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

/// Something that should have been counted or reported and was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What was lost, e.g. `exit_record`.
    pub kind: &'static str,
    /// Where, e.g. `switch.exits`.
    pub place: &'static str,
    /// How many since the agent started.
    pub count: u64,
}

/// The cost of one BPF program, from the kernel's own statistics, measured in short windows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramCost {
    /// Name of the program.
    pub name: String,
    /// Nanoseconds that it ran inside the windows.
    pub run_ns: u64,
    /// Runs inside the windows.
    pub runs: u64,
    /// Runs that the kernel refused because the program was already running on that CPU.
    pub recursion_misses: u64,
}

/// How full a BPF map is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapFill {
    /// Name of the map.
    pub name: &'static str,
    /// Entries in use.
    pub entries: u64,
    /// Entries that fit.
    pub capacity: u64,
}

/// What has become of what the agent sends to a receiver, since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sending {
    /// What is sent, e.g. `metrics`.
    pub signal: &'static str,
    /// Items (points, records) that the receiver has.
    pub sent: u64,
    /// Items that were not delivered, by reason.
    pub lost: Vec<(&'static str, u64)>,
    /// Items that wait, now.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
    /// How often a request was sent again.
    pub retries: u64,
}

/// What the agent itself costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentCost {
    /// User and system time of the agent's process, in nanoseconds.
    pub cpu_ns: u64,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
    /// How long it took to take this batch, in nanoseconds.
    pub collect_ns: u64,
    /// The kernel side. `None` when BPF statistics may not be switched on (CAP_SYS_ADMIN).
    pub programs: Option<Vec<ProgramCost>>,
    /// Sum of the windows in which the programs were measured, in nanoseconds.
    pub programs_window_ns: u64,
    /// Fill of each map that can be full.
    pub maps: Vec<MapFill>,
    /// Groups that get no rows for more destinations for now, because others found no room. `None` in a recording,
    /// which does not have it.
    pub bounded_groups: Option<u64>,
    /// What is sent to a receiver; empty without one.
    pub sendings: Vec<Sending>,
}
