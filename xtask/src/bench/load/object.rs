//! Holds a BPF object: loads it, attaches every program in it, and keeps it until the input ends.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use libbpf_rs::ObjectBuilder;

use super::population::wait_for_end;

pub(super) fn run(path: &Path) -> Result<()> {
    let place = || path.display().to_string();
    let open = ObjectBuilder::default()
        .open_file(path)
        .with_context(place)?;
    let object = open.load().with_context(place)?;
    let mut links = Vec::new();
    for program in object.progs_mut() {
        links.push(program.attach().with_context(place)?);
    }
    while !wait_for_end(Duration::from_secs(3600))? {}
    Ok(())
}
