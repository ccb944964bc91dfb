//! Prints the figures for people.

use std::io::{self, Write};

use super::bars;
use super::contender::{Contender, EMPTY, NONE, SCAN};
use super::figures::{self, Figure, Figures, Kind};
use super::host::Machine;
use super::load::Load;
use super::rounds::Plan;
use super::table::{number, ratio, write};

mod events;

/// Prints every section.
pub(super) fn print(
    out: &mut impl Write,
    plan: &Plan,
    machine: &Machine,
    figures: &Figures,
) -> io::Result<()> {
    let Machine {
        kernel,
        processor,
        cpus,
        load_before,
        load_after,
        commit,
    } = machine;
    writeln!(out, "noctule {commit}; {kernel}, {cpus} CPUs, {processor}")?;
    let rounds = plan.rounds;
    writeln!(
        out,
        "{rounds} rounds; load average {load_before} before, {load_after} after"
    )?;
    if plan.quick {
        writeln!(
            out,
            "quick: these figures show that the bench works, nothing else"
        )?;
    }
    cost(out, plan, figures)?;
    let kinds = [&figures::BPF_PER_SWITCH, &figures::PROGRAM_PER_SWITCH];
    programs(out, plan, figures, kinds)?;
    let kinds = [&figures::BPF_PER_OPERATION, &figures::PROGRAM_PER_OPERATION];
    programs(out, plan, figures, kinds)?;
    slowdown(out, plan, figures)?;
    events::print(out, plan, figures)?;
    bars::print(out, plan, figures)?;
    agent(out, plan, figures)?;
    absent(out, plan)
}

/// Returns the rows of one kind: load by load, contender by contender.
fn rows<'a>(
    plan: &'a Plan,
    figures: &'a Figures,
    kind: &'a Kind,
) -> impl Iterator<Item = (Load, &'a Contender, &'a Figure)> {
    plan.loads.iter().flat_map(move |&load| {
        let contenders = plan.contenders.iter();
        contenders.filter_map(move |contender| {
            let figure = figures.find(kind, load.name(), contender.name)?;
            Some((load, contender, figure))
        })
    })
}

fn cost(out: &mut impl Write, plan: &Plan, figures: &Figures) -> io::Result<()> {
    if rows(plan, figures, &figures::BPF_PER_SWITCH)
        .next()
        .is_none()
    {
        return Ok(());
    }
    writeln!(
        out,
        "\nBPF per context switch (all programs of the contender; ns, and to `{EMPTY}`, which is \
         what measuring costs)"
    )?;
    let mut lines = Vec::new();
    for (load, contender, figure) in rows(plan, figures, &figures::BPF_PER_SWITCH) {
        let summary = figure.summary();
        let against = figures.ratio(figure);
        let share = figures.find(&figures::BPF_SHARE, load.name(), contender.name);
        lines.push(vec![
            load.name().to_owned(),
            contender.name.to_owned(),
            number(summary.minimum),
            number(summary.median),
            ratio(against.map(|r| r.rounds.minimum)),
            ratio(against.map(|r| r.rounds.median)),
            share.map_or("-".into(), |s| number(s.summary().median)),
        ]);
    }
    let head = [
        "load",
        "beside",
        "min",
        "median",
        "ratio min",
        "median",
        "% of a core",
    ];
    write(out, 2, &head, &lines)
}

/// Prints the programs that make up at least 1 % of the agent's cost. The JSON lists all.
fn programs(
    out: &mut impl Write,
    plan: &Plan,
    figures: &Figures,
    [sum, share]: [&Kind; 2],
) -> io::Result<()> {
    let mut lines = Vec::new();
    for (load, contender, sum) in rows(plan, figures, sum) {
        if !contender.is_noctule() {
            continue;
        }
        let of = |kind| figures.programs(kind, load.name(), contender.name);
        let least = sum.summary().median / 100.0;
        let mut shares = of(share);
        shares.retain(|(_, share)| share.median >= least);
        shares.sort_by(|a, b| b.1.median.total_cmp(&a.1.median));
        for (name, share) in shares {
            let find = |kind| of(kind).into_iter().find(|(program, _)| *program == name);
            let (run, runs) = (find(&figures::PROGRAM_RUN), find(&figures::PROGRAM_RUNS));
            lines.push(vec![
                load.name().to_owned(),
                contender.name.to_owned(),
                name.to_owned(),
                run.map_or("-".into(), |(_, s)| number(s.minimum)),
                run.map_or("-".into(), |(_, s)| number(s.median)),
                runs.map_or("-".into(), |(_, s)| number(s.median)),
                number(share.median),
            ]);
        }
    }
    let head = [
        "load",
        "beside",
        "program",
        "ns/run min",
        "median",
        "runs/s",
        share.unit,
    ];
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nProgram by program, of the agent (medians; from 1 % of its cost on)"
    )?;
    write(out, 3, &head, &lines)
}

