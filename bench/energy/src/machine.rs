//! A machine whose power is known: who ran, how fast, and what that cost.

use std::collections::HashMap;
use std::sync::Arc;

use noctule_model::{
    Batch, CgroupId, CgroupRow, Counter, Counters, Energy, EnergySource, FeatureState, Measured,
    Node, ProcessId, ProcessRow, Zone, ZoneKind, ZoneReading,
};

/// What one process does in a tick.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Which process.
    pub pid: u32,
    /// Seconds on a CPU.
    pub seconds: f64,
    /// The part of them in which the SMT sibling was busy.
    pub shared: f64,
    /// Average frequency meanwhile, in GHz.
    pub gigahertz: f64,
    /// It ends with the tick.
    pub ends: bool,
}

/// What a machine takes.
#[derive(Clone, Copy, Debug)]
pub struct Physics {
    /// Number of CPUs.
    pub cpus: u32,
    /// Watts when nothing runs.
    pub idle_watts: f64,
    /// Watts of one busy CPU at 1 GHz.
    pub work_watts: f64,
    /// Power of work follows the frequency to this exponent.
    pub exponent: f64,
    /// What a second beside a busy SMT sibling costs, by one without.
    pub shared_cost: f64,
    /// Noise of the meter at each tick: the largest part of the power.
    pub noise: f64,
    /// Whether cycles are measured.
    pub cycles: bool,
}

impl Physics {
    /// Joules of the work.
    fn cost(&self, work: &Work) -> f64 {
        let shared = work.shared.clamp(0.0, 1.0);
        let weight = 1.0 - shared + shared * self.shared_cost;
        self.work_watts * work.seconds * weight * work.gigahertz.powf(self.exponent)
    }
}

/// What a fault of the meter does to one reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None.
    None,
    /// The counter does not move; it shows all of it later.
    Stall,
    /// The counter starts from 0.
    Reset,
    /// It jumps back a little.
    Back,
}

/// The machine, its counters, and the truth.
#[derive(Debug)]
pub struct Machine {
    physics: Physics,
    batch: Batch,
    counter_uj: f64,
    shown_uj: u64,
    random: Random,
    /// Joules that each process really cost.
    pub truth: HashMap<u32, f64>,
    /// Joules that the machine really took when idle.
    pub idle_truth: f64,
}

impl Machine {
    /// One that has not run yet.
    pub fn new(physics: Physics, seed: u64) -> Self {
        let mut counters = vec![Counter::CpuTime];
        counters.extend(physics.cycles.then_some(Counter::Cycles));
        let zone = Zone {
            name: "package-0".into(),
            kind: ZoneKind::Package,
            socket: Some(0),
            die: None,
            source: EnergySource::Powercap,
            parent: None,
            resolution_uj: 61,
            path: String::new(),
        };
        let reading = ZoneReading {
            energy_uj: 0,
            before_ns: 0,
            after_ns: 0,
            gaps: 0,
            state: FeatureState::On,
            reason: None,
        };
        Self {
            physics,
            batch: Batch {
                node: Node {
                    cpus: physics.cpus,
                    ..Node::default()
                },
                measured: counters.into_iter().collect::<Measured>(),
                energy: Some(Energy {
                    zones: Arc::from([zone]),
                    readings: vec![reading],
                }),
                ..Batch::default()
            },
            counter_uj: 0.0,
            shown_uj: 0,
            random: Random(seed),
            truth: HashMap::new(),
            idle_truth: 0.0,
        }
    }

    /// A second passes. The batch is what noctule would see at its end.
    pub fn second(&mut self, work: &[Work], fault: Fault) -> Batch {
        let joules: f64 = work.iter().map(|work| self.run(work)).sum();
        let noise = 1.0 + self.physics.noise * (2.0 * self.random.number() - 1.0);
        self.idle_truth += self.physics.idle_watts;
        self.counter_uj += (self.physics.idle_watts + joules) * noise * 1e6;
        self.shown_uj = match fault {
            Fault::None => self.counter_uj as u64,
            Fault::Stall => self.shown_uj,
            Fault::Reset => {
                self.counter_uj = 0.0;
                0
            }
            Fault::Back => {
                self.counter_uj = (self.counter_uj - 5e6).max(0.0);
                self.counter_uj as u64
            }
        };
        let batch = &mut self.batch;
        batch.sequence += 1;
        batch.taken_ns += 1_000_000_000;
        batch.node.elapsed_ns += u64::from(self.physics.cpus) * 1_000_000_000;
        let used = batch.node.total[Counter::CpuTime];
        batch.node.idle_ns = batch.node.elapsed_ns.saturating_sub(used);
        if let Some(energy) = &mut batch.energy {
            energy.readings[0] = ZoneReading {
                energy_uj: self.shown_uj,
                before_ns: batch.taken_ns,
                after_ns: batch.taken_ns,
                gaps: 0,
                state: FeatureState::On,
                reason: None,
            };
        }
        let ended: Vec<u32> = work.iter().filter(|w| w.ends).map(|w| w.pid).collect();
        let rows = std::mem::take(&mut batch.processes);
        let (exited, living) = rows
            .into_iter()
            .partition(|row| ended.contains(&row.id.pid));
        batch.processes = living;
        let mut taken = batch.clone();
        taken.exited = exited;
        taken
    }

    fn run(&mut self, work: &Work) -> f64 {
        let joules = self.physics.cost(work);
        *self.truth.entry(work.pid).or_default() += joules;
        let cpu_ns = (work.seconds * 1e9) as u64;
        let cycles = (work.seconds * work.gigahertz * 1e9) as u64;
        let id = ProcessId {
            pid: work.pid,
            start_ns: 1,
        };
        // Ten processes are a group.
        let group = CgroupId(1 + u64::from(work.pid % 10));
        let Batch {
            processes,
            cgroups,
            node,
            ..
        } = &mut self.batch;
        let place = processes.iter().position(|row| row.id == id);
        let place = place.unwrap_or_else(|| {
            processes.push(ProcessRow {
                id,
                cgroup: group,
                ..ProcessRow::default()
            });
            processes.len() - 1
        });
        let room = cgroups.iter().position(|row| row.id == group);
        let room = room.unwrap_or_else(|| {
            cgroups.push(CgroupRow {
                id: group,
                ..CgroupRow::default()
            });
            cgroups.len() - 1
        });
        let mut growth = Counters::default();
        growth[Counter::CpuTime] = cpu_ns;
        growth[Counter::Cycles] = cycles;
        processes[place].counters += &growth;
        cgroups[room].counters += &growth;
        node.total += &growth;
        joules
    }
}

/// Numbers between 0 and 1 without a pattern, the same at each run.
#[derive(Clone, Copy, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next one.
    pub fn number(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}
