//! Exit codes, and the formatting of errors for the terminal.

use std::process::ExitCode;

use noctule_kernel::ErrorKind;

use crate::patient;

pub(crate) const DONE: u8 = 0;
pub(crate) const FAILED: u8 = 1;
/// Wrong arguments or configuration.
pub(crate) const USAGE: u8 = 2;
/// Missing privileges or kernel support.
pub(crate) const NOT_ALLOWED: u8 = 3;

/// The followed command exists but cannot be executed, as in a shell.
pub(crate) const NO_PROGRAM: u8 = 126;
/// The followed command does not exist, as in a shell.
pub(crate) const NO_COMMAND: u8 = 127;

/// The followed command could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub(crate) struct NotStarted {
    pub(crate) code: u8,
    pub(crate) words: String,
}

/// Wrong arguments or configuration. The message contains the location of the error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// An event to which this command's programs cannot be attached. The command's other events are
/// unaffected.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotForPrograms(pub(crate) String);

/// A failure with a message of several lines. Untrusted text in the message is already escaped.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Explained {
    pub(crate) text: String,
    /// Whether the cause is missing privileges or kernel support.
    pub(crate) not_allowed: bool,
}

/// Prints the error with its causes and returns the exit code. A broken pipe counts as success,
/// because the reader has closed the output on purpose.
pub(crate) fn explain(error: &anyhow::Error) -> ExitCode {
    let broken_pipe = |e: &std::io::Error| e.kind() == std::io::ErrorKind::BrokenPipe;
    if error
        .chain()
        .any(|e| e.downcast_ref().is_some_and(broken_pipe))
    {
        return ExitCode::from(DONE);
    }
    let message = format!("noctule: {}{}\n", words(error), advice(error));
    patient::offer(std::io::stderr(), message.as_bytes());
    ExitCode::from(code(error))
}

/// Returns advice for errors that need it. The kernel returns EAGAIN if it refuses to create
/// another thread.
fn advice(error: &anyhow::Error) -> &'static str {
    let again = |e: &std::io::Error| e.kind() == std::io::ErrorKind::WouldBlock;
    match error.chain().any(|e| e.downcast_ref().is_some_and(again)) {
        true => {
            "; the kernel allows no more threads: raise TasksMax= of the service (pids.max of its \
             cgroup), or the user's process limit (ulimit -u, LimitNPROC=)"
        }
        false => "",
    }
}

/// Formats the error with its causes, escaped for a terminal. Names of files, cgroups and processes
/// are untrusted. Only usage errors, which show the user's input, and explanations may contain line
/// breaks.
fn words(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    if !error.is::<Usage>() && !error.is::<Explained>() {
        return noctule_text::escape(&text);
    }
    let lines = text.lines().map(|line| {
        let safe = |c: char| match noctule_text::is_unseen(c) {
            true => c.escape_unicode().to_string(),
            false => c.to_string(),
        };
        line.chars().map(safe).collect::<String>()
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn code(error: &anyhow::Error) -> u8 {
    if error.is::<Usage>() {
        return USAGE;
    }
    if error.is::<NotForPrograms>() {
        return NOT_ALLOWED;
    }
    if let Some(command) = error.downcast_ref::<NotStarted>() {
        return command.code;
    }
    if let Some(explained) = error.downcast_ref::<Explained>() {
        return if explained.not_allowed {
            NOT_ALLOWED
        } else {
            FAILED
        };
    }
    let kind = error
        .chain()
        .find_map(|e| e.downcast_ref::<noctule_kernel::Error>());
    match kind.map(noctule_kernel::Error::kind) {
        Some(ErrorKind::Privileges | ErrorKind::Kernel) => NOT_ALLOWED,
        _ => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_limit_error_suggests_tasks_max() {
        let refused = |errno: rustix::io::Errno| {
            let error = std::io::Error::from(errno);
            advice(&anyhow::Error::new(error).context("starting the HTTP server"))
        };
        assert!(refused(rustix::io::Errno::AGAIN).contains("TasksMax="));
        assert_eq!(refused(rustix::io::Errno::ADDRINUSE), "");
    }

    #[test]
    fn untrusted_text_in_errors_is_escaped() {
        let hostile = std::io::Error::other("cgroup \u{1b}[2Jx\nnoctule: all is well");
        let error = anyhow::Error::new(hostile).context("reading");
        assert_eq!(
            words(&error),
            "reading: cgroup \\u{1b}[2Jx\\nnoctule: all is well"
        );
        let usage = anyhow::Error::new(Usage("no field \u{9b}x\n  a\\b\n  ^".into()));
        assert_eq!(words(&usage), "no field \\u{9b}x\n  a\\b\n  ^");
        let explained = |not_allowed| {
            let text = "the kernel refuses it\n  reason: \u{9b}".to_owned();
            anyhow::Error::new(Explained { text, not_allowed })
        };
        let lines = "the kernel refuses it\n  reason: \\u{9b}";
        assert_eq!(words(&explained(true)), lines);
        assert_eq!((code(&explained(true)), code(&explained(false))), (3, 1));
    }
}
