//! Recordings: `noctule record` and `noctule tape`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};

use super::export::TapeExportArgs;
use super::values;

/// Record everything that happens, for later analysis
///
/// Stores all counters of each second, and each event, in a folder: processes, groups, waits and
/// their causes, energy, connections. The commands that measure read it with --from. With a
/// COMMAND: runs it, ends with it, and records only its events. The format is Arrow (docs/tape.md).
///
/// Examples:
///   noctule record -o incident --for 5m
///   noctule record -o build -- make -j8
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct RecordArgs {
    /// Folder of the recording; an existing recording is continued
    #[arg(short, long, value_name = "DIR", value_parser = values::path())]
    pub(crate) output: PathBuf,
    /// End after this time [default: when interrupted; with a COMMAND: when it ends]
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
    /// Length of a segment, which is readable on its own and removed as a whole
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = values::duration)]
    pub(crate) segment: Duration,
    /// Command to run and follow, after `--`
    #[arg(last = true, value_name = "COMMAND", help_heading = "Arguments")]
    pub(crate) command: Vec<OsString>,
}

/// Inspect or export a recording
///
/// Examples:
///   noctule tape info incident
///   noctule tape export incident --to perfetto -o night.pftrace
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct TapeArgs {
    #[command(subcommand)]
    pub(crate) command: TapeCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TapeCommand {
    Info(TapeInfoArgs),
    Export(TapeExportArgs),
}

/// Show times, sizes, tables and damage
///
/// Prints one line for each start of the recorder. `missing` counts batches that were dropped
/// because the disk was too slow. Reads everything and verifies the checksums: the exit status is 1
/// if anything is damaged.
///
/// Examples:
///   noctule tape info incident
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct TapeInfoArgs {
    /// Folder of the recording, or of one segment of it
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// One JSON object instead of the tables (docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the output to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Options to read a recording instead of the live node.
#[derive(Debug, ClapArgs)]
pub(crate) struct RecordedArgs {
    /// Read this recording (noctule record) instead of the live node
    #[arg(long, value_name = "DIR")]
    pub(crate) from: Option<PathBuf>,
    /// With --from: start of the window: 03:10, 2026-11-24T03:10:30, -10m before the end, or
    /// seconds since 1970 [default: the whole recording, with --for its end; run: the last 15
    /// minutes; top: the end]
    #[arg(
        long,
        value_name = "TIME",
        requires = "from",
        allow_hyphen_values = true
    )]
    pub(crate) at: Option<String>,
}

/// Options to read a recording instead of the live node, or to record the live node.
#[derive(Debug, ClapArgs)]
pub(crate) struct SourceArgs {
    #[command(flatten)]
    pub(crate) recorded: RecordedArgs,
    /// Also record the data behind the output in this folder, for --from
    #[arg(long, value_name = "DIR", conflicts_with = "from", value_parser = values::path())]
    pub(crate) tape: Option<PathBuf>,
}
