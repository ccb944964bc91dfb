//! Experiments with the built binary, which are not part of the tests: `cargo lab --help` lists
//! them.

mod faults;
mod fleet;
mod http;
mod scenes;
mod soak;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Experiments with the built binary
#[derive(Debug, Parser)]
#[command(name = "cargo lab")]
struct Args {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    Faults(faults::Args),
    Fleet(fleet::Args),
    Scenes(scenes::Args),
    Soak(soak::Args),
}

fn main() -> ExitCode {
    let done = match scenes::run_if_requested() {
        Some(done) => done.map(|()| ExitCode::SUCCESS),
        None => run(&Args::parse().experiment),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            // Stderr may be closed.
            let _ = writeln!(std::io::stderr(), "cargo lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(experiment: &Experiment) -> Result<ExitCode> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    match experiment {
        Experiment::Faults(args) => faults::run(args),
        Experiment::Fleet(args) => fleet::run(root, args),
        Experiment::Scenes(args) => scenes::run(root, args),
        Experiment::Soak(args) => soak::run(args),
    }
}
