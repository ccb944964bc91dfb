//! Exit codes, and the one place where an error becomes words on a terminal.

use std::io::Write as _;
use std::process::ExitCode;

use noctule_kernel::ErrorKind;

/// It is done.
pub(crate) const DONE: u8 = 0;
/// It failed.
pub(crate) const FAILED: u8 = 1;
/// The arguments or the configuration are wrong.
pub(crate) const USAGE: u8 = 2;
/// The privileges or the kernel do not allow it.
pub(crate) const NOT_ALLOWED: u8 = 3;

/// The arguments or the configuration are wrong; the words name the place.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Prints the error with its causes and finds the code for it. A broken pipe is a success: whoever
/// read has seen enough.
pub(crate) fn explain(error: &anyhow::Error) -> ExitCode {
    let broken_pipe = |e: &std::io::Error| e.kind() == std::io::ErrorKind::BrokenPipe;
    if error
        .chain()
        .any(|e| e.downcast_ref().is_some_and(broken_pipe))
    {
        return ExitCode::from(DONE);
    }
    let _ = writeln!(std::io::stderr(), "noctule: {error:#}");
    ExitCode::from(code(error))
}

fn code(error: &anyhow::Error) -> u8 {
    if error.is::<Usage>() {
        return USAGE;
    }
    let kind = error
        .chain()
        .find_map(|e| e.downcast_ref::<noctule_kernel::Error>());
    match kind.map(noctule_kernel::Error::kind) {
        Some(ErrorKind::Privileges | ErrorKind::Kernel) => NOT_ALLOWED,
        _ => FAILED,
    }
}
