//! The commands, grouped by purpose. A group may use `shared`, but no other group.

use anyhow::Result;

use crate::args::{Args, Command};
use crate::config::Config;

mod about;
mod events;
#[cfg(test)]
mod golden;
mod live;
mod measure;
mod record;
mod shared;
mod trace;

/// Runs the command and returns the exit status.
pub(crate) fn run(args: Args) -> Result<u8> {
    let config = Config::load(args.config.as_deref())?;
    match args.command {
        Command::Run(run) => live::run::run(&run, config),
        Command::Stat(stat) => measure::stat::run(&stat, &config),
        Command::Energy(energy) => measure::energy::run(&energy, &config),
        Command::Waits(waits) => measure::waits::run(&waits, &config),
        Command::Why(why) => measure::why::run(&why, &config),
        Command::Top(top) => live::top(&top, &config),
        Command::Events(events) => events::run(&events, &config),
        Command::Record(record) => record::run(&record, &config),
        Command::Tape(tape) => record::tape::run(&tape, &config),
        Command::Diff(diff) => record::diff::run(&diff),
        Command::Hist(hist) => trace::hist::run(&hist),
        Command::Load(load) => trace::load::run(&load),
        Command::Probes(probes) => trace::probes::run(&probes),
        Command::Trigger(trigger) => trace::trigger::run(&trigger),
        Command::Trace(trace) => trace::run(&trace),
        Command::Doctor(doctor) => about::doctor::run(&doctor, &config),
        Command::Completions(completions) => about::docs::completions(&completions),
        Command::Man(man) => about::docs::man(&man),
    }
}
