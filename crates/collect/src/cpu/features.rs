//! Tracks the status of features, which may change while the agent runs.

use std::path::PathBuf;
use std::sync::Arc;

use noctule_model::{Feature, FeatureId, FeatureState};

const WAITS: FeatureId = FeatureId::CpuWaits;

pub(super) struct Features {
    /// Status of each feature at the start.
    first: Vec<Feature>,
    now: Arc<[Feature]>,
    /// Mount point of sysfs.
    sys: PathBuf,
    /// Name of the sched_ext scheduler that is enabled, if any.
    scheduler: Option<String>,
}

impl Features {
    pub(super) fn new(first: Vec<Feature>, sys: PathBuf) -> Self {
        Self {
            sys,
            now: first.as_slice().into(),
            first,
            scheduler: None,
        }
    }

    pub(super) fn all(&self) -> Arc<[Feature]> {
        Arc::clone(&self.now)
    }

    /// Sets the status of a feature as if it had applied from the start.
    pub(super) fn set(&mut self, feature: &Feature) {
        let change = |known: &Feature| match known.id == feature.id {
            true => feature.clone(),
            false => known.clone(),
        };
        self.first = self.first.iter().map(change).collect();
        self.now = self.now.iter().map(change).collect();
    }

    /// Replaces the additional limit of a feature. An empty limit restores the initial status of
    /// the feature. A feature that is off stays off.
    pub(super) fn limit(&mut self, id: FeatureId, limit: &str) {
        let changed = self.now.iter().zip(&self.first).map(|(now, first)| {
            if first.id != id || first.state == FeatureState::Off {
                return now.clone();
            }
            if limit.is_empty() {
                return first.clone();
            }
            let reason = format!("{}; {limit}", first.reason);
            Feature::degraded(first.id, reason).with_fix(first.mend.clone())
        });
        self.now = changed.collect();
    }

    /// Checks for a sched_ext scheduler. With one, a waiting thread is not necessarily in the queue
    /// of a CPU.
    pub(super) fn follow_scheduler(&mut self) {
        self.set_scheduler(noctule_kernel::ext_scheduler(&self.sys));
    }

    fn set_scheduler(&mut self, scheduler: Option<String>) {
        if scheduler == self.scheduler {
            return;
        }
        let limit = scheduler.as_ref().map(|name| {
            format!(
                "the sched_ext scheduler {name} is enabled: a wait in a queue that several CPUs \
                share is blamed on the group that ran on the CPU where the thread was queued"
            )
        });
        self.limit(WAITS, &limit.unwrap_or_default());
        self.scheduler = scheduler;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sched_ext_limit_is_set_and_removed() {
        let off = Feature::off(FeatureId::Cycles, "no PMU");
        let on = Feature::on(WAITS, "sched_switch");
        let mut features = Features::new(vec![off.clone(), on.clone()], "/sys".into());
        features.set_scheduler(Some("rusty".to_owned()));
        let limited = &features.all()[1];
        assert_eq!(limited.state, FeatureState::Degraded);
        assert!(
            limited
                .reason
                .starts_with("sched_switch; the sched_ext scheduler rusty")
        );
        features.limit(FeatureId::Cycles, "something");
        assert_eq!(features.all()[0], off);
        features.set_scheduler(None);
        assert_eq!(features.all()[..], [off, on]);
    }
}
