//! A program to start, and the use of its output.

use std::process::{Command, Stdio};

use super::with_sbin;
use crate::events::Format;

/// The use of a program's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// Ignored.
    Nothing,
    /// The bench looks for an address in it.
    Address,
    /// The bench reads events from it.
    Events(Format),
}

pub(super) struct Launch {
    pub(super) command: Command,
    pub(super) output: Output,
}

impl Launch {
    /// Launches a program of the bench, which ends when its input closes.
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
