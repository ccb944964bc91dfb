//! Measures the accuracy of energy attribution. noctule's method and the published methods of other
//! tools attribute the energy of traces whose true values are known.

mod machine;
mod methods;
mod nodes;
mod traces;

use std::collections::HashMap;

pub use machine::{Fault, Machine, Physics, Random, Work};
pub use methods::{IdleMinimum, Method, Noctule, PlainRatio, RatioBefore, ShareOfTime};
pub use nodes::{CLASSES, Class, ClassScore, NODES, judge_class, other_rules};
pub use traces::{TRACES, Trace};

/// Time for which a method learns before it is judged, in seconds.
pub const WARM_UP: u32 = 120;
/// Time for which a method is judged, in seconds.
pub const JUDGED: u32 = 600;

/// The accuracy of a method on a trace.
#[derive(Clone, Copy, Debug)]
pub struct Score {
    /// Energy charged wrongly to processes, relative to the energy that they really used.
    pub error: f64,
    /// Like `error`, but after correcting the total, so that only wrong shares count.
    pub shares: f64,
    /// Error of the idle energy, relative to the truth.
    pub idle: f64,
}

/// Runs a trace and judges each method, in order.
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

/// Returns a new instance of each method.
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
