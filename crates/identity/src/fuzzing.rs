//! Entry point of `fuzz/`, which is not part of a release.

use std::path::Path;

use noctule_model::{CgroupId, Owner};

use crate::names::{Finder, Query};

/// Returns the owner of a group, based on its path and the files below `root`, without the lookup
/// thread. Returns an error message if a file is unusable. `user` is the user who chose the name of
/// the group.
pub fn owner(root: &Path, path: &str, user: Option<u32>) -> Result<Option<Owner>, String> {
    let owner = crate::classify(CgroupId(1), path);
    let query = Query {
        path: owner.path.clone(),
        container: owner.container.as_ref().map(|it| it.id.clone()),
        machine_unit: None,
        user,
    };
    let mut finder = Finder::new(root, &root.join("sys/fs/cgroup"));
    let names = finder.find(&query, true)?;
    Ok(names.map(|names| names.applied(&owner, None)))
}
