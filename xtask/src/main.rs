//! Project tasks beyond `cargo build`; `cargo xtask --help` lists them.

mod bench;
mod blackbox;
mod cargo;
mod faults;
mod fleet;
mod generate;
mod http;
mod notes;
mod sbom;
mod scenes;
mod soak;
mod tidy;
mod tree;
mod vm;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Tasks of the project
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Check project rules that neither the compiler nor clippy checks
    Tidy,
    /// Generate files from tables in the code
    Gen(generate::Args),
    /// Measure the cost of the agent in comparison with other tools (the harness in `bench/`)
    #[command(disable_help_flag = true)]
    Bench {
        /// Options for the harness
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<OsString>,
    },
    Blackbox(blackbox::Args),
    Faults(faults::Args),
    Fleet(fleet::Args),
    Sbom(sbom::Args),
    Scenes(scenes::Args),
    Soak(soak::Args),
    Vm(vm::Args),
}

fn main() -> ExitCode {
    let done = match scenes::run_if_requested() {
        Some(done) => done.map(|()| ExitCode::SUCCESS),
        None => run(&Args::parse().task),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            // Stderr may be closed.
            let _ = writeln!(std::io::stderr(), "cargo xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: &Task) -> Result<ExitCode> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    match task {
        Task::Tidy => tidy::run(root),
        Task::Gen(args) => generate::run(root, args),
        Task::Bench { options } => bench::run(root, options),
        Task::Blackbox(args) => blackbox::run(root, args),
        Task::Faults(args) => faults::run(args),
        Task::Fleet(args) => fleet::run(root, args),
        Task::Sbom(args) => sbom::run(root, args),
        Task::Scenes(args) => scenes::run(root, args),
        Task::Soak(args) => soak::run(args),
        Task::Vm(args) => vm::run(root, args),
    }
}
