//! `make bench`, or `cargo lab-bench` with options: measures what the agent and other tools cost,
//! in one run.
//!
//! Each load runs alone and with each contender, in turn, so that drift of a shared machine
//! affects all of them equally. A figure is compared with its reference in the same round.
//! docs/bench.md describes each figure.

use std::ffi::OsString;
use std::fs;
use std::io::{Write as _, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use serde_json::Value;

mod bars;
mod build;
mod cell;
mod cgroups;
mod child;
mod compare;
mod contender;
mod cost;
mod counting;
mod events;
mod figures;
mod host;
mod leftovers;
mod load;
mod peers;
mod population;
mod record;
mod rounds;
mod scrape;
mod stop;
mod table;
mod tables;

use contender::Bed;
use figures::Figures;
use load::Load;
use rounds::Plan;
use stop::{Interrupted, Stop};

/// Measure the cost of the agent and of other tools
///
/// Runs each load alone, with the agent and with its peers, in turn. Needs root. Peers come from
/// Debian (libbpf-tools, bpftrace, linux-perf); tools that are not installed are listed as absent.
/// Takes about half an hour. A missed target is shown but is not a failure.
#[derive(Debug, Parser)]
#[command(name = "cargo lab-bench")]
pub(crate) struct Args {
    /// Number of rounds for each pair of load and contender
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Run one round of small loads, to test the bench rather than to measure
    #[arg(long)]
    quick: bool,
    /// Run only this load; may be given several times
    #[arg(long, value_name = "LOAD", value_enum)]
    only: Vec<Load>,
    /// Run only with this contender and the references; may be given several times
    #[arg(long, value_name = "CONTENDER")]
    beside: Vec<String>,
    /// Binary to measure [default: built from this tree]
    #[arg(long, value_name = "PATH")]
    noctule: Option<PathBuf>,
    /// File for the figures as JSON [default: bench/latest.json in the target folder]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also print ratios to the figures of an earlier run
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Debug, clap::Subcommand)]
enum Part {
    /// Compare only the events that the agent and its peers report for one mixed load
    Peers,
    /// Measure only the cost of an event counted by `noctule hist` and by bpftrace
    Counting,
    /// Run a single load
    #[command(hide = true)]
    Load(load::Args),
    /// Run a program that ends with the process that starts it
    #[command(hide = true)]
    Tied {
        #[arg(required = true, last = true)]
        command: Vec<OsString>,
    },
}

/// Returns success, whatever the figures are.
fn main() -> ExitCode {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    match run(root, &Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(root: &Path, args: &Args) -> Result<ExitCode> {
    if let Some(Part::Load(load)) = &args.part {
        load::run(load)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(Part::Tied { command }) = &args.part {
        return Err(child::tied(command));
    }
    match measure(root, args) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.is::<Interrupted>() => {
            say("interrupted; everything that was started is gone");
            Ok(ExitCode::from(130))
        }
        Err(error) => Err(error),
    }
}

fn measure(root: &Path, args: &Args) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!(
            "measuring needs root (BPF programs, cgroups, kernel.bpf_stats_enabled): use sudo -E"
        );
    }
    let earlier = args.compare.as_deref().map(read_json).transpose()?;
    let stop = Stop::catch()?;
    let binary = match &args.noctule {
        Some(path) => path
            .canonicalize()
            .with_context(|| path.display().to_string())?,
        None => build::release(root)?,
    };
    if matches!(args.part, Some(Part::Counting)) {
        return counting::run(&binary, &stop, &mut stdout().lock());
    }
    let folder = build::target_folder(root).join("bench");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    leftovers::remove(&std::env::temp_dir(), |folder| fs::remove_dir_all(folder));
    let bed = Bed::prepare(root, &folder, binary)?;
    if matches!(args.part, Some(Part::Peers)) {
        let report = peers::run(&bed, &stop)?;
        peers::print(&mut stdout().lock(), &report)?;
        return Ok(());
    }
    let plan = Plan::new(args, &bed, &stop)?;
    let before = host::load_average();
    let mut figures = Figures::default();
    let began = std::time::Instant::now();
    let complete = rounds::run(&plan, &bed, &stop, &mut figures);
    if complete.is_err() && !figures.all().is_empty() {
        // Prints the figures measured so far, but does not save them as a record.
        let machine = host::describe(root, &before);
        tables::print(&mut stdout().lock(), &plan, &machine, &figures)?;
    }
    complete?;
    // If a load or a contender is named, the bench runs only that.
    let everything = args.only.is_empty() && args.beside.is_empty();
    let side_by_side = everything.then(|| peers::run(&bed, &stop)).transpose()?;
    let machine = host::describe(root, &before);

    let json = args
        .json
        .clone()
        .unwrap_or_else(|| folder.join("latest.json"));
    let record = record::describe_run(&plan, &bed, &machine, &figures, side_by_side.as_ref());
    let text = serde_json::to_string_pretty(&record).context("writing JSON")?;
    fs::write(&json, text + "\n").with_context(|| json.display().to_string())?;
    let mut out = stdout().lock();
    tables::print(&mut out, &plan, &machine, &figures)?;
    if let Some(report) = &side_by_side {
        peers::print(&mut out, report)?;
    }
    if everything {
        counting::run(&bed.noctule, &stop, &mut out)?;
    }
    if let Some(earlier) = earlier {
        let contenders = plan.contenders.iter();
        let ours: Vec<&str> = contenders
            .filter(|c| c.is_noctule())
            .map(|c| c.name)
            .collect();
        compare::print(&mut out, &figures, &ours, &earlier)?;
    }
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    writeln!(
        out,
        "\n{minutes:.1} minutes; the same for machines: {}",
        json.display()
    )?;
    Ok(())
}

fn read_json(path: &Path) -> Result<Value> {
    let place = || path.display().to_string();
    let text = fs::read_to_string(path).with_context(place)?;
    serde_json::from_str(&text).with_context(place)
}

/// Prints a line of progress. Ignores write errors, because standard error may be closed.
fn say(words: &str) {
    let _ = writeln!(stderr(), "bench: {words}");
}
