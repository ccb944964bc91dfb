//! Sources of what is known of cgroups: their paths, quotas and CPUs.

use std::path::{Path, PathBuf};

use noctule_collect::{CgroupLife, Quotas, Rooms, SettingFiles};
use noctule_identity::Registry;
use noctule_kernel::{CgroupEvents, Facts, Hierarchy};
use noctule_model::{Feature, FeatureId};

use super::chain;

pub(super) fn mount(hierarchy: &Hierarchy) -> PathBuf {
    // A place where nothing is: ids then stay without paths, and the feature says why.
    hierarchy
        .mount
        .clone()
        .unwrap_or_else(|| PathBuf::from("/nonexistent"))
}

/// CPU quotas of the groups that are there.
pub(super) fn quotas(facts: &Facts, registry: &Registry) -> Quotas {
    let mut quotas = Quotas::new(mount(&facts.hierarchy));
    quotas.look(registry.owners().map(|owner| owner.path.as_str()));
    quotas
}

/// Threads of groups that wait, and their CPUs.
pub(super) fn rooms(facts: &Facts) -> Rooms {
    Rooms::new(SettingFiles::new(Path::new("/"), &mount(&facts.hierarchy)))
}

pub(super) fn cgroup_life(facts: &Facts, ring_bytes: u32) -> (Option<CgroupLife>, Feature) {
    let id = FeatureId::CgroupEvents;
    match CgroupEvents::load(facts, ring_bytes) {
        Ok(events) => {
            let how = "cgroup tracepoints: groups of any lifetime have a path";
            (Some(CgroupLife::new(events)), Feature::on(id, how))
        }
        Err(error) => {
            let reason = format!(
                "{}; groups that live less than a tick may have no path",
                chain(&error)
            );
            (None, Feature::degraded(id, reason))
        }
    }
}
