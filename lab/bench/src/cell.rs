//! One measurement: a load with a contender, in one round.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::contender::{Bed, Contender, Running};
use super::events::{self, Marks, Sort};
use super::figures::{self, Figures, Kind, Place, Summary};
use super::load::{Load, Outcome, Subject};
use super::rounds::Plan;
use super::scrape::scrape;
use super::stop::Stop;
use super::{cost, host, say};

/// Time to wait after the start of an agent, because its first ticks cost more than later ones.
const SETTLE: Duration = Duration::from_secs(3);
const SCRAPES: u32 = 50;
/// Pause before each load, with or without contender, because the end of the previous contender
/// leaves work behind.
const PAUSE: Duration = Duration::from_secs(1);

/// A load with a contender in one round.
pub(super) struct Cell<'a> {
    pub(super) plan: &'a Plan,
    pub(super) bed: &'a Bed,
    pub(super) stop: &'a Stop,
    pub(super) place: Place,
}

impl Cell<'_> {
    pub(super) fn say(&self) {
        let Place {
            load,
            contender,
            round,
        } = self.place;
        let (round, rounds) = (round + 1, self.plan.rounds);
        say(&format!("{load}, round {round} of {rounds}: {contender}"));
    }

    pub(super) fn measure(
        &self,
        load: Load,
        contender: &Contender,
        figures: &mut Figures,
    ) -> Result<()> {
        let mut running = contender.start(self.bed, self.stop)?;
        if load.lasts() {
            self.population(contender, &running, figures)?;
            return running.check();
        }
        let outcomes = self.slowdown(load, &running, figures)?;
        running.check()?;
        if let Subject::Events(sort) = load.subject() {
            self.delivered(sort, &outcomes, running, figures)?;
        }
        Ok(())
    }

    /// Measures the slowdown, and returns the outcome of every run.
    fn slowdown(
        &self,
        load: Load,
        running: &Running,
        figures: &mut Figures,
    ) -> Result<Vec<Outcome>> {
        let operations = load.operations(self.plan.quick);
        self.stop.sleep(PAUSE)?;
        let agent_before = self.cpu_ns(running)?;
        let mut outcomes = Vec::new();
        for _ in 0..load.runs() {
            outcomes.push(load.run(operations, self.stop)?);
        }
        self.events_cost(load, running, &outcomes, agent_before, figures)?;
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
        // BPF statistics slow the programs down, so the cost is measured in a separate run.
        let per = cost::Per::of(load, operations);
        let cost = cost::measure(&running.pids(), self.place, per, figures, || {
            outcomes.push(load.run(operations, self.stop)?);
            Ok(())
        });
        cost.map(|()| outcomes)
    }

    fn cpu_ns(&self, running: &Running) -> Result<u64> {
        running.pids().into_iter().map(host::cpu_ns).sum()
    }

    /// Records the CPU time that the process needs to report the events of these runs.
    fn events_cost(
        &self,
        load: Load,
        running: &Running,
        outcomes: &[Outcome],
        before: u64,
        figures: &mut Figures,
    ) -> Result<()> {
        if load.subject() == Subject::Accounting || running.pids().is_empty() {
            return Ok(());
        }
        running.drain(self.stop)?;
        let operations: u64 = outcomes.iter().map(|o| o.operations).sum();
        let ns = self.cpu_ns(running)?.saturating_sub(before) as f64;
        figures.add(self.place, &figures::AGENT_TIME, ns / operations as f64);
        Ok(())
    }

    /// Records how many events of the load were reported.
    fn delivered(
        &self,
        sort: Sort,
        outcomes: &[Outcome],
        running: Running,
        figures: &mut Figures,
    ) -> Result<()> {
        running.drain(self.stop)?;
        let pids: Vec<u32> = outcomes.iter().map(|o| o.pid).collect();
        let operations: u64 = outcomes.iter().map(|o| o.operations).sum();
        let all = running.end()?;
        if all.is_empty() {
            return Ok(());
        }
        let (mut expected, mut delivered, mut lost) = (0, 0, 0);
        for said in &all {
            let (reported, gaps) = Marks::new(sort, &pids).count(said.format, &said.output);
            expected += sort.of_operation(said.format) * operations;
            delivered += reported;
            lost += gaps + events::lost_words(&said.errors);
        }
        let mut add = |kind, value: f64| figures.add(self.place, kind, value);
        add(&figures::EVENTS_EXPECTED, expected as f64);
        add(&figures::EVENTS_DELIVERED, delivered as f64);
        add(&figures::EVENTS_LOST, lost as f64);
        add(&figures::EVENTS_MISSING, expected as f64 - delivered as f64);
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
        let pids = running.pids();
        cost::measure(&pids, self.place, cost::Per::Switch, figures, || {
            self.stop.sleep(window / 2)
        })
    }

    /// Records the CPU time, the memory and the scrapes of the contender's own process.
    fn agent(&self, running: &Running, window: Duration, figures: &mut Figures) -> Result<()> {
        let (before, began) = (self.cpu_ns(running)?, Instant::now());
        self.stop.sleep(window)?;
        let ns = self.cpu_ns(running)?.saturating_sub(before) as f64;
        let share = ns / began.elapsed().as_secs_f64() / 1e7;
        figures.add(self.place, &figures::AGENT_CPU, share);
        if let Some(address) = &running.address {
            self.scrapes(address, figures)?;
        }
        // Memory is read after the scrapes, which also need memory.
        let sizes = running.pids().into_iter();
        let kib: u64 = sizes
            .map(|pid| host::status(pid, "VmRSS"))
            .sum::<Result<_>>()?;
        let kib = kib as f64;
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
