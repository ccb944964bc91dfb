//! `noctule hist`: counts the hits of a tracepoint by key, as the kernel's histogram triggers do.

mod before;
mod control;
mod filter;
mod job;
mod json;
mod linked;
mod names;
mod plan;
mod switch;

use std::io::{IsTerminal as _, stdout};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use noctule_kernel::{LoadedProgram, TraceEvents};
use noctule_trace::emit::emit;
use noctule_trace::program::Program;
use noctule_trace::session::{Attach, Counted, Gate, Session, Start};
use noctule_trace::table::{Area, Snapshot, Table};

use super::attach_point::Target;
use super::event_stream::{Node, STEP};
use super::groups::Groups;
use super::kallsyms::Kallsyms;
use super::refusal::not_started;
use crate::args::HistArgs;
use crate::commands::shared::watch::{Output, Reader};
use crate::exit::{self, Usage};
use crate::stop::{Signals, Woken};
use before::{Before, Wanted};
use control::{Control, Order};
use job::Job;
use names::Names;

/// Maximum number of rows of the live table.
const LIVE_ROWS: usize = 20;
/// The trigger of an event that is given alone.
const BY_COMMAND: &str = "keys=comm:sort=hitcount.descending";
/// Separator that the kernel prints between the tables of one event.
const BETWEEN: &str = "\n\n";

pub(crate) fn run(args: &HistArgs) -> Result<u8> {
    let mut pairs = args.pairs.clone();
    if let [event] = pairs.as_slice()
        && !event.contains("..")
    {
        pairs.push(BY_COMMAND.to_owned());
    }
    let (pairs, rest) = pairs.as_chunks::<2>();
    if !rest.is_empty() {
        bail!(Usage(
            "each EVENT needs its TRIGGER, such as sched:sched_switch keys=prev_comm".to_owned()
        ));
    }
    let mut output = Output::open(args.output.as_deref())?;
    let signals = Signals::catch()?;
    let node = Node::default();
    let control = args.control.as_deref().map(Control::open).transpose()?;
    let known = (&node.symbols, &node.groups);
    let mut jobs = plan::of(pairs, &args.synth, known.0, known.1, control.is_some())?;
    if let Some(text) = &args.filter {
        let [job] = jobs.as_mut_slice() else {
            bail!(Usage(
                "--filter needs a single event, such as socket:INTERFACE".to_owned()
            ));
        };
        let ([target], [program]) = (job.targets.as_slice(), job.programs.as_mut_slice()) else {
            bail!(Usage(
                "--filter needs a single event, such as socket:INTERFACE".to_owned()
            ));
        };
        program.classic = Some(filter::compile(text, &job.events, target)?);
    }
    if args.dump {
        for program in jobs.iter().flat_map(|job| &job.programs) {
            output.write(&dump(program)?)?;
        }
        return Ok(exit::DONE);
    }
    let mut shown = jobs.iter().filter(|job| !job.is_hidden);
    if args.graph && !shown.all(|job| job.table.has_graph()) {
        bail!(no_graph());
    }
    let wanted = Wanted::find(args, &jobs, &node)?;
    // Started first, so that it records an event before the table saves the event's value.
    let before = wanted
        .as_ref()
        .map(|wanted| wanted.start(args, &node, output.paint()));
    let before = before.transpose()?;
    let gate = Gate::closed()?;
    let mut running = start(jobs, &gate)?;
    node.groups.warn_of_unknown();
    gate.open(true)?;
    let began = Instant::now();
    let live = output.is_terminal() && !args.json;
    let mut inputs = (control, before);
    watch(args, &signals, &mut inputs, &mut running, live, known)?;
    gate.open(false)?;
    let window = began.elapsed();
    running.iter_mut().for_each(|one| one.session.stop());
    let taken = taken(&running, known.1)?;
    let events = inputs.1.map(|before| before.end(taken)).transpose()?;
    let events = events.unwrap_or_default();
    let mut texts = Vec::new();
    for one in running {
        texts.extend(one.answer(args, window, known, &events)?);
    }
    let text = texts.join(if args.json { "" } else { BETWEEN });
    if !args.json && !events.is_empty() {
        output.write(&(events.concat() + "\n"))?;
    }
    output.write(&text)?;
    node.groups.warn_of_late("counted");
    Ok(exit::DONE)
}

/// Returns when `snapshot()` last saved a value, in nanoseconds of `CLOCK_MONOTONIC`.
fn taken(running: &[Running], groups: &Groups) -> Result<Option<u64>> {
    let has = |one: &&Running| one.table.tracked.iter().any(|tracked| tracked.is_snapshot);
    let Some(one) = running.iter().find(has) else {
        return Ok(None);
    };
    let counted = one.counted(groups)?;
    Ok(one.table.taken(&counted.rows).map(|taken| taken.time_ns))
}

