//! Simulates two hundred nodes of five classes. Checks how the work is charged, and whether the
//! true energy is within the stated error.

use noctule_model::ZoneAccount;

use crate::machine::{Fault, Machine, Physics, Random, Work};
use crate::methods::{IdleMinimum, Method, Noctule, RatioBefore, ShareOfTime};

/// Number of nodes in a class.
pub const NODES: u64 = 40;
/// Seconds before a node is judged. Kepler needs two intervals to start.
const WARM_UP: u32 = 5;
/// Seconds for which a node is judged. Methods keep learning.
const JUDGED: u32 = 180;
/// Number of processes on a node.
const PROCESSES: u32 = 6;

/// A class of nodes with similar load.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    pub name: &'static str,
    load: fn(&mut Node, u32) -> f64,
    has_steps: bool,
    has_siblings: bool,
}

/// All classes.
pub const CLASSES: &[Class] = &[
    Class {
        name: "always busy",
        load: always_busy,
        has_steps: false,
        has_siblings: false,
    },
    Class {
        name: "half busy",
        load: half_busy,
        has_steps: false,
        has_siblings: false,
    },
    Class {
        name: "bursts",
        load: bursts,
        has_steps: false,
        has_siblings: false,
    },
    Class {
        name: "frequency steps",
        load: mostly_busy,
        has_steps: true,
        has_siblings: false,
    },
    Class {
        name: "SMT",
        load: wandering,
        has_steps: false,
        has_siblings: true,
    },
];

/// A node and its current state.
#[derive(Clone, Debug)]
struct Node {
    random: Random,
    physics: Physics,
    /// Cost of each process's work relative to its counters, which do not show this cost.
    costs: Vec<f64>,
    level: f64,
    /// The load keeps its level until this second.
    until: u32,
    gigahertz: f64,
}

/// Accuracy of the methods on the nodes of a class.
#[derive(Clone, Debug, Default)]
pub struct ClassScore {
    pub nodes: u32,
    /// Nodes on which the true active energy of each zone was within noctule's stated error.
    pub contained: u32,
    /// Mean stated error, relative to active energy.
    pub stated: f64,
    /// Mean wrong charge of each method, relative to what the processes used. noctule's value comes
    /// first, followed by the values of [`other_rules`].
    pub errors: Vec<f64>,
}

/// Returns a new instance of each published method.
pub fn other_rules() -> Vec<Box<dyn Method>> {
    vec![
        Box::<RatioBefore>::default(),
        Box::<IdleMinimum>::default(),
        Box::<ShareOfTime>::default(),
    ]
}

/// Runs the nodes of a class.
pub fn judge_class(class: &Class, seed: u64) -> ClassScore {
    let mut score = ClassScore {
        errors: vec![0.0; 1 + other_rules().len()],
        ..ClassScore::default()
    };
    for number in 0..NODES {
        let mut random = Random(seed.wrapping_mul(1_000_003) + number);
        random.number();
        judge_node(class, Node::new(class, random), &mut score);
    }
    let nodes = f64::from(score.nodes);
    score.stated /= nodes;
    score.errors.iter_mut().for_each(|error| *error /= nodes);
    score
}

fn judge_node(class: &Class, mut node: Node, score: &mut ClassScore) {
    let mut noctule = Noctule::new();
    let mut others = other_rules();
    let mut machine = Machine::new(node.physics, node.random.0);
    let mut before = State::default();
    for second in 0..WARM_UP + JUDGED {
        if second == WARM_UP {
            before = State::new(&machine, &noctule, &others);
        }
        let work = node.work(class, second);
        let batch = machine.second(&work, Fault::None);
        noctule.observe(&batch);
        others.iter_mut().for_each(|method| method.observe(&batch));
    }
    let now = State::new(&machine, &noctule, &others);
    let mut contained = true;
    let (mut active, mut doubt) = (0.0, 0.0);
    for (zone, (account, earlier)) in now.accounts.iter().zip(&before.accounts).enumerate() {
        let account = account.since(earlier);
        let charged = account.active_uj as f64 / 1e6;
        let error = account.relative_error(61).unwrap_or(0.0) * charged;
        let truth = now.active[zone] - before.active[zone];
        contained &= (charged - truth).abs() <= error;
        active += charged;
        doubt += error;
    }
    score.nodes += 1;
    score.contained += u32::from(contained);
    score.stated += doubt / active;
    let growth = |now: &[f64], before: &[f64]| -> Vec<f64> {
        now.iter()
            .zip(before)
            .map(|(now, then)| now - then)
            .collect()
    };
    let truth = growth(&now.truth, &before.truth);
    let charged = now.charged.iter().zip(&before.charged);
    for ((now, before), error) in charged.zip(&mut score.errors) {
        let charged = growth(now, before);
        let wrong = charged
            .iter()
            .zip(&truth)
            .map(|(one, other)| (one - other).abs());
        *error += wrong.sum::<f64>() / truth.iter().sum::<f64>();
    }
}

