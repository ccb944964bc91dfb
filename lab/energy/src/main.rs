//! Prints the accuracy of each method on each trace.

use std::io::{self, Write, stdout};
use std::time::Instant;

use noctule_energy_bench::{
    CLASSES, Fault, JUDGED, Machine, NODES, Noctule, Physics, TRACES, WARM_UP, Work, judge,
    judge_class, methods, other_rules,
};

fn main() -> io::Result<()> {
    let mut out = stdout().lock();
    writeln!(
        out,
        "energy: error of what is charged to processes (of their shares alone) / of idle energy, over \
         {JUDGED} s after {WARM_UP} s"
    )?;
    for trace in TRACES {
        let mut methods = methods();
        let scores = judge(trace, &mut methods);
        writeln!(out, "{}", trace.name)?;
        for (method, score) in methods.iter().zip(scores) {
            writeln!(
                out,
                "  {:44} {:6.1}% ({:5.1}%) / {:+6.1}%",
                method.name(),
                100.0 * score.error,
                100.0 * score.shares,
                100.0 * score.idle
            )?;
        }
    }
    print_nodes(&mut out)?;
    let cost = attribution_cost();
    writeln!(
        out,
        "energy: dividing a tick of {PROCESSES} processes and 8 zones takes {:.3} ms: {:.4}% of a core at one \
         tick a second",
        cost * 1e3,
        cost * 100.0
    )
}

/// Prints one line for each class of nodes and one column for each method.
fn print_nodes(out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "energy: mean error of what is charged to processes of {NODES} nodes of each class, from their first seconds on"
    )?;
    write!(out, "  {:16} {:>8}", "", "noctule")?;
    for method in other_rules() {
        write!(out, " {:>44}", method.name())?;
    }
    writeln!(out, " {:>14} {:>14}", "stated error", "truth within")?;
    for class in CLASSES {
        let score = judge_class(class, 1);
        write!(out, "  {:16}", class.name)?;
        for (error, width) in score.errors.iter().zip([7, 43, 43, 43]) {
            write!(out, " {:width$.1}%", 100.0 * error)?;
        }
        let within = format!("{} of {}", score.contained, score.nodes);
        writeln!(out, " {:13.1}% {within:>14}", 100.0 * score.stated)?;
    }
    Ok(())
}

/// Number of processes in each tick of the cost measurement.
const PROCESSES: u32 = 500;

/// Returns the median time to attribute one tick, in seconds.
fn attribution_cost() -> f64 {
    const SOCKETS: &[f64] = &[1.0; 8];
    let physics = Physics {
        sockets: SOCKETS,
        ..TRACES[0].physics
    };
    let mut machine = Machine::new(physics, 3);
    let work: Vec<Work> = (0..PROCESSES)
        .map(|pid| Work {
            pid,
            seconds: 0.01,
            shared: 0.0,
            gigahertz: 3.0,
            socket: pid as usize % SOCKETS.len(),
            ends: false,
            cost: 1.0,
        })
        .collect();
    let mut noctule = Noctule::new();
    let mut taken: Vec<f64> = (0..100)
        .map(|_| {
            let batch = machine.second(&work, Fault::None);
            let began = Instant::now();
            noctule.divide(batch);
            began.elapsed().as_secs_f64()
        })
        .collect();
    taken.sort_by(f64::total_cmp);
    taken[taken.len() / 2]
}
