//! Plans the tables, and the programs that count into each.

use anyhow::{Result, bail};
use noctule_trace::parse;
use noctule_trace::program::{Pair, Program};
use noctule_trace::resolve;
use noctule_trace::source::{Problem, Span};
use noctule_trace::table::{Clause, Mismatch, Table};
use noctule_trace::tree::Hist;

use super::job::{Job, refused, with_scope};
use super::linked::{self, Given};
use super::switch;
use crate::commands::trace::attach_point::Target;
use crate::commands::trace::groups::Groups;
use crate::commands::trace::kallsyms::Kallsyms;
use crate::commands::trace::tracepoints::Skipped;
use crate::exit::Usage;

/// Plans the tables of these events and triggers. Triggers with one name share a table. `synth`
/// defines synthetic events.
pub(super) fn of(
    pairs: &[[String; 2]],
    synth: &[String],
    symbols: &Kallsyms,
    groups: &Groups,
    pausable: bool,
) -> Result<Vec<Job>> {
    let synthetic = linked::synthetic(synth)?;
    let (mut all, mut switches) = (Vec::new(), Vec::new());
    for [events, trigger] in pairs {
        if let Some(given) = switch::given(events, trigger)? {
            switches.push(given);
            continue;
        }
        let (tree, problems) = parse::hist(trigger);
        if !problems.is_empty() {
            bail!(refused(None, &problems, trigger));
        }
        all.push(Given {
            events,
            trigger,
            tree,
        });
    }
    // Both the user and an event can pause tables.
    let pausable = pausable || !switches.is_empty();
    let matched = linked::matched(&all);
    let (of_others, alone): (Vec<_>, Vec<_>) = all
        .into_iter()
        .enumerate()
        .partition(|(_, given)| given.is_linked(&matched));
    let (places, of_others): (Vec<_>, Vec<_>) = of_others.into_iter().unzip();
    let of_others = linked::jobs(&of_others, &synthetic, symbols, groups, pausable)?;
    let mut jobs: Vec<(usize, Job)> = places.into_iter().zip(of_others).collect();
    let mut skipped = Skipped::default();
    for (place, mut given) in alone {
        let name = given.tree.name.clone();
        let is_named = |job: &Job| {
            name.as_ref()
                .is_some_and(|name| job.name.as_ref() == Some(&name.node))
        };
        let known = jobs.iter_mut().find(|(_, known)| is_named(known));
        if let Some((_, known)) = &known {
            // Clauses that this trigger lacks are copied from the first trigger with the same name.
            given.tree.fill_from(&known.tree);
        }
        let Some(job) = skipped.pass(job(given, symbols, groups))? else {
            continue;
        };
        match (known, name) {
            (Some((_, known)), Some(name)) => known.join(job, name.span)?,
            _ => jobs.push((place, job)),
        }
    }
    skipped.finish(jobs.is_empty())?;
    jobs.sort_by_key(|(place, _)| *place);
    let mut jobs: Vec<_> = jobs.into_iter().map(|(_, job)| job).collect();
    for job in jobs.iter_mut().filter(|job| job.number.is_none()) {
        let pausable = pausable || job.programs.iter().any(|program| program.pausable);
        for program in &mut job.programs {
            program.pausable = pausable;
        }
    }
    if jobs.iter().all(|job| job.is_hidden) {
        jobs.iter_mut().for_each(|job| job.is_hidden = false);
    }
    switch::add(&mut jobs, &switches, symbols, groups)?;
    gate(&mut jobs);
    Ok(jobs)
}

/// Gates the programs if there are several, so that all count in one window. A single program does
/// not need a gate, because its window is the time for which it is attached. The first program of a
/// pair does not count.
fn gate(jobs: &mut [Job]) {
    let all = || jobs.iter().flat_map(|job| &job.programs);
    let counting = all().filter(|program| !matches!(program.pair, Pair::First(_)));
    let several = counting.count() > 1;
    let programs = jobs.iter_mut().flat_map(|job| &mut job.programs);
    programs.for_each(|program| program.gated = several);
}

