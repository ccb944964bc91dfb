//! How right the attribution of energy is: traces whose truth is known, noctule's attribution, and the
//! published methods of others on the same traces.

mod machine;
mod methods;
mod nodes;
mod traces;

use std::collections::HashMap;

pub use machine::{Fault, Machine, Physics, Random, Work};
pub use methods::{IdleMinimum, Method, Noctule, PlainRatio, RatioBefore, ShareOfTime};
pub use nodes::{CLASSES, Class, ClassScore, NODES, judge_class, other_rules};
pub use traces::{TRACES, Trace};

/// How long a method may learn before it is judged, in seconds.
pub const WARM_UP: u32 = 120;
/// How long it is judged.
pub const JUDGED: u32 = 600;

/// How a method did on a trace.
#[derive(Clone, Copy, Debug)]
pub struct Score {
    /// What was charged wrongly to processes, as a part of what they really took.
    pub error: f64,
    /// The same when the sum of all is set right: how wrong the shares are.
    pub shares: f64,
    /// Idle energy less the truth, as a part of the truth.
    pub idle: f64,
}

/// Runs a trace and judges each method, in their order.
pub fn judge(trace: &Trace, methods: &mut [Box<dyn Method>]) -> Vec<Score> {
    let mut machine = Machine::new(trace.physics, 7);
    let mut random = Random(11);
    let mut truth = HashMap::new();
    let mut idle = 0.0;
    let mut known: Vec<HashMap<u32, f64>> = Vec::new();
    let mut known_idle: Vec<f64> = Vec::new();
    for second in 0..WARM_UP + JUDGED {
        if second == WARM_UP {
            truth.clone_from(&machine.truth);
            idle = machine.idle_truth;
            let so_far = |method: &dyn Method| {
                let pids = truth.keys();
                pids.map(|pid| (*pid, method.joules(*pid))).collect()
            };
            known = methods.iter().map(|m| so_far(m.as_ref())).collect();
            known_idle = methods.iter().map(|m| m.idle()).collect();
        }
        let work = (trace.work)(second, &mut random);
        let batch = machine.second(&work, (trace.fault)(second));
        methods.iter_mut().for_each(|method| method.observe(&batch));
    }
    let since = |now: f64, then: Option<&f64>| now - then.copied().unwrap_or(0.0);
    let real: Vec<(u32, f64)> = machine
        .truth
        .iter()
        .map(|(pid, joules)| (*pid, since(*joules, truth.get(pid))))
        .collect();
    let idle = machine.idle_truth - idle;
    let judged = methods.iter().zip(&known).zip(&known_idle);
    judged
        .map(|((method, known), known_idle)| {
            let charged = |pid: u32| since(method.joules(pid), known.get(&pid));
            score(&real, charged, (method.idle() - known_idle) / idle - 1.0)
        })
        .collect()
}

fn score(real: &[(u32, f64)], charged: impl Fn(u32) -> f64, idle: f64) -> Score {
    let sum: f64 = real.iter().map(|(_, joules)| joules).sum();
    let all: f64 = real.iter().map(|(pid, _)| charged(*pid)).sum();
    let wrong = |scale: f64| {
        let parts = real
            .iter()
            .map(|(pid, joules)| (charged(*pid) * scale - joules).abs());
        parts.sum::<f64>() / sum
    };
    Score {
        error: wrong(1.0),
        shares: wrong(if all > 0.0 { sum / all } else { 0.0 }),
        idle,
    }
}

/// Each of the methods, as new.
pub fn methods() -> Vec<Box<dyn Method>> {
    vec![
        Box::new(Noctule::new()),
        Box::<PlainRatio>::default(),
        Box::<RatioBefore>::default(),
        Box::<IdleMinimum>::default(),
    ]
}

#[cfg(test)]
mod tests;
