//! Methods of attribution: noctule's own, and reimplementations of published ones.

use std::collections::HashMap;

use noctule_analysis::{Attribution, IdleEnergy};
use noctule_model::{Batch, Counter, Counters, ProcessId, ZoneAccount, ZoneKind};

/// Attributes the energy of a package to processes.
pub trait Method {
    /// Returns the name of the method.
    fn name(&self) -> &'static str;
    /// Processes the next batch.
    fn observe(&mut self, batch: &Batch);
    /// Returns the joules charged to a process so far.
    fn joules(&self, pid: u32) -> f64;
    /// Returns the joules that are not charged to a process so far.
    fn idle(&self) -> f64;
}

/// noctule's method.
#[derive(Debug, Default)]
pub struct Noctule {
    attribution: Attribution,
    joules: HashMap<u32, u64>,
    idle_uj: u64,
    accounts: Vec<ZoneAccount>,
}

impl Noctule {
    /// Creates the method with idle energy kept at the node.
    pub fn new() -> Self {
        Self {
            attribution: Attribution::new(IdleEnergy::Node),
            ..Self::default()
        }
    }

    /// Returns the attribution of each zone's energy so far.
    pub fn accounts(&self) -> &[ZoneAccount] {
        &self.accounts
    }

    /// Does the same work for a tick as the agent.
    pub fn divide(&mut self, mut batch: Batch) -> Batch {
        self.attribution.apply(&mut batch);
        batch
    }
}

impl Method for Noctule {
    fn name(&self) -> &'static str {
        "noctule"
    }

    fn observe(&mut self, batch: &Batch) {
        let batch = self.divide(batch.clone());
        for row in batch.processes.iter().chain(&batch.exited) {
            self.joules
                .insert(row.id.pid, row.joules[ZoneKind::Package]);
        }
        self.idle_uj = batch.zone_accounts.iter().map(|zone| zone.idle_uj).sum();
        self.accounts = batch.zone_accounts;
    }

    fn joules(&self, pid: u32) -> f64 {
        self.joules.get(&pid).map_or(0.0, |uj| *uj as f64 / 1e6)
    }

    fn idle(&self) -> f64 {
        self.idle_uj as f64 / 1e6
    }
}

/// The growth of counters between two batches, shared by the other methods.
#[derive(Debug, Default)]
struct Window {
    counters: HashMap<ProcessId, Counters>,
    elapsed_ns: u64,
    idle_ns: u64,
    energy_uj: u64,
    started: bool,
}

/// The growth in a window.
struct Growth {
    /// CPU time of each process, and whether the process still exists.
    cpu: Vec<(u32, f64, bool)>,
    busy_share: f64,
    elapsed_ns: f64,
    joules: f64,
}

impl Window {
    fn step(&mut self, batch: &Batch) -> Option<Growth> {
        let living = batch.processes.iter().map(|row| (row, true));
        let ended = batch.exited.iter().map(|row| (row, false));
        let mut cpu = Vec::new();
        for (row, lives) in living.chain(ended) {
            let before = self.counters.insert(row.id, row.counters);
            let grown = row.counters.since(&before.unwrap_or_default());
            cpu.push((row.id.pid, grown[Counter::CpuTime] as f64, lives));
        }
        let elapsed = batch.node.elapsed_ns - self.elapsed_ns;
        let idle = batch.node.idle_ns - self.idle_ns;
        let readings = &batch.energy.as_ref()?.readings;
        let reading: u64 = readings.iter().map(|reading| reading.energy_uj).sum();
        let joules = reading.saturating_sub(self.energy_uj) as f64 / 1e6;
        self.elapsed_ns = batch.node.elapsed_ns;
        self.idle_ns = batch.node.idle_ns;
        self.energy_uj = reading;
        let first = !std::mem::replace(&mut self.started, true);
        (!first).then(|| Growth {
            cpu,
            busy_share: 1.0 - idle as f64 / elapsed.max(1) as f64,
            elapsed_ns: elapsed.max(1) as f64,
            joules,
        })
    }
}

/// The plain ratio: subtracts noctule's idle energy and divides the rest of each interval by CPU
/// time.
#[derive(Debug, Default)]
pub struct PlainRatio {
    noctule: Noctule,
    window: Window,
    joules: HashMap<u32, f64>,
}

