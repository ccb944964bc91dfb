//! Opens files for writing, a separate file on each CPU. This load shows the cost of the hook on
//! opens.

use std::fs::{self, File};

use anyhow::{Context as _, Result};

use super::{Outcome, on_each_cpu, own_cpu_ns};
use crate::events::folder_of;

pub(super) fn run(opens: u64) -> Result<Outcome> {
    let folder = folder_of(std::process::id());
    fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
    let outcome = on_each_cpu(
        opens,
        || Ok(own_cpu_ns()),
        |worker| File::create(folder.join(worker.to_string())).context("opening a file"),
    );
    fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    outcome
}
