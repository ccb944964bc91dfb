//! `noctule why NAME`: everything about one container, pod, unit, cgroup or process.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use noctule_analysis::{
    CpuWindow, Detail, ProcessUse, ReportBuilder, Strip, Thresholds, WaitReportRow, Why,
};
use noctule_model::{AsleepThreads, Batch, FeatureId, Level};
use noctule_text::{Tone, escape};

use super::settings::Observed;
use super::subject;
use super::subject::{Seen, Subject};
use super::waits::check;
use super::why_text;
use crate::args::{By, Names, WhyArgs};
use crate::commands::shared::watch::{Output, Watched, watch_each};
use crate::commands::shared::window::{Answer, Window};
use crate::config::Config;
use crate::exit::Usage;
use crate::stop::Signals;
use crate::users::CommandLines;
use crate::wire::{Pipeline, Shown};

const WINDOW: Duration = Duration::from_secs(5);

pub(crate) fn run(args: &WhyArgs, config: &Config) -> Result<u8> {
    let mut output = Output::open(args.output.as_deref())?;
    let (found, why, asleep, answer) = match Window::open(&args.recorded, args.duration, WINDOW)? {
        Some(window) => recorded(args, &window, config)?,
        None => live(args, config)?,
    };
    if !asleep.is_empty() {
        return write_asleep(args, (&found.name, &why, &asleep), &answer, &mut output);
    }
    let has_answer = |row: &WaitReportRow| row.is_active() || why.below.is_empty();
    if !why.row().is_some_and(has_answer) {
        bail!(Usage(nothing(&found, &why, args.recorded.from.as_deref())));
    }
    if args.json {
        let json = noctule_sinks::json::why_json(&why);
        output.write(&format!("{json}\n"))?;
    } else {
        let text = why_text::draw(&why, output.paint().wide(args.wide));
        output.print(&(answer.times() + &text))?;
    }
    Ok(answer.code)
}

/// Writes the output for a group without runnable threads in the window. The output describes the
/// events that its threads wait for.
fn write_asleep(
    args: &WhyArgs,
    (name, why, threads): (&str, &Why, &[AsleepThreads]),
    answer: &Answer,
    output: &mut Output,
) -> Result<u8> {
    if args.json {
        let json = noctule_sinks::json::asleep_json(why, name, threads);
        output.write(&format!("{json}\n"))?;
    } else {
        let words = noctule_text::asleep(name, why.report.window_ns, threads);
        let paint = output.paint().wide(args.wide);
        output.print(&(answer.times() + &paint.folded(Tone::Strong, &escape(&words), 2)))?;
    }
    Ok(answer.code)
}

/// Returns the error message for a group in which no thread of its own ran or waited for a CPU.
/// `recording` is the folder of the recording, if there is one.
fn nothing(found: &Subject, why: &Why, recording: Option<&Path>) -> String {
    let (name, path) = (escape(&found.name), escape(found.path()));
    let window = noctule_text::duration(why.report.window_ns);
    if why.below.is_empty() {
        return format!("{name} neither ran nor waited for a CPU in {window}: try a longer --for");
    }
    let below: Vec<String> = why.below.iter().map(|path| escape(path)).collect();
    let from = recording.map_or_else(String::new, |folder| {
        format!(" --from {}", escape(&folder.to_string_lossy()))
    });
    format!(
        "no process directly in {name} ran or waited for a CPU in {window}; active below it: {}; \
         ask for one of these, or run noctule waits{from} --by cgroup --cgroup {path}",
        below.join(", ")
    )
}

/// The subject, its report, its blocked threads (only if none of its threads ran or waited for a
/// CPU), and the window.
type Found = (Subject, Why, Vec<AsleepThreads>, Answer);

fn live(args: &WhyArgs, config: &Config) -> Result<Found> {
    check(config)?;
    let signals = Signals::catch()?;
    let mut pipeline = Pipeline::start_with_blocks(config, Shown::All)?;
    pipeline.need(FeatureId::CpuWaits)?;
    let found = subject::find(&args.name, &mut pipeline)?;
    let observed = Observed::begin(pipeline.setting_files());
    let mut course = Course::of(&found);
    let asked = Watched {
        command: &[],
        window: WINDOW,
        limit: args.duration,
        detail: Detail::Processes,
        tape: None,
    };
    let watched = watch_each(&mut pipeline, &signals, &asked, &mut |batch| {
        course.observe(batch);
    })?;
    let thresholds = config.verdicts.thresholds();
    let commands = CommandLines::new(config.events.args);
    let mut why = answer(&watched.builder, &found, &observed, commands, &thresholds);
    course.complete(&mut why);
    let asleep = match why.is_asleep() && why.below.is_empty() {
        true => observed.files().asleep(found.path()),
        false => Vec::new(),
    };
    Ok((found, why, asleep, watched))
}

/// Builds the report from a recording. Settings from files can no longer be read.
fn recorded(args: &WhyArgs, window: &Window, config: &Config) -> Result<Found> {
    // `By::Process` makes the report include processes, also exited ones.
    let (by, names) = (Some(By::Process), Names::default());
    // The first pass resolves the name from a report's batches, which contain every row.
    let mut seen = Seen::default();
    window.answer_and_show_needed(by, &names, &mut |batch| seen.note(batch))?;
    let found = seen.find(&args.name)?;
    let mut course = Course::of(&found);
    let answer = window.answer_and_show(by, &names, &mut |batch| course.observe(batch))?;
    Window::need(&answer, FeatureId::CpuWaits)?;
    let thresholds = config.verdicts.thresholds();
    let mut why = answer.builder.why(
        &found.party,
        found.level,
        found.process.as_ref(),
        &thresholds,
    );
    let processes = answer.builder.report(Level::Process, false);
    why.report.name_commands(&processes);
    course.complete(&mut why);
    Ok((found, why, Vec::new(), answer))
}

/// Values that are updated with each batch of the window.
struct Course {
    strip: Strip,
    cpus: CpuWindow,
    level: Level,
}

impl Course {
    fn of(found: &Subject) -> Self {
        Self {
            strip: Strip::new(&found.party, found.level),
            cpus: CpuWindow::default(),
            level: found.level,
        }
    }

    fn observe(&mut self, batch: &Batch) {
        self.strip.observe(batch);
        self.cpus.observe(batch);
    }

    fn complete(&self, why: &mut Why) {
        why.steps = self.strip.steps().to_vec();
        why.cpus = self.cpus.cpus(self.level);
    }
}

/// Returns the report for the subject, with settings read from the kernel's files.
fn answer(
    builder: &ReportBuilder,
    found: &Subject,
    observed: &Observed,
    commands: CommandLines,
    thresholds: &Thresholds,
) -> Why {
    let mut why = builder.why(
        &found.party,
        found.level,
        found.process.as_ref(),
        thresholds,
    );
    let processes = builder.report(Level::Process, false);
    observed.settle(&mut why.report, found.level, &processes);
    let files = observed.files();
    let path = found.path();
    why.weight = files.weight(path);
    why.idle = files.idle(path);
    why.pressure = files.pressure(path);
    let allowed = files.allowed(&files.processes(path));
    why.allowed = allowed.map(|cpus| cpus.into_iter().collect());
    let name = |process: &mut ProcessUse| {
        if !process.exited {
            process.real_time = observed.policy(process.id.pid);
            process.command = commands.line_or_name(process.id.pid);
        }
    };
    why.processes.iter_mut().for_each(name);
    let culprits = why.culprits.iter_mut();
    culprits.for_each(|(_, processes)| processes.iter_mut().for_each(name));
    why
}
