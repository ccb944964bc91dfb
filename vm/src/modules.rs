//! Loads kernel modules.

use std::ffi::CString;
use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, Result};
use noctule_vm::MODULES;
use rustix::io::Errno;
use rustix::system::finit_module;

/// Loads the modules in this order, in which each comes after its dependencies. A space separates
/// the file name from the parameters.
pub(crate) fn load(modules: &[String]) -> Result<()> {
    for module in modules {
        let (name, parameters) = module.split_once(' ').unwrap_or((module, ""));
        let parameters = CString::new(parameters)?;
        let file = File::open(Path::new(MODULES).join(name)).with_context(|| name.to_owned())?;
        match finit_module(&file, &parameters, 0) {
            // The kernel has already loaded the module.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error).with_context(|| format!("module {name}")),
        }
    }
    Ok(())
}
