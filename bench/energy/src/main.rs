//! Prints how right each method is on each trace.

use std::io::{self, Write as _, stdout};

use noctule_energy_bench::{JUDGED, TRACES, WARM_UP, judge, methods};

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
    Ok(())
}
