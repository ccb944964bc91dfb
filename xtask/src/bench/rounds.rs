//! The measuring: every load alone and beside every contender, in turns.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::contender::{self, Bed, Contender};
use super::figures::{self, Figures, Kind, Place, Summary};
use super::host::{self, Run, Statistics};
use super::load::{Load, Outcome};
use super::population::Population;
use super::scrape::scrape;
use super::stop::{Interrupted, Stop};
use super::{Args, contender::Running, say};

/// After the start of an agent: its first ticks cost more than the rest.
const SETTLE: Duration = Duration::from_secs(3);
const SCRAPES: u32 = 50;
/// Before each load, also before one that runs alone: the end of the last contender has work left.
const PAUSE: Duration = Duration::from_secs(1);
/// A sample of a load is the fastest of so many runs: bursts of others' work are shorter than all.
const RUNS: u32 = 3;

/// What is to be measured.
pub(super) struct Plan {
    pub(super) rounds: u32,
    pub(super) quick: bool,
    pub(super) loads: Vec<Load>,
    pub(super) contenders: Vec<Contender>,
    /// Contenders that cannot run here, with the reason.
    pub(super) absent: Vec<(Contender, String)>,
}

impl Plan {
    /// Tries each contender once.
    pub(super) fn new(args: &Args, bed: &Bed, stop: &Stop) -> Result<Self> {
        let wanted = |load: &Load| args.only.is_empty() || args.only.contains(load);
        let mut plan = Self {
            rounds: if args.quick { 1 } else { args.rounds },
            quick: args.quick,
            loads: Load::ALL.into_iter().filter(wanted).collect(),
            contenders: Vec::new(),
            absent: Vec::new(),
        };
        for name in &args.beside {
            let known = contender::ALL.iter().any(|c| c.name == name);
            let names = contender::ALL.map(|c| c.name).join(", ");
            anyhow::ensure!(known, "--beside {name}: there are {names}");
        }
        if Statistics::are_on() {
            say("kernel.bpf_stats_enabled is on already: every BPF program is slower than it is");
        }
        let chosen = |c: &Contender| {
            let references = [contender::NONE, contender::EMPTY, contender::SCAN];
            let named = args.beside.iter().any(|name| name == c.name);
            args.beside.is_empty() || named || references.contains(&c.name)
        };
        for contender in contender::ALL.into_iter().filter(chosen) {
            say(&format!("trying {}", contender.name));
            match contender.start(bed, stop) {
                Ok(_) => plan.contenders.push(contender),
                Err(error) if error.is::<Interrupted>() => return Err(error),
                Err(error) if contender.name == contender::OURS => {
                    return Err(error.context("the agent cannot run"));
                }
                // Another build of the agent may refuse the configuration of a variant.
                Err(error) => plan.absent.push((contender, format!("{error:#}"))),
            }
        }
        Ok(plan)
    }
}

/// Measures everything.
pub(super) fn run(plan: &Plan, bed: &Bed, stop: &Stop, figures: &mut Figures) -> Result<()> {
    for &load in &plan.loads {
        // Caches, frequencies and the page cache settle before the first round.
        let _population = match load {
            Load::Population => {
                say("starting the population");
                Some(Population::start(stop)?)
            }
            load => {
                load.run(load.operations(true), stop)?;
                None
            }
        };
        let takes_part = |c: &&Contender| match load {
            Load::Population => !c.is_nothing(),
            _ => c.attaches(),
        };
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
            // Another one is first in the next round.
            turns.rotate_left(1);
        }
    }
    Ok(())
}

/// One load beside one contender in one round.
struct Cell<'a> {
    plan: &'a Plan,
    bed: &'a Bed,
    stop: &'a Stop,
    place: Place,
}

