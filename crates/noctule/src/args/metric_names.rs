//! Naming schemes of metrics, an option and a setting.

use clap::ValueEnum;
use noctule_model::ForeignExporter;
use serde::Deserialize;

/// Naming schemes of metrics.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MetricNames {
    /// Names of noctule only
    #[default]
    Noctule,
    /// Also Kepler's names (docs/kepler.md)
    Kepler,
    /// Also cAdvisor's names (docs/cadvisor.md)
    Cadvisor,
    /// Also Coroot's names (docs/coroot.md)
    Coroot,
}

impl MetricNames {
    /// Returns the exporter whose names are added. Kepler is handled separately.
    pub(crate) fn foreign(self) -> Option<ForeignExporter> {
        match self {
            Self::Noctule | Self::Kepler => None,
            Self::Cadvisor => Some(ForeignExporter::Cadvisor),
            Self::Coroot => Some(ForeignExporter::Coroot),
        }
    }
}
