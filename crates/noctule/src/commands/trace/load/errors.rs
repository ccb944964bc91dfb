//! Explains why an object could not be loaded.

use std::io::Write as _;

use noctule_kernel::ObjectError;
use noctule_text::escape;
use noctule_trace::verifier;

use super::raw::Lines;
use crate::exit::Explained;

/// Number of libbpf's log lines to print; the last lines contain the reason.
const LINES: usize = 3;

/// Returns the error with its reason. `lines` maps plain instructions to their source. With
/// `verbose`, the verifier's log is printed first.
pub(super) fn explained(
    error: ObjectError,
    file: &str,
    lines: &Lines,
    verbose: bool,
) -> anyhow::Error {
    if let Some(rejected) = &error.refused {
        if verbose {
            let lines = rejected.log.lines().map(|line| escape(line) + "\n");
            // Standard error may be closed, in which case the log cannot be printed.
            let _ = std::io::stderr().write_all(lines.collect::<String>().as_bytes());
        }
        let mut why = verifier::explain(&rejected.log, rejected.errno);
        if let Some(at) = &mut why.at {
            at.source = at.source.take().or_else(|| lines.source(at.instruction));
        }
        let why = why.to_string();
        let why: Vec<_> = why.lines().map(escape).collect();
        let program = escape(&rejected.program);
        let file = escape(file);
        let text = format!("{file}: the kernel refuses {program}\n{}", why.join("\n"));
        let not_allowed = rejected.log.is_empty();
        return Explained { text, not_allowed }.into();
    }
    let noise =
        |line: &&String| !line.contains("failed to load object") && !line.contains("-- BEGIN");
    let said: Vec<_> = error
        .said
        .iter()
        .filter(noise)
        .map(|line| escape(line))
        .collect();
    let from = said.len().saturating_sub(LINES);
    // An error without a cause has its own message.
    let own_words = std::error::Error::source(&error.error).is_none();
    let error = anyhow::Error::new(error.error);
    if said.is_empty() || own_words {
        return error.context(file.to_owned());
    }
    error.context(format!("{file}: {}", said[from..].join("; ")))
}
