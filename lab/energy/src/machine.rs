//! A simulated machine whose power is known: which processes ran, how fast, and at what cost.

use std::collections::HashMap;

use noctule_model::{
    Batch, ByPackage, CgroupId, CgroupRow, Counter, Counters, Energy, Measured, Node, PackageRow,
    PackageUse, ProcessId, ProcessRow, Zone, ZoneKind, ZoneReading,
};

/// The work of a process in a tick.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// The process.
    pub pid: u32,
    /// Seconds on a CPU.
    pub seconds: f64,
    /// Share of these seconds in which the SMT sibling was busy.
    pub shared: f64,
    /// Average frequency, in GHz.
    pub gigahertz: f64,
    /// Number of the socket on which the process ran.
    pub socket: usize,
    /// Whether the process exits at the end of the tick.
    pub ends: bool,
    /// Cost relative to what the process's counters suggest. Differs from 1 for unusually cheap or
    /// expensive instructions.
    pub cost: f64,
}

/// The power characteristics of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Physics {
    /// Number of CPUs per socket.
    pub cpus: u32,
    /// Cost of work on each socket, relative to the first. There is one entry per socket, each with
    /// its own meter.
    pub sockets: &'static [f64],
    /// Idle power of a socket, in watts.
    pub idle_watts: f64,
    /// Power of one busy CPU at 1 GHz, in watts.
    pub work_watts: f64,
    /// Exponent that relates the power of work to the frequency.
    pub exponent: f64,
    /// Cost of a second next to a busy SMT sibling, relative to a second next to an idle one.
    pub shared_cost: f64,
    /// Maximum noise of the meter at each tick, relative to the power.
    pub noise: f64,
    /// Whether cycles are measured.
    pub cycles: bool,
    /// Whether time next to a busy sibling is measured.
    pub siblings: bool,
}

impl Physics {
    /// Returns the energy of the work, in joules.
    fn cost(&self, work: &Work) -> f64 {
        let shared = work.shared.clamp(0.0, 1.0);
        let weight = 1.0 - shared + shared * self.shared_cost;
        let watts = self.work_watts * self.sockets[work.socket];
        watts * work.cost * work.seconds * weight * work.gigahertz.powf(self.exponent)
    }
}

/// A fault in a meter reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// The counter stands still and shows the energy later.
    Stall,
    /// The counter restarts from 0.
    Reset,
    /// The counter jumps back a little.
    Back,
}

/// The energy counter of a socket.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    counter_uj: f64,
    shown_uj: u64,
}

impl Meter {
    fn add(&mut self, joules: f64, fault: Fault) {
        self.counter_uj += joules * 1e6;
        match fault {
            Fault::None => {}
            Fault::Stall => return,
            Fault::Reset => self.counter_uj = 0.0,
            Fault::Back => self.counter_uj = (self.counter_uj - 5e6).max(0.0),
        }
        self.shown_uj = self.counter_uj as u64;
    }
}

/// The machine, its counters, and the true energies.
#[derive(Debug)]
pub struct Machine {
    physics: Physics,
    batch: Batch,
    meters: Vec<Meter>,
    random: Random,
    /// Joules that each process really used.
    pub truth: HashMap<u32, f64>,
    /// Joules that the machine really used when idle.
    pub idle_truth: f64,
    /// Joules that all work on each socket really used.
    pub active_truth: Vec<f64>,
}

impl Machine {
    /// Creates a machine at time 0.
    pub fn new(physics: Physics, seed: u64) -> Self {
        let mut counters = vec![Counter::CpuTime];
        counters.extend(physics.cycles.then_some(Counter::Cycles));
        counters.extend(physics.siblings.then_some(Counter::SiblingBusy));
        let sockets = physics.sockets.len();
        let zone = |socket| Zone {
            socket: Some(socket as u32),
            ..Zone::powercap(ZoneKind::Package, &format!("package-{socket}"))
        };
        let reading = ZoneReading::of(0);
        Self {
            physics,
            batch: Batch {
                node: Node {
                    cpus: physics.cpus * sockets as u32,
                    ..Node::default()
                },
                packages: (0..sockets)
                    .map(|socket| PackageRow {
                        id: socket as i32,
                        cpus: physics.cpus,
                        ..PackageRow::default()
                    })
                    .collect(),
                measured: counters.into_iter().collect::<Measured>(),
                energy: Some(Energy {
                    zones: (0..sockets).map(zone).collect(),
                    readings: vec![reading; sockets],
                }),
                ..Batch::default()
            },
            meters: vec![Meter::default(); sockets],
            random: Random(seed),
            truth: HashMap::new(),
            idle_truth: 0.0,
            active_truth: vec![0.0; sockets],
        }
    }

    /// Returns the joules that a process really used.
    pub fn truth_of(&self, pid: u32) -> f64 {
        self.truth.get(&pid).copied().unwrap_or(0.0)
    }

    /// Simulates a second and returns the batch that noctule would see after it.
    pub fn second(&mut self, work: &[Work], fault: Fault) -> Batch {
        let mut joules = vec![self.physics.idle_watts; self.meters.len()];
        for work in work {
            joules[work.socket] += self.run(work);
        }
        self.idle_truth += self.physics.idle_watts * self.meters.len() as f64;
        for (meter, joules) in self.meters.iter_mut().zip(joules) {
            let noise = 1.0 + self.physics.noise * (2.0 * self.random.number() - 1.0);
            meter.add(joules * noise, fault);
        }
        let batch = &mut self.batch;
        batch.sequence += 1;
        batch.taken_ns += 1_000_000_000;
        for package in &mut batch.packages {
            package.elapsed_ns += u64::from(self.physics.cpus) * 1_000_000_000;
            package.idle_ns = package.elapsed_ns.saturating_sub(package.used.cpu_ns);
        }
        let packages = batch.packages.iter();
        batch.node.elapsed_ns = packages.clone().map(|package| package.elapsed_ns).sum();
        batch.node.idle_ns = packages.map(|package| package.idle_ns).sum();
        if let Some(energy) = &mut batch.energy {
            for (reading, meter) in energy.readings.iter_mut().zip(&self.meters) {
                reading.energy_uj = meter.shown_uj;
                reading.before_ns = batch.taken_ns;
                reading.after_ns = batch.taken_ns;
            }
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
        self.active_truth[work.socket] += joules;
        let cpu_ns = (work.seconds * 1e9) as u64;
        let cycles = (work.seconds * work.gigahertz * 1e9) as u64;
        let id = ProcessId {
            pid: work.pid,
            start_ns: 1,
        };
        // Processes are spread over ten cgroups.
        let group = CgroupId(1 + u64::from(work.pid % 10));
        let Batch {
            processes,
            cgroups,
            node,
            packages,
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
        growth[Counter::SiblingBusy] = (work.seconds * work.shared * 1e9) as u64;
        processes[place].counters += &growth;
        cgroups[room].counters += &growth;
        let used = PackageUse::from(&growth);
        packages[work.socket].used += &used;
        if packages.len() > 1 {
            let parts = (0..=work.socket).map(|socket| match socket == work.socket {
                true => used,
                false => PackageUse::default(),
            });
            let parts = ByPackage::several(parts);
            processes[place].packages += &parts;
            cgroups[room].packages += &parts;
        }
        node.total += &growth;
        joules
    }
}

/// A deterministic pseudo-random generator of numbers from 0 to 1.
#[derive(Clone, Copy, Debug)]
pub struct Random(pub u64);

impl Random {
    /// Returns the next number.
    pub fn number(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns the next number, scaled to a range.
    pub fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.number()
    }
}
