//! Loads a BPF object, attaches all its programs, and keeps the object until the input closes.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use libbpf_rs::{Link, Object, ObjectBuilder};

use super::population::wait_for_end;

/// An object with all its programs attached until dropped.
pub(super) struct Held {
    pub(super) object: Object,
    _links: Vec<Link>,
}

impl Held {
    pub(super) fn load(path: &Path) -> Result<Self> {
        let place = || path.display().to_string();
        let open = ObjectBuilder::default()
            .open_file(path)
            .with_context(place)?;
        let object = open.load().with_context(place)?;
        let mut links = Vec::new();
        for program in object.progs_mut() {
            links.push(program.attach().with_context(place)?);
        }
        Ok(Self {
            object,
            _links: links,
        })
    }
}

pub(super) fn run(path: &Path) -> Result<()> {
    let _held = Held::load(path)?;
    while !wait_for_end(Duration::from_secs(3600))? {}
    Ok(())
}
