//! Selects the metrics below the node level, and the resolution of their histograms.

use std::collections::BTreeSet;

use noctule_model::{DETAILS, METRICS, Metric};

/// The metrics to export at the levels below the node. The node always has all metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    left_out: BTreeSet<&'static str>,
    /// Whether histograms have one bucket per power of two.
    fine: bool,
}

/// An error: no metric below the node level has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMetric(pub String);

impl Default for Choice {
    /// Leaves out the detailed metrics, and gives histograms one bucket for every second power of
    /// two.
    fn default() -> Self {
        Self {
            left_out: DETAILS.iter().copied().collect(),
            fine: false,
        }
    }
}

impl Choice {
    /// Exports all metrics, with one bucket per power of two.
    pub fn full() -> Self {
        Self {
            left_out: BTreeSet::new(),
            fine: true,
        }
    }

    /// Returns the choice with this metric added.
    pub fn with(mut self, name: &str) -> Result<Self, UnknownMetric> {
        self.left_out.remove(known(name)?);
        Ok(self)
    }

    /// Returns the choice with this metric removed.
    pub fn without(mut self, name: &str) -> Result<Self, UnknownMetric> {
        self.left_out.insert(known(name)?);
        Ok(self)
    }

    /// Returns whether the level has series of the metric.
    pub(super) fn has(&self, level: &str, metric: &Metric) -> bool {
        let there = metric.source.levels().contains(&level);
        there && (level == "node" || !self.left_out.contains(metric.name))
    }

    /// Returns the exponents of the bucket bounds of a level, as powers of two of nanoseconds.
    pub(super) fn powers(&self, level: &str, bounds: Bounds) -> impl Iterator<Item = u32> + Clone {
        let Bounds { fine, usual } = bounds;
        match self.fine || level == "node" {
            true => fine.step_by(1),
            false => usual.step_by(2),
        }
    }
}

/// The exponents of bucket bounds, as powers of two of nanoseconds. Fine histograms have a bound at
/// each power in the range; all other histograms have one at every second power.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    fine: std::ops::RangeInclusive<u32>,
    usual: std::ops::RangeInclusive<u32>,
}

/// Run-queue latency: 1 µs to 17 s, or 16 µs to 4 s.
pub(super) const WAITS: Bounds = Bounds {
    fine: 10..=34,
    usual: 14..=32,
};

/// Connect times. The fine range starts at 16 µs, which is less than a connect over loopback takes.
/// It ends at 275 s, after the last SYN retry (127 s by default). The usual range is 65 µs to 4 s
/// and thus ends after the second retry.
pub(super) const CONNECTS: Bounds = Bounds {
    fine: 14..=38,
    usual: 16..=32,
};

/// Returns the metric's name from the table. `name` may end in `_total`.
fn known(name: &str) -> Result<&'static str, UnknownMetric> {
    let bare = name.strip_suffix("_total").unwrap_or(name);
    let found = METRICS.iter().find(|metric| metric.name == bare);
    found
        .map(|metric| metric.name)
        .ok_or_else(|| UnknownMetric(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(name: &str) -> &'static Metric {
        METRICS.iter().find(|it| it.name == name).expect("a metric")
    }

    #[test]
    fn optional_row_metrics_are_default_for_the_node() {
        let usual = Choice::default();
        let softirqs = metric("softirqs");
        assert!(usual.has("node", softirqs) && !usual.has("container", softirqs));
        let asked = usual.clone().with("softirqs_total").expect("a metric");
        assert!(asked.has("container", softirqs));
        let blame = metric("sched_blame_seconds");
        assert!(!asked.has("node", blame), "it has no such level");
        let without = asked.without("sched_blame_seconds").expect("a metric");
        assert!(!without.has("unit", blame));
        assert_eq!(usual.with("softirq"), Err(UnknownMetric("softirq".into())));
    }

    #[test]
    fn default_buckets_are_a_subset_of_the_fine_ones() {
        for bounds in [WAITS, CONNECTS] {
            let fine: Vec<u32> = Choice::full().powers("unit", bounds.clone()).collect();
            let usual: Vec<u32> = Choice::default().powers("unit", bounds.clone()).collect();
            assert!(usual.iter().all(|power| fine.contains(power)));
            assert!(usual.len() <= 10 && fine.len() == 25);
            let node: Vec<u32> = Choice::default().powers("node", bounds).collect();
            assert_eq!(node, fine);
        }
    }
}
