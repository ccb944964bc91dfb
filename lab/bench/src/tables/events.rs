//! Prints the cost of events, and whether all of them are reported.

use std::io::{self, Write};

use super::rows;
use crate::figures::{self, Figures};
use crate::rounds::Plan;
use crate::table::{number, ratio, write};

/// Prints the figures of events, if there are any.
pub(super) fn print(out: &mut impl Write, plan: &Plan, figures: &Figures) -> io::Result<()> {
    let mut lines = Vec::new();
    for (load, contender, time) in rows(plan, figures, &figures::AGENT_TIME) {
        let median = |kind| {
            let figure = figures.find(kind, load.name(), contender.name)?;
            Some(figure.summary().median)
        };
        let sum = |kind| {
            let figure = figures.find(kind, load.name(), contender.name)?;
            Some(figure.samples.iter().map(|s| s.1).sum::<f64>())
        };
        let count = |count: Option<f64>| count.map_or("-".into(), |c| format!("{c:.0}"));
        let elapsed = figures.find(&figures::ELAPSED, load.name(), contender.name);
        let slowdown = elapsed.and_then(|f| figures.ratio(f));
        let (lost, missing) = (sum(&figures::EVENTS_LOST), sum(&figures::EVENTS_MISSING));
        lines.push(vec![
            load.name().to_owned(),
            contender.name.to_owned(),
            ratio(slowdown.map(|r| r.rounds.median)),
            ratio(slowdown.map(|r| r.best)),
            number(time.summary().median),
            median(&figures::BPF_PER_OPERATION).map_or("-".into(), number),
            count(sum(&figures::EVENTS_EXPECTED)),
            count(sum(&figures::EVENTS_DELIVERED)),
            count(missing),
            count(lost),
            verdict(missing, lost).to_owned(),
        ]);
    }
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nEvents (slowdown to the load alone; CPU time of the process and of its programs; all \
         rounds: events that were to come, came, are missing, and that the tool says were lost)"
    )?;
    let head = [
        "load",
        "beside",
        "slowdown",
        "best",
        "CPU ns/op",
        "BPF ns/op",
        "expected",
        "delivered",
        "missing",
        "lost",
        "",
    ];
    write(out, 2, &head, &lines)
}

/// Describes missing events. The tool counts losses of the whole machine, which may be events of
/// other processes.
fn verdict(missing: Option<f64>, lost: Option<f64>) -> &'static str {
    match (missing, lost) {
        (Some(0.0), Some(0.0)) => "complete",
        (Some(missing), Some(lost)) if missing == lost => "lost == missing",
        (Some(missing), Some(lost)) if (0.0..lost).contains(&missing) => "reported; of others too",
        (Some(missing), _) if missing < 0.0 => "too many",
        (Some(_), Some(_)) => "NOT REPORTED",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_events_are_reported() {
        let cases = [
            ((0.0, 0.0), "complete"),
            ((3.0, 3.0), "lost == missing"),
            ((3.0, 5.0), "reported; of others too"),
            ((5.0, 3.0), "NOT REPORTED"),
            ((-1.0, 0.0), "too many"),
        ];
        for ((missing, lost), words) in cases {
            assert_eq!(verdict(Some(missing), Some(lost)), words);
        }
        assert_eq!(verdict(None, None), "");
    }
}