impl Job {
    /// Makes another trigger with the same name count into this table.
    fn join(&mut self, other: Self, name: Span) -> Result<()> {
        let is_pair = |job: &Self| job.programs.iter().any(|one| one.pair != Pair::None);
        let rows = |why| Mismatch {
            clause: Clause::Rows,
            why,
        };
        let fits = match (self.programs.first(), other.programs.first()) {
            _ if self.number.is_some() => Err(rows(
                "a trigger with variables or actions needs its own table",
            )),
            _ if is_pair(self) || is_pair(&other) => {
                Err(rows("the time between two events needs its own table"))
            }
            (Some(own), Some(program)) => self.table.join(own, program, other.table),
            _ => Ok(()),
        };
        if let Err(differs) = fits {
            // The error message of the kernel.
            let text = "Named hist trigger doesn't match existing named hist trigger (includes \
                        variables)";
            let place = |tree: &Hist| clause(tree, differs.clause);
            let problem = Problem::new(place(&other.tree).unwrap_or(name), text);
            let Usage(words) = refused(
                Some(&other.events),
                &[problem.with_help(differs.why)],
                &other.trigger,
            );
            let own = self.tree.name.as_ref().map(|name| name.span);
            let first = place(&self.tree).or(own).unwrap_or(name);
            bail!(Usage(format!(
                "{words}\nthe first trigger with this name belongs to {}:\n{}",
                noctule_text::escape(&self.events),
                first.show(&self.trigger).trim_end()
            )));
        }
        self.events += &format!(",{}", other.events);
        self.programs.extend(other.programs);
        self.targets.extend(other.targets);
        self.paused |= other.paused;
        Ok(())
    }
}

/// Returns where the trigger sets its sort order or size.
fn clause(tree: &Hist, clause: Clause) -> Option<Span> {
    match clause {
        Clause::Rows => None,
        Clause::Sort => tree.sort.first().map(|sort| sort.span),
        Clause::Size => tree.size.as_ref().map(|size| size.span),
    }
}

fn job(given: Given<'_>, symbols: &Kallsyms, groups: &Groups) -> Result<Job> {
    let (events, trigger, tree) = (given.events, given.trigger, given.tree);
    let (targets, programs, table) = match events.split_once("..") {
        Some((first, second)) => {
            let (first, second) = (Target::open(first)?, Target::open(second)?);
            let made = with_scope(&first, symbols, groups, |first| {
                with_scope(&second, symbols, groups, |second| {
                    resolve::latency(&tree, first, second)
                })
            });
            let ([early, late], table) =
                made.map_err(|problems| refused(None, &problems, trigger))?;
            (vec![second, first], vec![late, early], table)
        }
        None => one_table(events, trigger, &tree, symbols, groups)?,
    };
    Ok(Job {
        events: events.to_owned(),
        trigger: trigger.to_owned(),
        name: tree.name.as_ref().map(|name| name.node.clone()),
        table,
        programs,
        targets,
        paused: tree.pause.is_some(),
        tree,
        number: None,
        is_hidden: false,
    })
}

/// Creates the programs and the table for one event, or for all events that match a pattern.
fn one_table(
    events: &str,
    trigger: &str,
    tree: &Hist,
    symbols: &Kallsyms,
    groups: &Groups,
) -> Result<(Vec<Target>, Vec<Program>, Table)> {
    let targets = Target::open_all(events)?;
    let of_several = targets.len() > 1;
    let mut programs: Vec<Program> = Vec::new();
    let mut all = Table::default();
    for target in &targets {
        let event = of_several.then_some(target.format().name.as_str());
        let made = with_scope(target, symbols, groups, |scope| resolve::hist(tree, scope));
        let (program, table) = made.map_err(|problems| refused(event, &problems, trigger))?;
        match programs.first() {
            None => all = table,
            Some(first) => {
                if let Err(Mismatch { why, .. }) = all.join(first, &program, table) {
                    let of = &targets[0].format().name;
                    let text = format!("It cannot share a table with {of}: {why}");
                    let problem = Problem::new(Span::new(0, 0), text);
                    bail!(refused(event, &[problem], trigger));
                }
            }
        }
        programs.push(program);
    }
    Ok((targets, programs, all))
}
