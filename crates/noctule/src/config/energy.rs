//! The sections about the host's files and about energy.

use std::path::PathBuf;

use noctule_analysis::IdleEnergy;
use noctule_collect::CpuWatts;
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Host {
    pub(crate) sys: PathBuf,
}

impl Default for Host {
    fn default() -> Self {
        Self { sys: "/sys".into() }
    }
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EnergyConfig {
    pub(crate) idle: Idle,
    pub(crate) model: Model,
}

/// What the CPUs of a machine without a meter use.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Model {
    pub(crate) idle_watts: f64,
    pub(crate) busy_watts: f64,
}

impl Model {
    /// `None`: the operator gave none.
    pub(crate) fn watts(&self) -> Option<CpuWatts> {
        let given = self.idle_watts > 0.0 || self.busy_watts > 0.0;
        given.then_some(CpuWatts {
            idle: self.idle_watts,
            busy: self.busy_watts,
        })
    }

    /// With the least and the most that each may be.
    pub(super) fn numbers(&self) -> [(&'static str, f64, f64, f64); 2] {
        [
            ("energy.model.idle_watts", self.idle_watts, 0.0, 1000.0),
            ("energy.model.busy_watts", self.busy_watts, 0.0, 1000.0),
        ]
    }
}

/// Who gets the energy that is taken when nothing runs.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Idle {
    #[default]
    Node,
    Proportional,
}

impl From<Idle> for IdleEnergy {
    fn from(idle: Idle) -> Self {
        match idle {
            Idle::Node => Self::Node,
            Idle::Proportional => Self::Proportional,
        }
    }
}
