//! Project tasks beyond `cargo build`; `cargo xtask --help` lists them.

mod blackbox;
mod cargo;
mod generate;
mod notes;
mod sbom;
mod tidy;
mod tree;
mod vm;

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
    Blackbox(blackbox::Args),
    Sbom(sbom::Args),
    Vm(vm::Args),
}

fn main() -> ExitCode {
    match run(&Args::parse().task) {
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
        Task::Blackbox(args) => blackbox::run(root, args),
        Task::Sbom(args) => sbom::run(root, args),
        Task::Vm(args) => vm::run(root, args),
    }
}
