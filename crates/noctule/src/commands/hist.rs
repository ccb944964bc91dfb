//! `noctule hist`: counts the hits of a tracepoint by key, as the kernel's histogram triggers do.

mod filter;
mod json;
mod names;

use std::io::{IsTerminal as _, stdout};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use noctule_kernel::TraceEvents;
use noctule_trace::emit::emit;
use noctule_trace::parse;
use noctule_trace::print::Print;
use noctule_trace::program::Program;
use noctule_trace::resolve::{self, Scope};
use noctule_trace::session::{Counted, Session};
use noctule_trace::source::Problem;
use noctule_trace::table::{Area, Snapshot, Table};

use self::names::Names;
use super::groups::Groups;
use super::kallsyms::Kallsyms;
use super::refusal::not_started;
use super::target::Target;
use super::watch::{Output, Reader};
use crate::args::HistArgs;
use crate::exit::{self, Usage};
use crate::stop::{Signals, Woken};

/// Rows of the live table.
const LIVE_ROWS: usize = 20;

pub(super) fn run(args: &HistArgs) -> Result<u8> {
    let mut output = Output::open(args.output.as_deref())?;
    let signals = Signals::catch()?;
    let mut targets = named(&args.event)?;
    let symbols = Kallsyms::default();
    let groups = Groups::default();
    let (mut programs, table) = compile(&targets, &args.trigger, &symbols, &groups)?;
    if let Some(text) = &args.filter {
        let ([target], [program]) = (targets.as_slice(), programs.as_mut_slice()) else {
            bail!(Usage(
                "--filter is for the packets of one interface".to_owned()
            ));
        };
        program.classic = Some(filter::compile(text, &args.event, target)?);
    }
    if args.dump {
        for program in &programs {
            output.write(&dump(program)?)?;
        }
        return Ok(exit::DONE);
    }
    let cpus = TraceEvents::possible_cpus();
    let second = targets.pop();
    let first = targets.pop();
    let mut session = match (first, second, programs.as_slice()) {
        (Some(first), Some(second), [early, late]) => {
            Session::start_pair([early, late], table.size, cpus, |[early, late]| {
                Ok(vec![second.attach(late)?, first.attach(early)?])
            })
        }
        (None, Some(only), [program]) => {
            Session::start(program, table.size, cpus, |program| only.attach(program))
        }
        _ => bail!("an event without a program"),
    }
    .map_err(|error| not_started(&args.event, Some(&args.trigger), error))?;
    let began = Instant::now();
    let live = output.is_terminal() && !args.json;
    watch(args, &signals, live, |lines| {
        let counted = by_owner(session.read()?, &table, &groups);
        let names = Names::new(&symbols, &groups, &counted);
        let (width, height) = size();
        // The head, and the line about the rows that have no place, and that of the cursor.
        let rows = height.saturating_sub(3).clamp(1, LIVE_ROWS);
        let area = Area { width, rows };
        redraw(
            &table.draw(&snapshot(&counted), &names, area),
            lines,
            &mut Output::Standard,
        )
    })?;
    session.stop();
    let window = began.elapsed();
    let counted = session
        .read()
        .map_err(|error| not_started(&args.event, Some(&args.trigger), error))?;
    drop(session);
    let counted = by_owner(counted, &table, &groups);
    let names = Names::new(&symbols, &groups, &counted);
    let now = snapshot(&counted);
    output.write(&if args.json {
        json::answer(&args.event, &table, &now, &names.lossless(), window)? + "\n"
    } else if args.graph {
        graph(&table, &now, &names)?
    } else {
        table.kernel_text(&now, &names)
    })?;
    groups.warn_of_late("counted");
    Ok(exit::DONE)
}

/// The instructions of the classic filter, and those of the program.
fn dump(program: &Program) -> Result<String> {
    let code = emit(program)?.code;
    let classic = program.classic.as_ref();
    let classic = classic.map_or(String::new(), |filter| {
        format!("# classic filter\n{}\n", filter.listing())
    });
    Ok(format!("{classic}# program\n{code}"))
}

