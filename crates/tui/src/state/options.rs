//! Options set by the caller.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use noctule_analysis::{Row, Selection, Thresholds};
use noctule_model::Level;

use crate::state::travel::Moment;
pub use crate::table::View;

/// Returns labelled facts about a row that only files contain, such as the limits of a group or the
/// command line of a process.
#[derive(Clone)]
pub struct About(pub Arc<Ask>);

type Ask = dyn Fn(&Row) -> Vec<(&'static str, String)> + Send + Sync;

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
    /// Time between two batches. The graphs span 60 of them.
    pub interval: Duration,
    /// Name of the machine.
    pub hostname: String,
    /// Returns the local time zone's offset from UTC in seconds, at a moment in nanoseconds since
    /// 1970.
    pub utc_offset: fn(u64) -> i32,
    /// Called when the user opens a row, and again with each batch.
    pub about: About,
    /// Parses a moment of a recording that the user typed.
    pub moment: Moment,
    /// Whether the terminal can show only ASCII.
    pub ascii: bool,
    /// Whether colours may be used; false if `NO_COLOR` is set.
    pub color: bool,
}
