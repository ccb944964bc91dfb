//! noctule reports the CPU usage of a Linux node, its energy use, and the events on it.
//!
//! Control flow of this crate: `args` (command line) -> `config` (effective settings) -> `wire`
//! (the only module that names concrete components) -> `commands`.

mod args;
mod bounded;
mod changes;
mod commands;
mod config;
mod event_file;
mod exit;
mod features;
mod feed;
mod idle_power;
mod limits;
mod machine;
mod otlp;
mod pace;
mod patient;
mod print;
mod private;
mod published;
mod recording;
mod replay;
mod rights;
mod scope;
mod select;
mod stop;
mod users;
mod web_config;
mod wire;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;

fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // clap's own output: an error, or the text of --help or --version, which counts as
            // success.
            let printed = error.print();
            return match printed.context("standard output") {
                _ if error.use_stderr() => ExitCode::from(exit::USAGE),
                Ok(()) => ExitCode::from(exit::DONE),
                Err(error) => exit::explain(&error),
            };
        }
    };
    start_log(&args);
    if let Err(error) = rights::disable_read_capability() {
        return exit::explain(&error);
    }
    stop::survive_limits();
    noctule_kernel::limit_heap();
    limits::raise();
    match commands::run(args) {
        Ok(code) => ExitCode::from(code),
        Err(error) => exit::explain(&error),
    }
}

/// Sends the log to standard error; `RUST_LOG` refines the level of `--log`.
fn start_log(args: &args::Args) {
    use std::io::IsTerminal as _;
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_default_directive(args.log.into())
        .from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| patient::Log)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_target(false)
        .without_time()
        .init();
    noctule_kernel::log_libbpf();
}
