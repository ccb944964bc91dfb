//! `noctule why NAME`: everything about one container, pod, unit, cgroup or process.

use std::time::Duration;

use anyhow::{Result, bail};
use noctule_analysis::{ProcessUse, ReportBuilder, Strip, Thresholds, Why};
use noctule_model::FeatureId;

use super::settings::Observed;
use super::subject::Subject;
use super::waits::{check, kernel_threads};
use super::watch::{Output, watch_each};
use super::{subject, why_text};
use crate::args::WhyArgs;
use crate::config::Config;
use crate::exit::Usage;
use crate::stop::Signals;
use crate::wire::{Pipeline, Shown};

const WINDOW: Duration = Duration::from_secs(5);

pub(super) fn run(args: &WhyArgs, config: &Config) -> Result<u8> {
    check(config)?;
    let mut output = Output::open(args.output.as_deref())?;
    let signals = Signals::catch()?;
    let mut pipeline = Pipeline::start(config, Shown::All)?;
    pipeline.need(FeatureId::CpuWaits)?;
    let found = subject::find(&args.name, &mut pipeline)?;
    let observed = Observed::begin(pipeline.setting_files());
    let mut strip = Strip::new(&found.party, found.level);
    let watched = watch_each(
        &mut pipeline,
        &signals,
        &[],
        WINDOW,
        args.duration,
        None,
        &mut |batch| strip.observe(batch),
    )?;
    let mut why = answer(
        &watched.builder,
        &found,
        &observed,
        &config.verdicts.thresholds(),
    );
    why.steps = strip.steps().to_vec();
    if why.row().is_none() {
        let window = noctule_text::duration(why.report.window_ns);
        bail!(Usage(format!(
            "{} neither ran nor waited for a CPU in {window}",
            noctule_text::escape(&found.name)
        )));
    }
    if args.json {
        let json = noctule_sinks::json::why_json(&why);
        output.write(&format!("{json}\n"))?;
    } else {
        output.print(&why_text::draw(&why, output.paint().wide(args.wide)))?;
    }
    Ok(watched.code)
}

/// What happened to the subject in the window, with the figures that only the files of the kernel have.
fn answer(
    builder: &ReportBuilder,
    found: &Subject,
    observed: &Observed,
    thresholds: &Thresholds,
) -> Why {
    let mut why = builder.why(&found.party, found.level, thresholds);
    observed.settle(&mut why.report, &kernel_threads(builder));
    let files = observed.files();
    why.idle = observed.idle();
    let path = found.path();
    why.weight = files.weight(path);
    why.pressure = files.pressure(path);
    let allowed = files.allowed(&files.processes(path));
    why.allowed = allowed.map(|cpus| cpus.into_iter().collect());
    let name = |process: &mut ProcessUse| {
        if !process.exited {
            process.command = files.command_line(process.id.pid);
        }
    };
    why.processes.iter_mut().for_each(name);
    let culprits = why.culprits.iter_mut();
    culprits.for_each(|(_, processes)| processes.iter_mut().for_each(name));
    why
}
