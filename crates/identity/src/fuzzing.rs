//! The way in of `fuzz/`: no part of what is shipped.

use std::path::Path;

use noctule_model::{CgroupId, Owner};

use crate::names::{Finder, Query};

/// Who a group belongs to by its path and by the files below `root`, without the thread that reads them; the
/// words where a file is of no use. `user`: who chose the group's name.
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
