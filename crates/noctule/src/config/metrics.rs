//! Settings of `/metrics`.

use std::sync::Arc;

use noctule_model::METRICS;
use noctule_sinks::openmetrics::{Choice, UnknownMetric};
use serde::Deserialize;

use super::Count;
use crate::args::MetricNames;
use crate::exit::Usage;

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Metrics {
    pub(crate) processes: bool,
    pub(crate) detail: Detail,
    pub(crate) with: Vec<String>,
    pub(crate) without: Vec<String>,
    pub(crate) subject_rows: usize,
    pub(crate) process_rows: usize,
    pub(crate) blame_pairs: usize,
    pub(crate) destinations: usize,
    pub(crate) short_seconds: f64,
    pub(crate) grace_seconds: f64,
    pub(crate) names: MetricNames,
}

/// Level of detail for rows below the node.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Detail {
    /// No details, and half of the histogram buckets.
    #[default]
    Usual,
    Full,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            processes: false,
            detail: Detail::Usual,
            with: Vec::new(),
            without: Vec::new(),
            subject_rows: 4000,
            process_rows: 10_000,
            blame_pairs: 1000,
            destinations: 100,
            short_seconds: 30.0,
            grace_seconds: 150.0,
            names: MetricNames::Noctule,
        }
    }
}

impl Metrics {
    /// Returns the metrics of rows below the node.
    pub(crate) fn choice(&self) -> Result<Arc<Choice>, Usage> {
        let mut choice = match self.detail {
            Detail::Usual => Choice::default(),
            Detail::Full => Choice::full(),
        };
        for name in &self.with {
            choice = choice.with(name).map_err(|error| unknown("with", error))?;
        }
        for name in &self.without {
            choice = choice
                .without(name)
                .map_err(|error| unknown("without", error))?;
        }
        Ok(Arc::new(choice))
    }

    pub(super) fn numbers(&self) -> [(&'static str, f64, f64, f64); 2] {
        [
            ("metrics.short_seconds", self.short_seconds, 0.0, 86_400.0),
            ("metrics.grace_seconds", self.grace_seconds, 0.0, 86_400.0),
        ]
    }

    pub(super) fn counts(&self) -> [Count; 4] {
        let most = 1 << 20;
        [
            ("metrics.subject_rows", self.subject_rows as u64, 1, most),
            ("metrics.process_rows", self.process_rows as u64, 1, most),
            ("metrics.blame_pairs", self.blame_pairs as u64, 0, most),
            ("metrics.destinations", self.destinations as u64, 0, most),
        ]
    }
}

fn unknown(key: &str, UnknownMetric(name): UnknownMetric) -> Usage {
    let names = METRICS.iter().map(|metric| metric.name);
    let nearest = names.max_by(|a, b| {
        let likeness = |other| strsim::jaro_winkler(&name, other);
        likeness(a).total_cmp(&likeness(b))
    });
    let nearest = nearest.unwrap_or_default();
    Usage(format!(
        "metrics.{key}: unknown metric {name:?}; did you mean {nearest:?}? Names are those of \
         docs/metrics.md, without prefix and level"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_metric_is_an_error_with_a_suggestion() {
        let metrics = Metrics {
            with: vec!["soft_irqs".into()],
            ..Metrics::default()
        };
        let error = metrics.choice().expect_err("no such metric");
        assert!(
            error.0.contains("did you mean \"softirqs\"?"),
            "{}",
            error.0
        );
        let metrics = Metrics {
            without: vec!["tcp_connect_seconds".into()],
            with: vec!["softirqs_total".into()],
            ..Metrics::default()
        };
        assert!(metrics.choice().is_ok());
    }
}
