//! `noctule diff`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::By;

/// Compare two recordings or times, and mark statistically significant changes
///
/// For each container or unit: CPU usage, the time it was runnable but not running, and the 99th
/// percentile of these waits, before and after. A marked change is significant: blocks of a few
/// seconds are compared with the Mann-Whitney rank-sum test, and at most 5% of all marks are due to
/// chance. Groups are matched by name.
///
/// Examples:
///   noctule diff monday friday
///   noctule diff tape@03:00+5m tape@03:10+5m --by unit
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct DiffArgs {
    /// Before: a recording, optionally with @TIME for its start, and +DURATION
    #[arg(value_name = "BEFORE")]
    pub(crate) before: String,
    /// After, in the same form
    #[arg(value_name = "AFTER")]
    pub(crate) after: String,
    /// Level of a row; processes are grouped by name and have no waits
    #[arg(long, value_name = "LEVEL", default_value = "container")]
    pub(crate) by: By,
    /// Show at most this many rows
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) top: usize,
    /// All columns and full names, regardless of the width of the terminal
    #[arg(long, conflicts_with = "json")]
    pub(crate) wide: bool,
    /// One JSON object, with all rows, instead of the table (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the output to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
