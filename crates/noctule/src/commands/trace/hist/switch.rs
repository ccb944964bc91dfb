//! `enable_hist` and `disable_hist`: an event that resumes or pauses the tables of another event.

use anyhow::{Result, bail};
use noctule_trace::parse;
use noctule_trace::program::{Program, Switch};
use noctule_trace::resolve;
use noctule_trace::table::Table;
use noctule_trace::tree::{Command, EventName, Hist, Trigger};

use super::job::{Job, refused, with_scope};
use crate::commands::trace::attach_point::Target;
use crate::commands::trace::groups::Groups;
use crate::commands::trace::kallsyms::Kallsyms;
use crate::exit::Usage;

/// An event and its `enable_hist` or `disable_hist` trigger, as given on the command line.
pub(super) struct Given<'a> {
    event: &'a str,
    trigger: &'a str,
    tree: Trigger,
    /// The event whose tables are switched.
    of: EventName,
    on: bool,
}

/// Parses a trigger that switches tables; `None` if the trigger defines one.
pub(super) fn given<'a>(event: &'a str, trigger: &'a str) -> Result<Option<Given<'a>>> {
    let is_switch = ["enable_hist", "disable_hist"]
        .iter()
        .any(|name| trigger.trim_start().starts_with(name));
    if !is_switch {
        return Ok(None);
    }
    let (tree, problems) = parse::trigger(trigger);
    if !problems.is_empty() {
        bail!(refused(Some(event), &problems, trigger));
    }
    let (of, on) = match &tree.command.node {
        Command::EnableHist(of) => (of.clone(), true),
        Command::DisableHist(of) => (of.clone(), false),
        _ => return Ok(None),
    };
    Ok(Some(Given {
        event,
        trigger,
        tree,
        of,
        on,
    }))
}

/// Adds the switching programs. The events and their target tables join the group of tables that
/// are started together.
pub(super) fn add(
    jobs: &mut Vec<Job>,
    all: &[Given<'_>],
    symbols: &Kallsyms,
    groups: &Groups,
) -> Result<()> {
    let mut next = jobs.iter().filter(|job| job.number.is_some()).count();
    let mut number = |job: &mut Job| {
        *job.number.get_or_insert_with(|| {
            for program in &mut job.programs {
                program.linked.table = next;
            }
            next += 1;
            next - 1
        })
    };
    let mut switches = Vec::new();
    for given in all {
        let tables: Vec<_> = jobs
            .iter_mut()
            .filter(|job| is_of(&job.events, &given.of))
            .map(&mut number)
            .collect();
        if tables.is_empty() {
            let (of, event) = (&given.of, given.event);
            bail!(Usage(format!(
                "{event}: {}: this command has no table for {}:{}: add {}:{} 'keys=...'",
                given.trigger, of.system, of.event, of.system, of.event
            )));
        }
        switches.push(job(given, tables, symbols, groups)?);
    }
    for mut job in switches {
        number(&mut job);
        jobs.push(job);
    }
    Ok(())
}

/// Returns whether a table counts this event.
fn is_of(events: &str, of: &EventName) -> bool {
    let name = format!("{}:{}", of.system, of.event);
    let counted = |event: &str| event.rsplit("..").next() == Some(name.as_str());
    events.split(',').any(counted)
}

fn job(given: &Given<'_>, tables: Vec<usize>, symbols: &Kallsyms, groups: &Groups) -> Result<Job> {
    let target = Target::open(given.event)?;
    let filter = given.tree.filter.as_ref();
    let filter = filter.map(|filter| {
        with_scope(&target, symbols, groups, |scope| {
            resolve::filter(filter, scope)
        })
    });
    let filter = filter.transpose();
    let program = Program {
        probe: target.probe(),
        filter: filter.map_err(|problems| refused(None, &problems, given.trigger))?,
        switch: Some(Switch {
            tables,
            on: given.on,
            count: given.tree.count.as_ref().map(|count| count.node),
        }),
        ..Program::default()
    };
    Ok(Job {
        events: given.event.to_owned(),
        trigger: given.trigger.to_owned(),
        name: None,
        tree: Hist::default(),
        table: Table::default(),
        programs: vec![program],
        targets: vec![target],
        paused: false,
        number: None,
        is_hidden: true,
    })
}
