//! `noctule tape export`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};

use super::values;

/// Convert a recording for another program
///
/// parquet and csv: one folder for each table (docs/tape.md), for DuckDB, Polars, pandas and data
/// lakes. openmetrics: the series of /metrics with timestamps, for `promtool tsdb
/// create-blocks-from openmetrics`, so that Prometheus and Grafana show the past. perfetto: a trace
/// for ui.perfetto.dev with CPU usage, waits, culprits, verdicts and events on one time line.
///
/// Examples:
///   noctule tape export incident --to parquet -o lake --partition-by date,host
///   noctule tape export incident --to openmetrics -o night.om --at 03:00 --for 30m
///   noctule tape export incident --to perfetto -o night.pftrace
#[derive(Debug, ClapArgs)]
#[command(verbatim_doc_comment)]
pub(crate) struct TapeExportArgs {
    /// Folder of the recording, or of one segment of it
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Format
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: ExportFormat,
    /// Output: a new or empty folder for parquet and csv, otherwise a file
    #[arg(short, long, value_name = "PATH", value_parser = values::path())]
    pub(crate) output: PathBuf,
    /// Start of the exported range: 03:10, 2026-11-24T03:10:30, -10m before the end, or seconds
    /// since 1970 [default: the whole recording; its end if only --for is given]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) at: Option<String>,
    /// Length of the exported range [default: to the end]
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
    /// Split parquet and csv into folders by date=, host= or both
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    pub(crate) partition_by: Vec<ExportPart>,
    /// Time between two samples of openmetrics [default: 15s]
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub(crate) step: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    Parquet,
    Csv,
    Openmetrics,
    Perfetto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportPart {
    /// A folder for each day (UTC)
    Date,
    /// A folder for each host
    Host,
}
