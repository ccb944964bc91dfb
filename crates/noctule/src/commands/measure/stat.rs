//! `noctule stat`: CPU time of a window by container, pod, unit, cgroup or process.

use std::time::Duration;

use anyhow::Result;

use crate::args::{By, StatArgs};
use crate::commands::shared::columns::Choice;
use crate::commands::shared::stat_table;
use crate::commands::shared::watch::{Output, Watched, watch};
use crate::commands::shared::window::{self, Answer, Window};
use crate::config::Config;
use crate::exit::Usage;
use crate::stop::Signals;
use crate::users::{CommandLines, Users};
use crate::wire::{Pipeline, Shown};

const WINDOW: Duration = Duration::from_secs(5);

pub(crate) fn run(args: &StatArgs, config: &Config) -> Result<u8> {
    let shape = |followed| {
        let level = window::level(args.by, &args.of.names, followed);
        let choice = Choice::new(&args.of.shape, &stat_table::columns(), level)?;
        Ok::<_, Usage>((level, choice.headed(window::word(args.by, level))))
    };
    // Wrong columns are reported before anything is measured. Whether a recording followed a
    // command is known only after reading it.
    shape(!args.of.command.is_empty())?;
    let mut output = Output::for_command(args.of.output.as_deref(), &args.of.command)?;
    let answer = match Window::open(&args.of.source.recorded, args.duration, WINDOW)? {
        Some(window) => window.answer(args.by, &args.of.names)?,
        None => live(args, config)?,
    };
    let followed = answer.followed;
    let (level, choice) = shape(followed)?;
    let times = answer.times();
    let builder = answer.builder.select(answer.selection);
    let report = match args.by {
        Some(By::Command) => builder.report(level, followed).by_command(),
        _ => builder.report(level, followed),
    };
    if args.json {
        output.write(&format!(
            "{}\n",
            noctule_sinks::json::stat_json(&report, level)
        ))?;
    } else {
        let live = args.of.source.recorded.from.is_none();
        let users = Users::new(live.then_some(CommandLines::new(config.events.args)));
        let paint = output.paint().wide(args.of.shape.wide);
        let table = stat_table::draw(&report, level, args.top, followed, &choice, &users, paint);
        output.print(&(times + &table))?;
    }
    Ok(answer.code)
}

fn live(args: &StatArgs, config: &Config) -> Result<Answer> {
    let signals = Signals::catch()?;
    let followed = !args.of.command.is_empty();
    // The table needs only the events of groups; JSON also needs the events of the node.
    let processes = matches!(args.by, Some(By::Process | By::Command))
        || args.by.is_none() && !args.of.names.pid.is_empty();
    let shown = match (processes, followed, args.json) {
        (true, _, false) | (_, true, false) => Shown::Use,
        _ => Shown::All,
    };
    let tape = window::keep(&args.of.source, (&config.host, &args.of.command))?;
    // The table has no column for waits.
    let config = config.with_waits_if(args.json || tape.is_some());
    let mut pipeline = Pipeline::start(&config, shown, tape.is_some())?;
    let selection = pipeline.select(&args.of.names, Some(&args.of.command))?;
    let watched = Watched {
        command: &args.of.command,
        window: WINDOW,
        limit: args.duration,
        detail: window::detail(args.by, &args.of.names, followed),
        tape: tape.as_ref(),
    };
    let answer = watch(&mut pipeline, &signals, &watched)?;
    Ok(Answer {
        selection,
        ..answer
    })
}
