//! `noctule energy`: joules of the node's meters, by who they are charged to.

use std::cmp::Reverse;
use std::time::Duration;

use anyhow::Result;
use noctule_analysis::{Report, ReportBuilder};
use noctule_kernel::{Error, ErrorKind};
use noctule_model::{Batch, Level};

use super::energy_table;
use super::watch::{Output, watch_each};
use crate::args::EnergyArgs;
use crate::config::Config;
use crate::stop::Signals;
use crate::wire::{Pipeline, Shown};

const WINDOW: Duration = Duration::from_secs(10);
/// Batches of which a window may have so many are kept, some MiB each on a large machine. Longer ones
/// learn in their first part.
const AGAIN: usize = 60;

pub(super) fn run(args: &EnergyArgs, config: &Config) -> Result<u8> {
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
    let mut pipeline = Pipeline::start(config, Shown::Use)?;
    if pipeline.tick()?.energy.is_none() {
        return Err(no_meter().into());
    }
    let selection = pipeline.select(&args.names, &args.command)?;
    let mut batches = Vec::new();
    let (builder, code) = watch_each(
        &mut pipeline,
        &signals,
        &args.command,
        WINDOW,
        args.duration,
        &mut |batch| {
            if batches.len() <= AGAIN {
                batches.push(batch.clone());
            }
        },
    )?;
    let builder = match batches.len() {
        1..=AGAIN => divide_again(batches, &pipeline).unwrap_or(builder),
        _ => builder,
    };
    let mut report = builder.select(selection).report(level, followed);
    sort(&mut report);
    let idle = config.energy.idle.into();
    if args.json {
        let json = noctule_sinks::json::energy_json(&report, level, idle);
        output.write(&format!("{json}\n"))?;
    } else {
        let table = energy_table::draw(&report, level, args.top, followed, output.paint());
        output.write(&table)?;
    }
    Ok(code)
}

/// At the begin of a window idle power and the cost of work are not known: when it has ended, its
/// batches are divided by what was learned in it.
fn divide_again(batches: Vec<Batch>, pipeline: &Pipeline) -> Option<ReportBuilder> {
    let known = batches.last()?.energy.as_ref()?;
    let mut attribution = pipeline.attribution().learned(known);
    let mut divided = batches.into_iter().map(|mut batch| {
        attribution.apply(&mut batch);
        batch
    });
    let mut builder = ReportBuilder::new(divided.next()?);
    divided.for_each(|batch| builder.add(batch));
    Some(builder)
}

/// The most energy first; who used a CPU and got none comes after.
fn sort(report: &mut Report) {
    let Some(energy) = &report.energy else { return };
    report
        .rows
        .sort_by_key(|row| Reverse(energy.total_uj(&row.joules)));
}

/// Without a meter there is nothing to tell.
fn no_meter() -> Error {
    let words = "this machine has no meter of energy that can be read: no powercap zone (RAPL), no \
                 energy or power sensor of hwmon, no battery in use. Virtual machines mostly have \
                 none. Loading intel_rapl_common or the driver of the board's sensors may help; \
                 reading powercap needs CAP_DAC_READ_SEARCH";
    Error::new(ErrorKind::Kernel, words)
}