fn slowdown(out: &mut impl Write, plan: &Plan, figures: &Figures) -> io::Result<()> {
    writeln!(
        out,
        "\nSlowdown of the load (to `{NONE}` in the same round; best: smallest to smallest; CPU \
         time leaves out what others took)"
    )?;
    let mut lines = Vec::new();
    for (load, contender, elapsed) in rows(plan, figures, &figures::ELAPSED) {
        let cpu = figures.find(&figures::CPU, load.name(), contender.name);
        let time = figures.ratio(elapsed);
        let cpu_ratio = cpu.and_then(|f| figures.ratio(f));
        lines.push(vec![
            load.name().to_owned(),
            contender.name.to_owned(),
            number(elapsed.summary().minimum),
            ratio(time.map(|r| r.rounds.minimum)),
            ratio(time.map(|r| r.rounds.median)),
            ratio(time.map(|r| r.best)),
            cpu.map_or("-".into(), |f| number(f.summary().minimum)),
            ratio(cpu_ratio.map(|r| r.rounds.minimum)),
            ratio(cpu_ratio.map(|r| r.rounds.median)),
            ratio(cpu_ratio.map(|r| r.best)),
        ]);
    }
    let head = [
        "load",
        "beside",
        "ns/op min",
        "ratio min",
        "median",
        "best",
        "CPU ns/op min",
        "ratio min",
        "median",
        "best",
    ];
    write(out, 2, &head, &lines)?;
    for load in &plan.loads {
        writeln!(out, "  {}: {}", load.name(), load.words())?;
    }
    for (load, _, figure) in rows(plan, figures, &figures::SWITCHES) {
        if figure.contender == NONE {
            let switches = number(figure.summary().median);
            writeln!(
                out,
                "  {} alone: {switches} switches an operation",
                load.name()
            )?;
        }
    }
    Ok(())
}

fn agent(out: &mut impl Write, plan: &Plan, figures: &Figures) -> io::Result<()> {
    if !plan.loads.iter().any(|load| load.lasts()) {
        return Ok(());
    }
    writeln!(
        out,
        "\nThe agent, and its peers as processes (an interval of 1 s; CPU to `{SCAN}`)"
    )?;
    let mut lines = Vec::new();
    let kinds = [
        &figures::AGENT_CPU,
        &figures::AGENT_MEMORY,
        &figures::SCRAPE,
        &figures::SCRAPE_BEST,
        &figures::SCRAPE_SIZE,
    ];
    for kind in kinds {
        for (load, contender, figure) in rows(plan, figures, kind) {
            let summary = figure.summary();
            let against = figures.ratio(figure);
            lines.push(vec![
                load.name().to_owned(),
                kind.name.to_owned(),
                contender.name.to_owned(),
                number(summary.minimum),
                number(summary.median),
                kind.unit.to_owned(),
                ratio(against.map(|r| r.rounds.minimum)),
                ratio(against.map(|r| r.rounds.median)),
                target(kind, contender, summary.median),
            ]);
        }
    }
    let head = [
        "load",
        "figure",
        "of",
        "min",
        "median",
        "",
        "ratio min",
        "median",
        "target",
    ];
    write(out, 3, &head, &lines)
}

/// Compares the agent with the target. Returns an empty string for other contenders.
fn target(kind: &Kind, contender: &Contender, value: f64) -> String {
    match kind.target.filter(|_| contender.is_noctule()) {
        Some(target) if value < target => format!("< {target}: ok"),
        Some(target) => format!("< {target}: missed"),
        None => String::new(),
    }
}

fn absent(out: &mut impl Write, plan: &Plan) -> io::Result<()> {
    for (load, reason) in &plan.absent_loads {
        writeln!(out, "\nabsent: the load {}: {reason}", load.name())?;
    }
    for (contender, reason) in &plan.absent {
        writeln!(out, "\nabsent: {}: {reason}", contender.name)?;
    }
    Ok(())
}
