//! Which metrics the rows below the node have, and how fine their histograms are.

use std::collections::BTreeSet;

use noctule_model::{DETAILS, METRICS, Metric};

/// The metrics that are exported at the levels below the node. The node has them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    left_out: BTreeSet<&'static str>,
    /// A bucket for each power of two.
    fine: bool,
}

/// No metric of the levels has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMetric(pub String);

impl Default for Choice {
    /// What most questions need: no details, and histograms with a bucket for each second power of two.
    fn default() -> Self {
        Self {
            left_out: DETAILS.iter().copied().collect(),
            fine: false,
        }
    }
}

impl Choice {
    /// Everything.
    pub fn full() -> Self {
        Self {
            left_out: BTreeSet::new(),
            fine: true,
        }
    }

    /// The same, with this metric.
    pub fn with(mut self, name: &str) -> Result<Self, UnknownMetric> {
        self.left_out.remove(known(name)?);
        Ok(self)
    }

    /// The same, without this metric.
    pub fn without(mut self, name: &str) -> Result<Self, UnknownMetric> {
        self.left_out.insert(known(name)?);
        Ok(self)
    }

    /// Whether the level has series of it.
    pub(super) fn has(&self, level: &str, metric: &Metric) -> bool {
        let there = metric.source.levels().contains(&level);
        there && (level == "node" || !self.left_out.contains(metric.name))
    }

    /// The powers of two of nanoseconds at which the buckets of a level end.
    pub(super) fn powers(&self, level: &str, bounds: Bounds) -> impl Iterator<Item = u32> + Clone {
        let Bounds { fine, usual } = bounds;
        match self.fine || level == "node" {
            true => fine.step_by(1),
            false => usual.step_by(2),
        }
    }
}

/// First and last power of two of nanoseconds at which buckets end: every one, or every second one.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    fine: std::ops::RangeInclusive<u32>,
    usual: std::ops::RangeInclusive<u32>,
}

/// Waits for a CPU: 1 us to 17 s, or 16 us to 4 s.
pub(super) const WAITS: Bounds = Bounds {
    fine: 10..=34,
    usual: 14..=32,
};

/// Connects: 16 us, faster than the loopback, to 275 s, longer than a SYN is repeated by default (127 s);
/// or 65 us to 4 s, which is after the second repetition.
pub(super) const CONNECTS: Bounds = Bounds {
    fine: 14..=38,
    usual: 16..=32,
};

/// The table's own copy of a name; `_total` can be there.
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
    fn the_node_has_what_rows_have_only_on_request() {
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
    fn usual_buckets_are_some_of_the_fine_ones() {
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
