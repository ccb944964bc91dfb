//! Options set by the caller.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use noctule_analysis::{Row, Selection, Thresholds};
use noctule_model::{Level, Rivals};

use crate::state::travel::Moment;
pub use crate::table::View;

/// Facts that only the files of the running machine contain. A recording has none.
pub trait Files: Send + Sync {
    /// Returns whether there are such files.
    fn exist(&self) -> bool {
        false
    }

    /// Returns labelled facts about a row that the user opened, such as the limits of a group or
    /// the command line of a process.
    fn about(&self, _: &Row) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Returns the user of a row's process, escaped for a terminal.
    fn user(&self, _: &Row) -> Option<String> {
        None
    }

    /// Returns the resident memory of a row, in bytes.
    fn resident_bytes(&self, _: &Row, _: Level) -> Option<u64> {
        None
    }

    /// Returns the weights by which a group shares the CPU with its culprit, given both paths.
    fn rivals(&self, _own: &str, _culprit: &str) -> Option<Rivals> {
        None
    }
}

/// No files, as for a recording.
#[derive(Clone, Copy, Debug)]
pub struct NoFiles;

impl Files for NoFiles {}

/// Access to the files.
#[derive(Clone)]
pub struct About(pub Arc<dyn Files>);

impl fmt::Debug for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("About")
    }
}

/// Options of the view.
#[derive(Clone, Debug)]
pub struct Options {
    /// The initial level.
    pub level: Level,
    /// Whether the processes of a command are one row at first.
    pub by_command: bool,
    /// The initial view.
    pub view: View,
    /// Thresholds of verdicts.
    pub thresholds: Thresholds,
    /// Restricts the rows to some groups or processes.
    pub selection: Selection,
    /// Time between two batches. The graphs span 60 such intervals.
    pub interval: Duration,
    /// Name of the machine.
    pub hostname: String,
    /// Returns the local time zone's offset from UTC in seconds, at a moment in nanoseconds since
    /// 1970.
    pub utc_offset: fn(u64) -> i32,
    /// Called for the rows on the screen, with each batch.
    pub about: About,
    /// Parses a moment of a recording that the user typed.
    pub moment: Moment,
    /// Whether the terminal can show only ASCII.
    pub ascii: bool,
    /// Whether colours may be used; false if `NO_COLOR` is set.
    pub color: bool,
}
