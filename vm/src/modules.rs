//! Modules of the kernel.

use std::ffi::CString;
use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, Result};
use noctule_vm::MODULES;
use rustix::io::Errno;
use rustix::system::finit_module;

/// Loads them in this order: each comes after those that it needs. After a blank there are its
/// parameters.
pub(crate) fn load(modules: &[String]) -> Result<()> {
    for module in modules {
        let (name, parameters) = module.split_once(' ').unwrap_or((module, ""));
        let parameters = CString::new(parameters)?;
        let file = File::open(Path::new(MODULES).join(name)).with_context(|| name.to_owned())?;
        match finit_module(&file, &parameters, 0) {
            // The kernel has asked for it by itself.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error).with_context(|| format!("module {name}")),
        }
    }
    Ok(())
}