/// The true energy, and the energy charged by each method so far, in joules.
#[derive(Debug, Default)]
struct State {
    /// True active energy of each zone.
    active: Vec<f64>,
    /// True energy of each process.
    truth: Vec<f64>,
    /// Energy that each method charged to each process.
    charged: Vec<Vec<f64>>,
    accounts: Vec<ZoneAccount>,
}

impl State {
    fn new(machine: &Machine, noctule: &Noctule, others: &[Box<dyn Method>]) -> Self {
        let others = others.iter().map(AsRef::as_ref);
        let methods = std::iter::once(noctule as &dyn Method).chain(others);
        let charged = |method: &dyn Method| (0..PROCESSES).map(|pid| method.joules(pid)).collect();
        Self {
            active: machine.active_truth.clone(),
            truth: (0..PROCESSES).map(|pid| machine.truth_of(pid)).collect(),
            charged: methods.map(charged).collect(),
            accounts: noctule.accounts().to_vec(),
        }
    }
}

impl Node {
    /// Creates a node of 4 to 64 CPUs on one or two sockets, with an idle power of 10 to 50% of its
    /// full power. Half of the nodes count cycles.
    fn new(class: &Class, mut random: Random) -> Self {
        let idle_share = random.between(0.1, 0.5);
        let full_watts = random.between(25.0, 280.0);
        let cpus = 4 << (random.number() * 5.0) as u32;
        let exponent = match class.has_steps {
            true => random.between(1.5, 2.8),
            false => 1.0,
        };
        let shared_cost = match class.has_siblings {
            true => random.between(0.55, 0.75),
            false => 1.0,
        };
        let physics = Physics {
            cpus,
            sockets: [&[1.0][..], &[1.0, 1.0]][usize::from(random.number() < 0.4)],
            idle_watts: idle_share * full_watts,
            work_watts: (1.0 - idle_share) * full_watts
                / (f64::from(cpus) * shared_cost * 3.0_f64.powf(exponent)),
            exponent,
            shared_cost,
            noise: random.between(0.002, 0.02),
            cycles: random.number() < 0.5,
            siblings: class.has_siblings,
        };
        Self {
            physics,
            costs: (0..PROCESSES).map(|_| random.between(0.9, 1.1)).collect(),
            level: random.number(),
            until: 0,
            gigahertz: 3.0,
            random,
        }
    }

    /// Returns the work of a second. The processes' shares of the load change over time.
    fn work(&mut self, class: &Class, second: u32) -> Vec<Work> {
        let load = (class.load)(self, second).clamp(0.0, 1.0);
        if class.has_steps && second >= self.until {
            self.gigahertz = self.random.between(1.2, 3.0);
            self.until = second + self.random.between(5.0, 30.0) as u32;
        }
        // Up to half load, each thread has its own core.
        let shared = match class.has_siblings {
            true => ((2.0 * load - 1.0) / load.max(0.01)).max(0.0),
            false => 0.0,
        };
        let sockets = self.physics.sockets.len();
        let parts: Vec<f64> = (0..PROCESSES)
            .map(|_| self.random.between(0.5, 1.5))
            .collect();
        let works = (0..PROCESSES).zip(&parts).map(|(pid, part)| {
            let socket = pid as usize % sockets;
            let others = parts.iter().skip(socket).step_by(sockets);
            Work {
                pid,
                seconds: f64::from(self.physics.cpus) * load * part / others.sum::<f64>(),
                shared,
                gigahertz: self.gigahertz,
                socket,
                ends: false,
                cost: self.costs[pid as usize],
            }
        });
        works.collect()
    }
}

/// Uses all CPUs, and leaves at most 3% of the time idle.
fn always_busy(node: &mut Node, _: u32) -> f64 {
    1.0 - 0.03 * node.random.number()
}

/// Uses about half of the CPUs, like a server with varying requests.
fn half_busy(node: &mut Node, second: u32) -> f64 {
    if second >= node.until {
        node.level = node.random.between(0.3, 0.7);
        node.until = second + node.random.between(3.0, 20.0) as u32;
    }
    node.level + 0.1 * (node.random.number() - 0.5)
}

/// Stays nearly idle, with bursts on all CPUs.
fn bursts(node: &mut Node, second: u32) -> f64 {
    if second >= node.until {
        let busy = node.level > 0.5;
        node.level = if busy { 0.0 } else { 1.0 };
        let seconds = if busy { (5.0, 40.0) } else { (1.0, 15.0) };
        node.until = second + node.random.between(seconds.0, seconds.1) as u32;
    }
    match node.level > 0.5 {
        true => node.random.between(0.7, 1.0),
        false => 0.03 * node.random.number(),
    }
}

/// Uses at least three quarters of the CPUs.
fn mostly_busy(node: &mut Node, _: u32) -> f64 {
    node.random.between(0.75, 1.0)
}

/// A load that varies slowly between a third of the CPUs and all of them.
fn wandering(node: &mut Node, _: u32) -> f64 {
    node.level = (node.level + node.random.between(-0.12, 0.12)).clamp(0.3, 1.0);
    node.level
}