/// Symbols and cgroups of the node.
type Known<'a> = (&'a Kallsyms, &'a Groups);

/// A running table.
struct Running {
    session: Session,
    table: Table,
    events: String,
    trigger: String,
    name: Option<String>,
    /// Whether the table has no output of its own, because it only serves other tables.
    is_hidden: bool,
}

/// Starts all tables. Tables that depend on each other start together.
fn start(jobs: Vec<Job>, gate: &Gate) -> Result<Vec<Running>> {
    let (mut of_others, alone): (Vec<_>, Vec<_>) = jobs
        .into_iter()
        .enumerate()
        .partition(|(_, job)| job.number.is_some());
    of_others.sort_by_key(|(_, job)| job.number);
    let mut running = Vec::new();
    let groups = [of_others]
        .into_iter()
        .chain(alone.into_iter().map(|one| vec![one]));
    for group in groups.filter(|group| !group.is_empty()) {
        running.extend(start_group(group, gate)?);
    }
    running.sort_by_key(|(place, _)| *place);
    Ok(running.into_iter().map(|(_, running)| running).collect())
}

fn start_group(mut jobs: Vec<(usize, Job)>, gate: &Gate) -> Result<Vec<(usize, Running)>> {
    let attach = |target: Target| -> Attach<'_> {
        Box::new(move |program: &LoadedProgram| target.attach(program))
    };
    let targets: Vec<_> = jobs
        .iter_mut()
        .map(|(_, job)| std::mem::take(&mut job.targets))
        .collect();
    let tables = jobs.iter().zip(targets).map(|((_, job), targets)| Start {
        // A synthetic event has no target; the programs of other tables count it.
        programs: job
            .programs
            .iter()
            .zip(targets.into_iter().map(attach))
            .collect(),
        layout: job.programs.first(),
        size: job.table.size,
        paused: job.paused,
    });
    let started = Session::start_all(tables.collect(), TraceEvents::possible_cpus(), gate);
    let sessions = started.map_err(|(at, error)| {
        let job = &jobs[at].1;
        not_started(&job.events, Some(&job.trigger), error)
    })?;
    let running = jobs
        .into_iter()
        .zip(sessions)
        .map(|((place, job), session)| {
            let running = Running {
                session,
                table: job.table,
                events: job.events,
                trigger: job.trigger,
                name: job.name,
                is_hidden: job.is_hidden,
            };
            (place, running)
        });
    Ok(running.collect())
}

impl Running {
    /// Returns the counts. Rows of cgroups with the same owner are merged.
    fn counted(&self, groups: &Groups) -> Result<Counted> {
        let read = self.session.read();
        let mut counted =
            read.map_err(|error| not_started(&self.events, Some(&self.trigger), error))?;
        groups.refresh();
        let mut first = |identity, id| groups.first(identity, id);
        counted.rows = self.table.by_owner(counted.rows, &counted.kept, &mut first);
        Ok(counted)
    }

    fn snapshot<'a>(&self, counted: &'a Counted) -> Result<Snapshot<'a>> {
        let paused = self.session.is_paused();
        Ok(Snapshot {
            rows: &counted.rows,
            dropped: counted.dropped,
            skipped: self.session.skipped(),
            counted_part: self.session.counted_part(),
            paused: paused
                .map_err(|error| not_started(&self.events, Some(&self.trigger), error))?,
        })
    }

    /// Renders the live table.
    fn draw(&self, rows: usize, (symbols, groups): Known<'_>) -> Result<String> {
        let counted = self.counted(groups)?;
        let names = Names::new(symbols, groups, &counted);
        let width = size().0;
        let area = Area { width, rows };
        Ok(self.table.draw(&self.snapshot(&counted)?, &names, area))
    }

    /// Returns the final output; `None` if the table only serves other tables.
    fn answer(
        self,
        args: &HistArgs,
        window: Duration,
        (symbols, groups): Known<'_>,
        events: &[String],
    ) -> Result<Option<String>> {
        let skipped = self.session.skipped();
        let counted = self.counted(groups)?;
        if self.is_hidden && counted.dropped > 0 {
            tracing::warn!(
                "{}: {} events had no room for their variables: increase size= in the trigger",
                noctule_text::escape(&self.events),
                counted.dropped
            );
        }
        if self.session.evicts_first_events() {
            tracing::warn!(
                "{}: too many first events were waiting for their second event, so the oldest were \
                 dropped: their times are missing",
                noctule_text::escape(&self.events)
            );
        }
        let names = Names::new(symbols, groups, &counted);
        let now = self.snapshot(&counted)?;
        if args.json {
            let named = names.lossless();
            let answer = json::answer(&self.events, &self.table, &now, &named, (window, events));
            return Ok((!self.is_hidden).then_some(answer? + "\n"));
        }
        if skipped > 0 {
            tracing::warn!(
                "{}: the kernel did not run the program for {skipped} hits, because another BPF \
                 program ran on that CPU; they are not counted, whether or not they match the \
                 filter",
                noctule_text::escape(&self.events)
            );
        }
        if let Some(part) = now.counted_part {
            tracing::warn!(
                "{}: the processor had too few counters for all users (the agent with \
                 hardware_counters, perf, kernel.nmi_watchdog), so it counted this event only \
                 {:.1}% of the time: the other hits are missing",
                noctule_text::escape(&self.events),
                100.0 * part
            );
        }
        if self.is_hidden {
            return Ok(None);
        }
        match args.graph {
            true => graph(&self.table, &now, &names).map(Some),
            false => Ok(Some(self.table.kernel_text(&now, &names))),
        }
    }

    fn obey(&self, order: Order) -> Result<()> {
        let done = match order {
            Order::Pause => self.session.pause(true),
            Order::Continue => self.session.pause(false),
            Order::Clear => self.session.clear(),
        };
        done.map_err(|error| not_started(&self.events, None, error))
    }
}

