//! `noctule stat`: who used the CPU in a window.

use std::time::Duration;

use anyhow::Result;
use noctule_model::Level;

use super::table;
use super::watch::{Output, watch};
use crate::args::StatArgs;
use crate::config::Config;
use crate::stop::Signals;
use crate::wire::{Pipeline, Shown};

const WINDOW: Duration = Duration::from_secs(5);

pub(super) fn run(args: &StatArgs, config: &Config) -> Result<u8> {
    let mut output = Output::beside(args.output.as_deref(), &args.command)?;
    let signals = Signals::catch()?;
    let followed = !args.command.is_empty();
    let level = args.by.map_or(
        if followed || !args.names.pid.is_empty() {
            Level::Process
        } else {
            Level::Container
        },
        Level::from,
    );
    // The table has events of groups alone, the JSON those of the node too.
    let shown = match (level, followed, args.json) {
        (Level::Process, _, false) | (_, true, false) => Shown::Use,
        _ => Shown::All,
    };
    let mut pipeline = Pipeline::start(config, shown)?;
    let selection = pipeline.select(&args.names, &args.command)?;
    let (builder, code) = watch(
        &mut pipeline,
        &signals,
        &args.command,
        WINDOW,
        args.duration,
    )?;
    let report = builder.select(selection).report(level, followed);
    if args.json {
        output.write(&format!(
            "{}\n",
            noctule_sinks::json::stat_json(&report, level)
        ))?;
    } else {
        output.write(&table::draw(
            &report,
            level,
            args.top,
            followed,
            output.paint(),
        ))?;
    }
    Ok(code)
}
