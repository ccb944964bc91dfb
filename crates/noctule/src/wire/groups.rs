//! Sources of information about cgroups: paths, quotas and CPUs.

use std::path::{Path, PathBuf};

use noctule_collect::{CgroupLife, Memory, MemoryFiles, Mounted, Quotas, Rooms, SettingFiles};
use noctule_identity::Registry;
use noctule_kernel::{CgroupEvents, Facts, Hierarchy};
use noctule_model::{Feature, FeatureId};

use super::chain;

pub(super) fn mount(hierarchy: &Hierarchy) -> PathBuf {
    // A path that does not exist, so that ids have no paths. The feature status contains the
    // reason.
    hierarchy
        .mount
        .clone()
        .unwrap_or_else(|| PathBuf::from("/nonexistent"))
}

/// Returns the CPU quotas of existing groups.
pub(super) fn quotas(facts: &Facts, registry: &Registry) -> Quotas {
    let mut quotas = Quotas::new(mount(&facts.hierarchy));
    quotas.search(registry.owners().map(|owner| owner.path.as_str()));
    quotas
}

/// Returns the reader of groups' memory figures; `None` if no hierarchy with the memory controller
/// is mounted. A group must have the same path in all hierarchies.
pub(super) fn memory(facts: &Facts) -> Option<Memory> {
    let mounted = |controller| Hierarchy::mount_of(&facts.roots.proc, controller).map(Mounted::new);
    Some(Memory::new(MemoryFiles {
        memory: mounted("memory")?,
        io: mounted("blkio"),
        proc: facts.roots.proc.clone(),
        sys: facts.roots.sys.clone(),
    }))
}

/// Returns the source of the CPUs that waiting threads may use.
pub(super) fn rooms(facts: &Facts) -> Rooms {
    Rooms::new(SettingFiles::new(Path::new("/"), &mount(&facts.hierarchy)))
}

pub(super) fn cgroup_life(facts: &Facts, ring_bytes: u32) -> (Option<CgroupLife>, Feature) {
    let id = FeatureId::CgroupEvents;
    match CgroupEvents::load(facts, ring_bytes) {
        Ok(events) => {
            let how = "cgroup tracepoints: even short-lived groups have a path";
            (Some(CgroupLife::new(events)), Feature::on(id, how))
        }
        Err(error) => {
            let reason = format!(
                "{}; groups that live for less than one interval may have no path",
                chain(&error)
            );
            (None, Feature::degraded(id, reason))
        }
    }
}