/// The rows of the cgroups of one owner are one row.
fn by_owner(mut counted: Counted, table: &Table, groups: &Groups) -> Counted {
    groups.refresh();
    let mut first = |identity, id| groups.first(identity, id);
    counted.rows = table.by_owner(counted.rows, &counted.kept, &mut first);
    counted
}

/// The program and the table of a trigger.
fn compile(
    targets: &[Target],
    trigger: &str,
    symbols: &Kallsyms,
    groups: &Groups,
) -> Result<(Vec<Program>, Table)> {
    let (tree, problems) = parse::hist(trigger);
    let refused = |problems: &[Problem]| {
        let shown: Vec<_> = problems
            .iter()
            .map(|problem| problem.show(trigger))
            .collect();
        Usage(shown.join("").trim_end().to_owned())
    };
    if !problems.is_empty() {
        bail!(refused(&problems));
    }
    let tables: Vec<_> = targets
        .iter()
        .map(|target| {
            Print::parse(target.format())
                .map(|print| print.tables())
                .unwrap_or_default()
        })
        .collect();
    let function = |name: &str| symbols.function(name);
    let scope = |which: usize| Scope {
        probe: targets[which].probe(),
        format: targets[which].format(),
        tables: &tables[which],
        function: &function,
        groups,
    };
    let compiled = match targets {
        [_, _] => resolve::latency(&tree, &scope(0), &scope(1))
            .map(|(pair, table)| (Vec::from(pair), table)),
        _ => resolve::hist(&tree, &scope(0)).map(|(program, table)| (vec![program], table)),
    };
    compiled.map_err(|problems| refused(&problems).into())
}

/// The event, or the two of `FIRST..SECOND`.
fn named(text: &str) -> Result<Vec<Target>> {
    match text.split_once("..") {
        Some((first, second)) => Ok(vec![Target::open(first)?, Target::open(second)?]),
        None => Ok(vec![Target::open(text)?]),
    }
}

/// Draws again and again until the time has come or a signal.
fn watch(
    args: &HistArgs,
    signals: &Signals,
    live: bool,
    mut draw: impl FnMut(&mut usize) -> Result<Reader>,
) -> Result<()> {
    let end = args.duration.map(|duration| Instant::now() + duration);
    let mut lines = 0;
    loop {
        let step = if live {
            args.interval
        } else {
            Duration::from_secs(3600)
        };
        let next = Instant::now() + step;
        let until = end.map_or(next, |end| end.min(next));
        let woken = signals.wait(until, &[])?;
        if woken == Woken::End || end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
        if live && draw(&mut lines)? == Reader::Gone {
            return Ok(());
        }
    }
    if live {
        redraw("", &mut lines, &mut Output::Standard)?;
    }
    Ok(())
}

/// Puts the text in place of the lines that were drawn before.
fn redraw(text: &str, lines: &mut usize, output: &mut Output<'_>) -> Result<Reader> {
    let back = match *lines {
        0 => String::new(),
        lines => format!("\x1b[{lines}A\x1b[J"),
    };
    *lines = text.lines().count();
    output.write(&format!("{back}{text}"))
}

fn snapshot(counted: &Counted) -> Snapshot<'_> {
    Snapshot {
        rows: &counted.rows,
        dropped: counted.dropped,
        paused: false,
    }
}

fn graph(table: &Table, now: &Snapshot<'_>, names: &Names<'_>) -> Result<String> {
    table.graph(now, names, size().0).ok_or_else(|| {
        let words = "--graph needs a key with .log2 or .buckets=N, or a value with a percentile";
        Usage(words.to_owned()).into()
    })
}

/// Characters of a line, and lines.
fn size() -> (usize, usize) {
    const USUAL: (usize, usize) = (120, 24);
    if !stdout().is_terminal() {
        return USUAL;
    }
    let size = rustix::termios::tcgetwinsize(stdout());
    size.map_or(USUAL, |size| {
        (usize::from(size.ws_col).max(20), usize::from(size.ws_row))
    })
}
