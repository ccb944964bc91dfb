//! The section about energy.

use noctule_analysis::IdleEnergy;
use serde::Deserialize;

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EnergyConfig {
    pub(crate) idle: Idle,
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
