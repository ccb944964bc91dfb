//! `noctule energy`: joules of the node's meters, by who they are charged to.

use std::cmp::Reverse;
use std::time::Duration;

use anyhow::Result;
use noctule_analysis::Report;
use noctule_kernel::{Error, ErrorKind};
use noctule_model::Level;

use super::energy_table;
use super::watch::{Output, watch};
use crate::args::EnergyArgs;
use crate::config::Config;
use crate::stop::Signals;
use crate::wire::{Pipeline, Shown};

const WINDOW: Duration = Duration::from_secs(10);

pub(super) fn run(args: &EnergyArgs, config: &Config) -> Result<u8> {
    let mut output = Output::open(args.output.as_deref())?;
    let signals = Signals::catch()?;
    let followed = !args.command.is_empty();
    let level = args.by.map_or(
        if followed {
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
    let (builder, code) = watch(
        &mut pipeline,
        &signals,
        &args.command,
        WINDOW,
        args.duration,
    )?;
    let mut report = builder.report(level, followed);
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
