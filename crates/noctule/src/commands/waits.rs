//! `noctule waits`: who waited for the CPU in a window, and because of whom.

use std::time::Duration;

use anyhow::{Result, bail};
use noctule_model::{FeatureId, Level};

use super::recorded::{self, Answer, Window};
use super::wait_table;
use super::watch::{Output, watch};
use crate::args::WaitsArgs;
use crate::config::Config;
use crate::exit::Usage;
use crate::stop::Signals;
use crate::wire::{Pipeline, Shown};

const WINDOW: Duration = Duration::from_secs(10);

pub(super) fn run(args: &WaitsArgs, config: &Config) -> Result<u8> {
    let mut output = Output::beside(args.output.as_deref(), &args.command)?;
    let answer = match Window::open(&args.source, args.duration, WINDOW)? {
        Some(window) => {
            let answer = window.answer(&args.names, &mut |_| {})?;
            Window::need(&answer, FeatureId::CpuWaits)?;
            answer
        }
        None => live(args, config)?,
    };
    let level = Level::from(args.by);
    let thresholds = config.verdicts.thresholds();
    let builder = answer.builder.select(answer.selection);
    let report = builder.waits(level, answer.followed, &thresholds);
    if args.json {
        let json = noctule_sinks::json::waits_json(&report, level);
        output.write(&format!("{json}\n"))?;
    } else {
        let paint = output.paint();
        output.write(&wait_table::draw(&report, level, args.top, paint))?;
    }
    Ok(answer.code)
}

fn live(args: &WaitsArgs, config: &Config) -> Result<Answer> {
    if !config.collect.waits {
        bail!(Usage(
            "collect.waits is false in the configuration: set it to true".into()
        ));
    }
    let signals = Signals::catch()?;
    let tape = recorded::keep(&args.source, &args.command)?;
    let mut pipeline = Pipeline::start(config, Shown::Waits)?;
    pipeline.need(FeatureId::CpuWaits)?;
    let selection = pipeline.select(&args.names, &args.command)?;
    let answer = watch(
        &mut pipeline,
        &signals,
        &args.command,
        WINDOW,
        args.duration,
        tape.as_ref(),
    )?;
    Ok(Answer {
        selection,
        ..answer
    })
}
