//! `noctule diff`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::By;

/// What changed between two recordings, or two times of one, and whether it is more than noise
///
/// For each container, or unit: CPU use, the time that it was runnable and not running, and the
/// 99th percentile of these waits, before and after. A change that is marked is no noise: the
/// figures of blocks of some seconds are compared by the rank-sum test of Mann and Whitney, and
/// of all that is marked at most 5% is by chance. Groups are the same where they have the same
/// name.
///
/// Examples:
///   noctule diff monday friday
///   noctule diff tape@03:00+5m tape@03:10+5m --by unit
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct DiffArgs {
    /// Before: a recording, with @TIME where it begins, and +DURATION
    #[arg(value_name = "BEFORE")]
    pub(crate) before: String,
    /// After, in the same form
    #[arg(value_name = "AFTER")]
    pub(crate) after: String,
    /// What a row stands for; processes are those of one name, and have no waits
    #[arg(long, value_name = "LEVEL", default_value = "container")]
    pub(crate) by: By,
    /// Show at most this many rows
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) top: usize,
    /// All columns and names in full, however narrow the terminal is
    #[arg(long, conflicts_with = "json")]
    pub(crate) wide: bool,
    /// One JSON object, with all rows, instead of the table (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the answer to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
