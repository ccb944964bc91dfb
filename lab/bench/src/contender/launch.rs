//! A program to start, and what the bench does with its output.

use std::process::{Command, Stdio};

use super::with_sbin;
use crate::events::Format;

/// What the bench does with a program's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// Ignored.
    Nothing,
    /// The bench looks for an address in the output.
    Address,
    /// The bench reads events from the output.
    Events(Format),
}

pub(super) struct Launch {
    pub(super) command: Command,
    pub(super) output: Output,
}

impl Launch {
    /// Returns a launch of one of the bench's own programs, which end when their input closes.
    pub(super) fn silent(mut command: Command) -> Self {
        command.stdin(Stdio::piped());
        Self::new(command, Output::Nothing)
    }

    pub(super) fn serving(mut command: Command) -> Self {
        command.stdin(Stdio::null());
        Self::new(command, Output::Address)
    }

    pub(super) fn reporting(mut command: Command, format: Format) -> Self {
        command.stdin(Stdio::null());
        Self::new(command, Output::Events(format))
    }

    pub(super) fn unread(mut command: Command) -> Self {
        command.stdin(Stdio::null());
        Self::new(command, Output::Nothing)
    }

    fn new(mut command: Command, output: Output) -> Self {
        command.stdout(match output {
            Output::Nothing => Stdio::null(),
            Output::Address | Output::Events(_) => Stdio::piped(),
        });
        with_sbin(&mut command);
        Self { command, output }
    }
}
