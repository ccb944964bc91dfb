//! Measures every load in rounds: alone and with every contender, in turn.

use anyhow::Result;

use super::cell::Cell;
use super::contender::{self, Bed, Contender};
use super::figures::{Figures, Place};
use super::host::Statistics;
use super::load::Load;
use super::population::Population;
use super::stop::{Interrupted, Stop};
use super::{Args, say};

/// The plan of a run.
pub(super) struct Plan {
    pub(super) rounds: u32,
    pub(super) quick: bool,
    pub(super) loads: Vec<Load>,
    pub(super) contenders: Vec<Contender>,
    /// Contenders that cannot run here, with the reason.
    pub(super) absent: Vec<(Contender, String)>,
    /// Loads that cannot run here, with the reason.
    pub(super) absent_loads: Vec<(Load, String)>,
}

impl Plan {
    /// Creates the plan, and tries each contender once.
    pub(super) fn new(args: &Args, bed: &Bed, stop: &Stop) -> Result<Self> {
        let wanted = |load: &Load| args.only.is_empty() || args.only.contains(load);
        let mut plan = Self {
            rounds: if args.quick { 1 } else { args.rounds },
            quick: args.quick,
            loads: Load::ALL.into_iter().filter(wanted).collect(),
            contenders: Vec::new(),
            absent: Vec::new(),
            absent_loads: Vec::new(),
        };
        plan.loads.retain(|&load| match load.check() {
            Ok(()) => true,
            Err(error) => {
                plan.absent_loads.push((load, format!("{error:#}")));
                false
            }
        });
        for name in &args.beside {
            let known = contender::ALL.iter().any(|c| c.name == name);
            let names = contender::ALL.map(|c| c.name).join(", ");
            anyhow::ensure!(known, "--beside {name}: there are {names}");
        }
        if Statistics::are_on() {
            say("kernel.bpf_stats_enabled is on already: every BPF program is slower than it is");
        }
        let loads = plan.loads.clone();
        let chosen = |c: &Contender| {
            let references = [contender::NONE, contender::EMPTY, contender::SCAN];
            let references = [&references[..], &contender::FLOORS].concat();
            let named = args.beside.iter().any(|name| name == c.name);
            let wanted = args.beside.is_empty() || named || references.contains(&c.name);
            wanted && loads.iter().any(|&load| c.takes_part(load))
        };
        for contender in contender::ALL.into_iter().filter(chosen) {
            say(&format!("trying {}", contender.name));
            match contender.start(bed, stop) {
                Ok(_) => plan.contenders.push(contender),
                Err(error) if error.is::<Interrupted>() => return Err(error),
                Err(error) if contender.name == contender::OURS => {
                    return Err(error.context("the agent cannot run"));
                }
                // Another build of the agent may reject the configuration of a variant.
                Err(error) => plan.absent.push((contender, format!("{error:#}"))),
            }
        }
        Ok(plan)
    }
}

/// Measures everything.
pub(super) fn run(plan: &Plan, bed: &Bed, stop: &Stop, figures: &mut Figures) -> Result<()> {
    for &load in &plan.loads {
        // An extra run lets caches, frequencies and the page cache settle before the first round.
        let _population = match load {
            load if load.lasts() => {
                say(&format!("starting the load {}", load.name()));
                Some(Population::start(load, stop)?)
            }
            load => {
                load.run(load.operations(true), stop)?;
                None
            }
        };
        let takes_part = |c: &&Contender| c.takes_part(load);
        let mut turns: Vec<&Contender> = plan.contenders.iter().filter(takes_part).collect();
        for round in 0..plan.rounds {
            for contender in &turns {
                let cell = Cell {
                    plan,
                    bed,
                    stop,
                    place: Place {
                        load: load.name(),
                        contender: contender.name,
                        round,
                    },
                };
                cell.say();
                if let Err(error) = cell.measure(load, contender, figures) {
                    if error.is::<Interrupted>() {
                        return Err(error);
                    }
                    say(&format!("no figures of {}: {error:#}", contender.name));
                }
            }
            // Another contender comes first in the next round.
            turns.rotate_left(1);
        }
    }
    Ok(())
}
