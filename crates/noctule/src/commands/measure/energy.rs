//! `noctule energy`: energy of the node's meters, attributed to containers, pods, units or
//! processes.

use std::cmp::Reverse;
use std::time::Duration;

use anyhow::{Result, bail};
use noctule_analysis::{Attribution, Detail, Report, ReportBuilder};
use noctule_kernel::{Error, ErrorKind};
use noctule_model::Batch;

use super::energy_table;
use crate::args::{By, EnergyArgs};
use crate::commands::shared::columns::Choice;
use crate::commands::shared::watch::{Output, Watched, watch_each};
use crate::commands::shared::window::{self, Answer, Window};
use crate::config::Config;
use crate::exit::Usage;
use crate::idle_power;
use crate::stop::Signals;
use crate::users::{CommandLines, Users};
use crate::wire::{Pipeline, Shown};

const WINDOW: Duration = Duration::from_secs(10);
/// Maximum number of batches that are kept to attribute energy a second time. On large machines
/// each batch takes some MiB. The energy of a longer window is attributed only once, while noctule
/// still learns the power model at its start.
const AGAIN: usize = 60;

pub(crate) fn run(args: &EnergyArgs, config: &Config) -> Result<u8> {
    let shape = |followed| {
        let level = window::level(args.by, &args.of.names, followed);
        let choice = Choice::new(&args.of.shape, &energy_table::columns(), level)?;
        Ok::<_, Usage>((level, choice.headed(window::word(args.by, level))))
    };
    // As in `noctule stat`, wrong columns are reported before measuring. The level of a recording
    // is known only after reading it.
    shape(!args.of.command.is_empty())?;
    let mut output = Output::for_command(args.of.output.as_deref(), &args.of.command)?;
    let answer = match Window::open(&args.of.source.recorded, args.duration, WINDOW)? {
        Some(window) => of_recording(&window, args, config)?,
        None => live(args, config)?,
    };
    let followed = answer.followed;
    let (level, choice) = shape(followed)?;
    let times = answer.times();
    let builder = answer.builder.select(answer.selection);
    let mut report = match args.by {
        Some(By::Command) => builder.report(level, followed).by_command(),
        _ => builder.report(level, followed),
    };
    sort(&mut report);
    let idle = config.energy.idle.into();
    if args.json {
        let json = noctule_sinks::json::energy_json(&report, level, idle);
        output.write(&format!("{json}\n"))?;
    } else {
        let live = args.of.source.recorded.from.is_none();
        let users = Users::new(live.then_some(CommandLines::new(config.events.args)));
        let paint = output.paint().wide(args.of.shape.wide);
        let table = energy_table::draw(&report, level, args.top, followed, &choice, &users, paint);
        output.print(&(times + &table))?;
    }
    Ok(answer.code)
}

fn live(args: &EnergyArgs, config: &Config) -> Result<Answer> {
    let signals = Signals::catch()?;
    let tape = window::keep(&args.of.source, (&config.host, &args.of.command))?;
    let config = config.with_waits_if(args.json || tape.is_some());
    let mut pipeline = Pipeline::start(&config, Shown::Use, tape.is_some())?;
    if !pipeline.has_meter() {
        return Err(no_meter().into());
    }
    let selection = pipeline.select(&args.of.names, Some(&args.of.command))?;
    let mut batches = Vec::new();
    let detail = window::detail(args.by, &args.of.names, !args.of.command.is_empty());
    let watched = Watched {
        command: &args.of.command,
        window: WINDOW,
        limit: args.duration,
        detail,
        tape: tape.as_ref(),
    };
    let answer = watch_each(&mut pipeline, &signals, &watched, &mut |batch| {
        if batches.len() <= AGAIN {
            batches.push(batch.clone());
        }
    })?;
    let answer = Answer {
        selection,
        ..answer
    };
    Ok(match batches.len() {
        1..=AGAIN => reattribute(batches, pipeline.attribution(), detail, answer),
        _ => answer,
    })
}

/// Reports the energy of a window of a recording. If the recording starts with the window, the
/// recording agent had no power model from earlier batches. The energy is then attributed as in a
/// live window.
fn of_recording(window: &Window, args: &EnergyArgs, config: &Config) -> Result<Answer> {
    let mut batches = Vec::new();
    let answer = window.answer_and_show(args.by, &args.of.names, &mut |batch| {
        if batches.len() <= AGAIN {
            batches.push(batch.clone());
        }
    })?;
    let last = batches.last().map_or(0, |batch: &Batch| batch.sequence);
    if !batches.is_empty() && batches.iter().all(|batch| batch.energy.is_none()) {
        bail!("the recorded machine had no energy meter");
    }
    let begun = window.tape.batches(&window.stretch.span, 0);
    let mut begun = begun.take_while(|batch| batch.sequence <= last).peekable();
    let young = begun
        .peek()
        .is_some_and(|first| last - first.sequence < AGAIN as u64);
    if !young {
        return Ok(answer);
    }
    let knowledge = idle_power::configured(config);
    let mut attribution = Attribution::new(config.energy.idle.into()).knowing(knowledge);
    begun.for_each(|mut batch| attribution.apply(&mut batch));
    let detail = window::detail(args.by, &args.of.names, answer.followed);
    Ok(reattribute(batches, &attribution, detail, answer))
}

/// Attributes the energy again, using the model learned in the window. When the window started,
/// idle power and the cost of work were still unknown.
fn reattribute(
    batches: Vec<Batch>,
    attribution: &Attribution,
    detail: Detail,
    answer: Answer,
) -> Answer {
    let Some(known) = batches.last().and_then(|batch| batch.energy.as_ref()) else {
        return answer;
    };
    let mut attribution = attribution.learned(known);
    let mut divided = batches.into_iter().map(|mut batch| {
        attribution.apply(&mut batch);
        batch
    });
    let Some(first) = divided.next() else {
        return answer;
    };
    let mut builder = ReportBuilder::new(first).with(detail);
    divided.for_each(|batch| builder.add(batch));
    Answer { builder, ..answer }
}

/// Sorts by energy, in descending order; rows without energy come last.
fn sort(report: &mut Report) {
    let Some(energy) = &report.energy else { return };
    report
        .rows
        .sort_by_key(|row| Reverse(energy.total_uj(&row.joules)));
}

/// Returns the error for a machine without a readable meter.
fn no_meter() -> Error {
    let words = "this machine has no readable energy meter: no powercap zone (RAPL), no hwmon \
                 energy or power sensor, no battery in use. Most virtual machines have none. \
                 Loading intel_rapl_msr or the driver of the board's sensors may help; reading \
                 powercap needs CAP_DAC_READ_SEARCH. If you know the power of its CPUs, set it in \
                 section [energy.model] of the configuration";
    Error::new(ErrorKind::Kernel, words)
}
