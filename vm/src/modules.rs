//! Modules of the kernel.

use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, Result};
use noctule_vm::MODULES;
use rustix::io::Errno;
use rustix::system::finit_module;

/// Loads them in this order: each comes after those that it needs.
pub(crate) fn load(names: &[String]) -> Result<()> {
    for name in names {
        let file = File::open(Path::new(MODULES).join(name)).with_context(|| name.clone())?;
        match finit_module(&file, c"", 0) {
            // The kernel has asked for it by itself.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error).with_context(|| format!("module {name}")),
        }
    }
    Ok(())
}