impl Method for PlainRatio {
    fn name(&self) -> &'static str {
        "plain ratio of CPU time"
    }

    fn observe(&mut self, batch: &Batch) {
        let before = self.noctule.idle_uj;
        self.noctule.observe(batch);
        let Some(growth) = self.window.step(batch) else {
            return;
        };
        let idle = (self.noctule.idle_uj - before) as f64 / 1e6;
        let active = (growth.joules - idle).max(0.0);
        let sum: f64 = growth.cpu.iter().map(|(_, cpu, _)| cpu).sum();
        for (pid, cpu, _) in growth.cpu.iter().filter(|(_, cpu, _)| *cpu > 0.0) {
            *self.joules.entry(*pid).or_default() += active * cpu / sum;
        }
    }

    fn joules(&self, pid: u32) -> f64 {
        self.joules.get(&pid).copied().unwrap_or(0.0)
    }

    fn idle(&self) -> f64 {
        self.noctule.idle()
    }
}

/// Kepler 0.10 and 0.11. Computes active energy from the node's busy share in the previous
/// interval. Divides the active energy by CPU time among the processes that still run.
#[derive(Debug, Default)]
pub struct RatioBefore {
    window: Window,
    busy_before: Option<f64>,
    joules: HashMap<u32, f64>,
    idle: f64,
}

impl Method for RatioBefore {
    fn name(&self) -> &'static str {
        "ratio of the interval before (Kepler 0.11)"
    }

    fn observe(&mut self, batch: &Batch) {
        let Some(growth) = self.window.step(batch) else {
            return;
        };
        let Some(busy) = self.busy_before.replace(growth.busy_share) else {
            return;
        };
        let active = growth.joules * busy;
        self.idle += growth.joules - active;
        let living = || growth.cpu.iter().filter(|(_, _, lives)| *lives);
        let sum: f64 = living().map(|(_, cpu, _)| cpu).sum();
        for (pid, cpu, _) in living().filter(|_| sum > 0.0) {
            *self.joules.entry(*pid).or_default() += active * cpu / sum;
        }
    }

    fn joules(&self, pid: u32) -> f64 {
        self.joules.get(&pid).copied().unwrap_or(0.0)
    }

    fn idle(&self) -> f64 {
        self.idle
    }
}

/// Scaphandre: a process gets the machine's power times its share of all CPU time, including idle
/// time.
#[derive(Debug, Default)]
pub struct ShareOfTime {
    window: Window,
    joules: HashMap<u32, f64>,
    idle: f64,
}

impl Method for ShareOfTime {
    fn name(&self) -> &'static str {
        "share of all CPU time (Scaphandre)"
    }

    fn observe(&mut self, batch: &Batch) {
        let Some(growth) = self.window.step(batch) else {
            return;
        };
        let mut left = growth.joules;
        for (pid, cpu, _) in growth.cpu {
            let part = growth.joules * cpu / growth.elapsed_ns;
            *self.joules.entry(pid).or_default() += part;
            left -= part;
        }
        self.idle += left;
    }

    fn joules(&self, pid: u32) -> f64 {
        self.joules.get(&pid).copied().unwrap_or(0.0)
    }

    fn idle(&self) -> f64 {
        self.idle
    }
}

/// Kepler 0.9 and before. Idle energy is the minimum over the intervals with the least CPU time.
/// The rest is divided by CPU time, and each process's share is rounded up to a millijoule.
#[derive(Debug, Default)]
pub struct IdleMinimum {
    window: Window,
    least: Option<(f64, f64)>,
    joules: HashMap<u32, f64>,
    idle: f64,
}

impl Method for IdleMinimum {
    fn name(&self) -> &'static str {
        "idle by minimum (Kepler 0.9)"
    }

    fn observe(&mut self, batch: &Batch) {
        let Some(growth) = self.window.step(batch) else {
            return;
        };
        let sum: f64 = growth.cpu.iter().map(|(_, cpu, _)| cpu).sum();
        let least = match self.least {
            Some((cpu, joules)) if sum > cpu => (cpu, joules),
            Some((_, joules)) => (sum, joules.min(growth.joules)),
            None => (sum, growth.joules),
        };
        self.least = Some(least);
        let idle = least.1.min(growth.joules);
        self.idle += idle;
        let active = growth.joules - idle;
        for (pid, cpu, _) in growth.cpu.iter().filter(|(_, cpu, _)| *cpu > 0.0) {
            let part = (active * cpu / sum * 1e3).ceil() / 1e3;
            *self.joules.entry(*pid).or_default() += part;
        }
    }

    fn joules(&self, pid: u32) -> f64 {
        self.joules.get(&pid).copied().unwrap_or(0.0)
    }

    fn idle(&self) -> f64 {
        self.idle
    }
}
