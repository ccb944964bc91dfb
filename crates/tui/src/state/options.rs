//! What the caller chooses.

use std::time::Duration;

use noctule_analysis::{Selection, Thresholds};
use noctule_model::Level;

pub use crate::table::View;

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
    /// Whether colours may be used: false when `NO_COLOR` is set.
    pub color: bool,
}