/// Lists the instructions of the classic filter and of the program.
fn dump(program: &Program) -> Result<String> {
    let code = emit(program)?.code;
    let classic = program.classic.as_ref();
    let classic = classic.map_or(String::new(), |filter| {
        format!("# classic filter\n{}\n", filter.listing())
    });
    Ok(format!("{classic}# program\n{code}"))
}

/// Redraws the table and executes commands, until the time is up or a signal arrives.
fn watch(
    args: &HistArgs,
    signals: &Signals,
    (control, before): &mut (Option<Control>, Option<Before<'_>>),
    running: &mut [Running],
    live: bool,
    node: Known<'_>,
) -> Result<()> {
    let end = args.duration.map(|duration| Instant::now() + duration);
    let mut lines = 0;
    let step = if live {
        args.interval
    } else {
        Duration::from_secs(3600)
    };
    let mut next = Instant::now() + step;
    loop {
        let mut until = end.map_or(next, |end| end.min(next));
        if before.is_some() {
            until = until.min(Instant::now() + STEP);
        }
        let orders = control.as_ref().and_then(Control::fd);
        let traced = before.as_ref().map(|before| before.session.wakes());
        let inputs: Vec<_> = orders.into_iter().chain(traced).collect();
        let woken = signals.wait(until, &inputs)?;
        if let Some(before) = before {
            before.follow(|| taken(running, node.1))?;
        }
        if woken == Woken::End || end.is_some_and(|end| Instant::now() >= end) {
            break;
        }
        if let (Woken::Data, Some(control)) = (woken, &mut *control) {
            for (order, name) in control.orders()? {
                let is_meant = |one: &&Running| name.is_none() || one.name == name;
                let meant: Vec<_> = running.iter().filter(is_meant).collect();
                if let (true, Some(name)) = (meant.is_empty(), &name) {
                    let name = noctule_text::escape(name);
                    tracing::warn!("--control: {name}: no table has this name=");
                }
                meant.into_iter().try_for_each(|one| one.obey(order))?;
            }
            continue;
        }
        if Instant::now() < next {
            continue;
        }
        next = Instant::now() + step;
        if live {
            // Leaves room for the header, the line about omitted rows, and the cursor line.
            let shown = || running.iter().filter(|one| !one.is_hidden);
            let rows = size().1 / shown().count().max(1);
            let rows = rows.saturating_sub(3).clamp(1, LIVE_ROWS);
            let drawn = shown().map(|one| one.draw(rows, node));
            let text: String = drawn.collect::<Result<_>>()?;
            if redraw(&text, &mut lines, &mut Output::Standard)? == Reader::Gone {
                return Ok(());
            }
        }
    }
    if live {
        redraw("", &mut lines, &mut Output::Standard)?;
    }
    Ok(())
}

/// Replaces the lines that were drawn before.
fn redraw(text: &str, lines: &mut usize, output: &mut Output<'_>) -> Result<Reader> {
    let back = match *lines {
        0 => String::new(),
        lines => format!("\x1b[{lines}A\x1b[J"),
    };
    *lines = text.lines().count();
    output.write(&format!("{back}{text}"))
}

fn graph(table: &Table, now: &Snapshot<'_>, names: &Names<'_>) -> Result<String> {
    let graph = table.graph(now, names, size().0);
    graph.ok_or_else(|| no_graph().into())
}

fn no_graph() -> Usage {
    let words = "--graph needs a key with .log2 or .buckets=N, or a value with a percentile";
    Usage(words.to_owned())
}

/// Returns the width and height of the terminal.
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
