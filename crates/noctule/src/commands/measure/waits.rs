//! `noctule waits`: run-queue latency in a window, and its culprits.

use std::time::Duration;

use anyhow::{Result, bail};
use noctule_model::{FeatureId, Level};

use super::blocked_table;
use super::disk_lines;
use super::settings::Observed;
use super::wait_answers;
use super::wait_table;
use crate::args::{By, Names, WaitsArgs};
use crate::commands::shared::columns::Choice;
use crate::commands::shared::stat_table::lost;
use crate::commands::shared::watch::{Output, Watched, watch};
use crate::commands::shared::window::{self, Answer, Window};
use crate::config::Config;
use crate::exit::Usage;
use crate::stop::Signals;
use crate::wire::{Pipeline, Shown};

const WINDOW: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &WaitsArgs, config: &Config) -> Result<u8> {
    let level = args.by;
    let columns = match args.blocked {
        true => blocked_table::columns(),
        false => wait_table::columns(),
    };
    let choice = Choice::new(&args.of.shape, &columns, level)?;
    let mut output = Output::for_command(args.of.output.as_deref(), &args.of.command)?;
    let mut observed = None;
    let window = Window::open(&args.of.source.recorded, args.duration, WINDOW)?;
    let answer = match &window {
        Some(window) => {
            let answer = window.answer_of_groups(&args.of.names)?;
            Window::need(&answer, FeatureId::CpuWaits)?;
            answer
        }
        None => live(args, config, &mut observed)?,
    };
    let thresholds = config.verdicts.thresholds();
    let processes = observed
        .is_some()
        .then(|| answer.builder.report(Level::Process, false));
    let times = answer.times();
    let builder = answer.builder.select(answer.selection);
    let mut report = builder.waits(level, answer.followed, &thresholds);
    // The settings at the time of a recording can no longer be read.
    if let Some((observed, processes)) = observed.zip(processes) {
        observed.settle(&mut report, level, &processes);
    } else if let Some(window) = window.filter(|_| report.blames_commands()) {
        // Only names need the processes of a recording.
        let all = window.answer(Some(By::Process), &Names::default())?;
        report.name_commands(&all.builder.report(Level::Process, false));
    }
    if args.json {
        let json = noctule_sinks::json::waits_json(&report, level);
        output.write(&format!("{json}\n"))?;
    } else {
        let paint = output.paint().wide(args.of.shape.wide);
        let answers = wait_answers::draw(&report, level, args.top, paint);
        let table = match args.blocked {
            true => {
                let table = blocked_table::draw(&report, level, args.top, &choice, paint);
                table + &disk_lines::below_table(&report, level, paint)
            }
            false => wait_table::draw(&report, level, args.top, &choice, paint),
        };
        output.print(&(times + &answers + &table + &lost(&report.losses, paint)))?;
    }
    Ok(answer.code)
}

fn live(args: &WaitsArgs, config: &Config, observed: &mut Option<Observed>) -> Result<Answer> {
    check(config)?;
    let signals = Signals::catch()?;
    let tape = window::keep(&args.of.source, (&config.host, &args.of.command))?;
    let mut pipeline = match args.blocked {
        true => Pipeline::start_with_blocks(config, Shown::Waits)?,
        false => Pipeline::start(config, Shown::Waits, true)?,
    };
    pipeline.need(FeatureId::CpuWaits)?;
    let selection = pipeline.select(&args.of.names, Some(&args.of.command))?;
    *observed = Some(Observed::begin(pipeline.setting_files()));
    let watched = Watched {
        command: &args.of.command,
        window: WINDOW,
        limit: args.duration,
        // Processes that end in the window count for the names of commands.
        detail: window::detail(
            Some(By::Process),
            &args.of.names,
            !args.of.command.is_empty(),
        ),
        tape: tape.as_ref(),
    };
    let answer = watch(&mut pipeline, &signals, &watched)?;
    Ok(Answer {
        selection,
        ..answer
    })
}

/// Returns an error if the configuration disables run-queue latency.
pub(super) fn check(config: &Config) -> Result<()> {
    if !config.collect.waits {
        bail!(Usage(
            "collect.waits is false in the configuration: set it to true".into()
        ));
    }
    Ok(())
}
