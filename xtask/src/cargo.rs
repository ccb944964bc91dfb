//! Cargo, as somebody would start it by hand.

use std::env;
use std::ffi::OsString;
use std::process::Command;

/// The cargo that runs this program, or that of the path.
pub(crate) fn program() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// A command that starts it.
pub(crate) fn command() -> Command {
    let mut command = Command::new(program());
    forget_our_package(&mut command);
    command
}

/// Takes away what cargo says to a program that it runs of the program's own package. Some build
/// scripts ask for these names (that of `ring`): they would run again whenever cargo is started
/// from here after it was started by hand, and all that depends on them would be built anew.
pub(crate) fn forget_our_package(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
}
