//! Third-party tools.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use super::launch::Launch;
use crate::events::Format;
use crate::load;

/// Mounts tracefs where the tools expect it, in their own mount namespace only.
const WITH_TRACEFS: &str = "mount -t debugfs none /sys/kernel/debug 2>/dev/null; \
    mount -t tracefs none /sys/kernel/tracing 2>/dev/null; exec \"$0\" \"$@\"";

/// A third-party tool.
#[derive(Clone, Copy)]
pub(super) struct Tool {
    pub(super) program: &'static str,
    pub(super) arguments: &'static [&'static str],
    /// The Debian package.
    pub(super) package: &'static str,
    pub(super) needs_tracefs: bool,
    /// The format of the tool's lines, if it reports events.
    pub(super) format: Option<Format>,
}

impl Tool {
    pub(super) fn launch(&self) -> Result<Launch> {
        let Self {
            program, package, ..
        } = self;
        ensure!(
            is_installed(program),
            "{program} is not installed (Debian: {package})"
        );
        let mut command = if self.needs_tracefs {
            let mut command = load::tied("unshare");
            command.args(["--mount", "--propagation", "private", "sh", "-c"]);
            command.args([WITH_TRACEFS, program]);
            command
        } else {
            load::tied(program)
        };
        command.args(self.arguments);
        Ok(match self.format {
            Some(format) => Launch::reporting(command, format),
            None => Launch::unread(command),
        })
    }
}

/// Adds directories of administration tools, which a user's PATH may lack.
pub(crate) fn with_sbin(command: &mut Command) -> &mut Command {
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"))
}

/// Returns whether the program is in one of those directories.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut folders = path.split(':').chain(["/usr/sbin", "/sbin"]);
    folders.any(|folder| Path::new(folder).join(program).is_file())
}
