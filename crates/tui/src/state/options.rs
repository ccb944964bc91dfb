//! What the caller chooses.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use noctule_analysis::{Row, Selection, Thresholds};
use noctule_model::Level;

use crate::state::travel::Moment;
pub use crate::table::View;

/// Returns what only files say of a row, as label and text: limits of a group, the command line of a
/// process.
#[derive(Clone)]
pub struct About(pub Arc<Ask>);

type Ask = dyn Fn(&Row) -> Vec<(&'static str, String)> + Send + Sync;

impl fmt::Debug for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("About")
    }
}

/// The options of the view.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the rows stand for at first.
    pub level: Level,
    /// Which view to begin with.
    pub view: View,
    /// When a wait is worth a verdict.
    pub thresholds: Thresholds,
    /// Which rows are shown.
    pub selection: Selection,
    /// Time between two batches: the span of the graphs is 60 of it.
    pub interval: Duration,
    /// Name of the machine.
    pub hostname: String,
    /// Local time less UTC, in seconds, at a moment in nanoseconds since 1970.
    pub utc_offset: fn(u64) -> i32,
    /// Asked when a row is looked at, and again with each batch.
    pub about: About,
    /// A moment as people type it, for recordings.
    pub moment: Moment,
    /// Whether only ASCII can be shown.
    pub ascii: bool,
    /// Whether colours may be used: false when `NO_COLOR` is set.
    pub color: bool,
}