impl Cell<'_> {
    fn say(&self) {
        let Place {
            load,
            contender,
            round,
        } = self.place;
        let (round, rounds) = (round + 1, self.plan.rounds);
        say(&format!("{load}, round {round} of {rounds}: {contender}"));
    }

    fn measure(&self, load: Load, contender: &Contender, figures: &mut Figures) -> Result<()> {
        let mut running = contender.start(self.bed, self.stop)?;
        match (load, &running) {
            (Load::Population, Some(running)) => self.population(contender, running, figures)?,
            (Load::Population, None) => {}
            (load, running) => self.slowdown(load, running.as_ref(), figures)?,
        }
        running.as_mut().map_or(Ok(()), Running::check)
    }

    fn slowdown(&self, load: Load, running: Option<&Running>, figures: &mut Figures) -> Result<()> {
        let operations = load.operations(self.plan.quick);
        self.stop.sleep(PAUSE)?;
        let mut outcomes = Vec::new();
        for _ in 0..RUNS {
            outcomes.push(load.run(operations, self.stop)?);
        }
        let fastest = |value: &dyn Fn(&Outcome) -> f64| {
            let values = outcomes.iter().map(value);
            values.fold(f64::INFINITY, f64::min)
        };
        let mut add = |kind, value| figures.add(self.place, kind, value);
        add(
            &figures::ELAPSED,
            fastest(&|o| o.per_operation(o.elapsed_ns)),
        );
        add(&figures::CPU, fastest(&|o| o.per_operation(o.cpu_ns)));
        let last = outcomes.last();
        if let Some((outcome, switches)) = last.and_then(|o| Some((o, o.switches?))) {
            add(&figures::SWITCHES, outcome.per_operation(switches));
        }
        // A run of its own, because being measured makes the programs slower.
        let Some(running) = running else {
            return Ok(());
        };
        self.cost(running, figures, || {
            load.run(operations, self.stop).map(|_| ())
        })
    }

    /// What the programs of a contender cost while `work` is done.
    fn cost(
        &self,
        running: &Running,
        figures: &mut Figures,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let pid = running.pid();
        if host::programs(pid)?.is_empty() {
            return Ok(());
        }
        let names = host::program_names();
        let _statistics = Statistics::on()?;
        let (before, switches_before) = (host::programs(pid)?, host::switches()?);
        let began = Instant::now();
        work()?;
        let seconds = began.elapsed().as_secs_f64();
        let switches = (host::switches()? - switches_before).max(1) as f64;
        let programs = by_name(&grown(&before, &host::programs(pid)?), &names);
        let sum: u64 = programs.values().map(|run| run.ns).sum();
        let mut add = |kind, program, value| figures.add_of(self.place, kind, program, value);
        add(&figures::BPF_PER_SWITCH, None, sum as f64 / switches);
        add(&figures::BPF_SHARE, None, sum as f64 / seconds / 1e7);
        add(&figures::MACHINE_SWITCHES, None, switches / seconds);
        for (name, run) in programs.iter().filter(|(_, run)| run.count > 0) {
            let name = Some(name.as_str());
            let ns = run.ns as f64;
            add(&figures::PROGRAM_RUN, name, ns / run.count as f64);
            add(&figures::PROGRAM_PER_SWITCH, name, ns / switches);
            add(&figures::PROGRAM_RUNS, name, run.count as f64 / seconds);
        }
        Ok(())
    }

    fn population(
        &self,
        contender: &Contender,
        running: &Running,
        figures: &mut Figures,
    ) -> Result<()> {
        let window = Duration::from_secs(if self.plan.quick { 3 } else { 10 });
        if contender.is_agent() {
            self.stop.sleep(SETTLE)?;
            self.agent(running, window, figures)?;
        }
        self.cost(running, figures, || self.stop.sleep(window / 2))
    }

    /// What the process itself costs.
    fn agent(&self, running: &Running, window: Duration, figures: &mut Figures) -> Result<()> {
        let pid = running.pid();
        let (before, began) = (host::cpu_ns(pid)?, Instant::now());
        self.stop.sleep(window)?;
        let ns = host::cpu_ns(pid)?.saturating_sub(before) as f64;
        let share = ns / began.elapsed().as_secs_f64() / 1e7;
        figures.add(self.place, &figures::AGENT_CPU, share);
        if let Some(address) = &running.address {
            self.scrapes(address, figures)?;
        }
        // After the scrapes: they need memory too.
        let kib = host::status(pid, "VmRSS")? as f64;
        figures.add(self.place, &figures::AGENT_MEMORY, kib * 1024.0 / 1e6);
        Ok(())
    }

    fn scrapes(&self, address: &str, figures: &mut Figures) -> Result<()> {
        let mut times = Vec::new();
        let mut bytes = 0;
        for _ in 0..SCRAPES {
            self.stop.check()?;
            let scrape = scrape(address).context("scraping the agent")?;
            times.push(scrape.time.as_secs_f64() * 1e3);
            bytes = scrape.bytes;
            thread::sleep(Duration::from_millis(10));
        }
        let times = Summary::of(times);
        let mut add = |kind: &'static Kind, value| figures.add(self.place, kind, value);
        add(&figures::SCRAPE, times.median);
        add(&figures::SCRAPE_BEST, times.minimum);
        add(&figures::SCRAPE_SIZE, bytes as f64 / 1e3);
        Ok(())
    }
}

/// What each program did in between; one that is new counts from 0.
fn grown(before: &BTreeMap<u32, Run>, after: &BTreeMap<u32, Run>) -> BTreeMap<u32, Run> {
    let growth = |(id, run): (&u32, &Run)| {
        let old = before.get(id).copied().unwrap_or_default();
        let run = Run {
            ns: run.ns.saturating_sub(old.ns),
            count: run.count.saturating_sub(old.count),
        };
        (*id, run)
    };
    after.iter().map(growth).collect()
}

/// Programs of one name (one for each CPU, or each generation of a hook) are one.
fn by_name(runs: &BTreeMap<u32, Run>, names: &BTreeMap<u32, String>) -> BTreeMap<String, Run> {
    let mut sums = BTreeMap::<String, Run>::new();
    for (id, run) in runs {
        let name = names.get(id).filter(|name| !name.is_empty());
        let name = name.cloned().unwrap_or_else(|| format!("#{id}"));
        let sum = sums.entry(name).or_default();
        sum.ns += run.ns;
        sum.count += run.count;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_grow_from_where_they_were_and_add_up_by_name() {
        let run = |ns, count| Run { ns, count };
        let before = BTreeMap::from([(1, run(100, 10))]);
        let after = BTreeMap::from([(1, run(150, 11)), (2, run(7, 1)), (3, run(5, 1))]);
        let names = BTreeMap::from([(1, "a".to_owned()), (2, "a".to_owned())]);
        let sums = by_name(&grown(&before, &after), &names);
        let expected = [("#3".to_owned(), run(5, 1)), ("a".to_owned(), run(57, 2))];
        assert_eq!(sums, BTreeMap::from(expected));
    }
}
