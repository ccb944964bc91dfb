//! `noctule tape export`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};

use super::values;

/// Write a recording in the format of another program
///
/// parquet and csv: a folder with a folder for each table (docs/tape.md), for DuckDB, Polars,
/// pandas and lakes. openmetrics: the series of /metrics with their times, for `promtool tsdb
/// create-blocks-from openmetrics`: then Prometheus and Grafana show the past. perfetto: a trace
/// for the page ui.perfetto.dev with CPU use, waits, who hurts whom, verdicts and events on one
/// time line.
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
    /// Where it is written: a folder that is empty or new for parquet and csv, else a file
    #[arg(short, long, value_name = "PATH", value_parser = values::path())]
    pub(crate) output: PathBuf,
    /// Begin of the part: 03:10, 2026-11-24T03:10:30, -10m before the end, or seconds since 1970
    /// [default: the whole recording; with --for alone its end]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) at: Option<String>,
    /// Length of the part [default: to the end]
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
    /// Folders of parquet and csv: one for each date=, host= or both
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
