//! Figures as JSON. docs/bench.md describes the format.

use serde_json::{Value, json};

use super::bars::{self, Comparison};
use super::contender::{Bed, Contender};
use super::figures::{Figure, Figures, Summary};
use super::host::Machine;
use super::load::Load;
use super::peers::{self, Report};
use super::rounds::Plan;

/// The version of the format, increased when a name or a meaning changes.
const FORMAT: u32 = 1;

/// Returns the JSON description of a run: its machine, contenders and figures.
pub(super) fn describe_run(
    plan: &Plan,
    bed: &Bed,
    machine: &Machine,
    figures: &Figures,
    side_by_side: Option<&Report>,
) -> Value {
    let present = plan.contenders.iter().map(|c| (c, None));
    let absent = plan.absent.iter().map(|(c, reason)| (c, Some(reason)));
    let contender = |(c, absent): (&Contender, Option<&String>)| {
        json!({
            "name": c.name,
            "command": c.command_line(bed),
            "version": c.version(bed),
            "absent": absent,
        })
    };
    let present_loads = plan.loads.iter().map(|l| (l, None));
    let absent_loads = plan
        .absent_loads
        .iter()
        .map(|(l, reason)| (l, Some(reason)));
    let load = |(l, absent): (&Load, Option<&String>)| json!({"name": l.name(), "what": l.words(), "absent": absent});
    json!({
        "format": FORMAT,
        "commit": machine.commit,
        "kernel": machine.kernel,
        "processor": machine.processor,
        "cpus": machine.cpus,
        "load_average": [machine.load_before, machine.load_after],
        "rounds": plan.rounds,
        "quick": plan.quick,
        "loads": present_loads.chain(absent_loads).map(load).collect::<Value>(),
        "contenders": present.chain(absent).map(contender).collect::<Value>(),
        "figures": figures.all().iter().map(|f| figure(f, plan, figures)).collect::<Value>(),
        "comparisons": bars::compare(plan, figures).iter().map(comparison).collect::<Value>(),
        "side_by_side": side_by_side.map(peers::record),
    })
}

fn comparison(comparison: &Comparison) -> Value {
    let ratio = comparison.ratio;
    json!({
        "figure": comparison.bar.kind.name,
        "load": comparison.load.name(),
        "contender": comparison.contender,
        "to": comparison.bar.to,
        "minimum": ratio.map(|r| r.rounds.minimum),
        "median": ratio.map(|r| r.rounds.median),
        "best": ratio.map(|r| r.best),
        "bar": comparison.is_judged().then(|| comparison.bar.bound.to_string()),
        "met": comparison.is_met(),
    })
}

fn figure(figure: &Figure, plan: &Plan, figures: &Figures) -> Value {
    let Summary { minimum, median } = figure.summary();
    let ours = plan
        .contenders
        .iter()
        .any(|c| c.is_noctule() && c.name == figure.contender);
    let target = figure.kind.target.filter(|_| ours);
    let ratio = figures.ratio(figure).map(|r| {
        json!({
            "to": figure.kind.reference,
            "minimum": r.rounds.minimum,
            "median": r.rounds.median,
            "best": r.best,
        })
    });
    json!({
        "figure": figure.kind.name,
        "unit": figure.kind.unit,
        "load": figure.load,
        "contender": figure.contender,
        "program": figure.program,
        "samples": figure.samples.iter().map(|s| s.1).collect::<Vec<_>>(),
        "minimum": minimum,
        "median": median,
        "ratio": ratio,
        "target": target,
        "met": target.map(|t| median < t),
    })
}
