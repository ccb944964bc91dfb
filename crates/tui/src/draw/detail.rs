//! Draws the pane with all details of one row.

use noctule_model::{Counter, ZoneKind};
use noctule_schema::usage;
use noctule_text::{
    count, date_time, duration, escape, frequency, joules, level_word, percent, rate, ratio, watts,
};
use ratatui::text::{Line, Span};

use crate::data::history::columns;
use crate::draw::line::labelled;
use crate::draw::palette::Palette;
use crate::draw::spark;
use crate::draw::wait_detail;
use crate::state::{App, Detail};
use crate::table::{Facts, Item, figures};
use crate::text::{self, Align};

/// Height of the graph, in lines.
const GRAPH: usize = 5;
/// Width of a figure's label.
const LABEL: usize = 18;
/// Width of a figure with its label.
const FIGURE: usize = 38;

/// Draws the lines of the pane.
pub(crate) fn lines(
    app: &App,
    detail: &Detail,
    width: usize,
    palette: &Palette,
) -> Vec<Line<'static>> {
    let line = &detail.line;
    let mut title = vec![
        Span::raw(" "),
        Span::styled(
            text::keep_start(&line.name, width.saturating_sub(2)),
            palette.accent,
        ),
        Span::raw(format!("  {}", level_word(app.level()))),
    ];
    if !line.below.is_empty() {
        title.push(Span::raw(format!(" with {} below it", line.below.len())));
    }
    if detail.gone {
        let gone = match line.item.waited {
            Some(_) => "  ended or did not wait: last values",
            None => "  ended or idle for a minute: last values",
        };
        title.push(Span::styled(gone, palette.alarm));
    }
    let mut lines = vec![Line::from(title)];
    if line.item.waited.is_some() {
        lines.extend(wait_detail::answer(app, &line.item, width, palette));
    }
    for (label, value) in &detail.about {
        lines.extend(labelled(label, &escape(value), width, palette));
    }
    match &line.item.waited {
        Some(waited) => lines.extend(wait_detail::lines(app, waited, width, palette)),
        None => lines.extend(graph(app, detail, width, palette)),
    }
    lines.push(Line::default());
    for (label, value) in identity(app, detail) {
        lines.extend(labelled(label, &escape(&value), width, palette));
    }
    if line.item.waited.is_some() {
        return lines;
    }
    lines.push(Line::default());
    let window = duration(app.facts().window_ns);
    let heading = format!(" in the window of {window}, and per second");
    lines.push(Line::styled(heading, palette.faint));
    lines.extend(figures(app, detail, width, palette));
    lines
}

/// Draws the graph of the last minute, with its scale.
fn graph(app: &App, detail: &Detail, width: usize, palette: &Palette) -> Vec<Line<'static>> {
    let history = app.shown.history(app.level());
    let keys = detail.line.below.iter().chain([&detail.line.item.key]);
    let minute = history.minute(keys);
    let peak = minute.iter().flatten().copied().fold(0.1, f32::max);
    let columns = columns(width.saturating_sub(10));
    let values = history.squeeze(&minute, columns);
    let mut lines: Vec<Line<'static>> = spark::graph(&values, peak, GRAPH)
        .into_iter()
        .enumerate()
        .map(|(i, part)| {
            let scale = match i {
                0 => percent(f64::from(peak) * 100.0),
                _ if i + 1 == GRAPH => "0%".to_owned(),
                _ => String::new(),
            };
            Line::from(vec![
                Span::styled(format!("{scale:>8} "), palette.faint),
                Span::styled(part, palette.graph),
            ])
        })
        .collect();
    let caption = format!("CPU, last {}", text::length(app.span_ns()));
    lines.push(Line::styled(format!("{:9}{caption}", ""), palette.faint));
    lines
}

/// Describes the identity of the row. Unknown facts are left out.
fn identity(app: &App, detail: &Detail) -> Vec<(&'static str, String)> {
    let row = &detail.line.item.row;
    let owner = &row.owner;
    let mut facts = Vec::new();
    if let Some(process) = &row.process {
        facts.push(("pid", process.id.pid.to_string()));
        facts.push(("parent pid", process.parent_pid.to_string()));
        let boot = app.shown.window.as_ref().map_or(0, |w| w.boot_unix_ns);
        let start = boot + process.id.start_ns;
        let started = date_time(start, (app.utc_offset)(start));
        facts.push(("started", started));
        if process.kernel_thread {
            facts.push(("kind", "kernel thread".to_owned()));
        }
    }
    if let Some(container) = &owner.container {
        facts.push(("container", container.id.clone()));
        facts.extend(container.name.clone().map(|name| ("name", name)));
        facts.push(("runtime", container.runtime.name().to_owned()));
        if !container.chain.is_empty() {
            facts.push(("inside", container.chain.join(" > ")));
        }
    }
    if let Some(pod) = &owner.pod {
        facts.extend(pod.name.clone().map(|name| ("pod", name)));
        facts.extend(pod.namespace.clone().map(|name| ("namespace", name)));
        facts.push(("pod uid", pod.uid.clone()));
        facts.push(("pod class", pod.qos.to_owned()));
    }
    facts.extend(owner.unit.clone().map(|unit| ("unit", unit)));
    facts.push(("cgroup", owner.path.clone()));
    if owner.cgroup.0 != 0 {
        facts.push(("cgroup id", owner.cgroup.0.to_string()));
    }
    facts
}

/// Draws every counter, in as many columns as fit.
fn figures(app: &App, detail: &Detail, width: usize, palette: &Palette) -> Vec<Line<'static>> {
    let cells = cells(app, detail);
    let columns = (width / FIGURE).max(1);
    let rows = cells.len().div_ceil(columns);
    let row = |y: usize| {
        let mut spans = Vec::new();
        for (label, value) in cells.iter().skip(y).step_by(rows.max(1)) {
            let label = text::pad(label, LABEL, Align::Left);
            spans.push(Span::styled(format!(" {label}"), palette.faint));
            spans.push(Span::raw(text::pad(value, FIGURE - LABEL - 1, Align::Left)));
        }
        Line::from(spans)
    };
    (0..rows).map(row).collect()
}

fn cells(app: &App, detail: &Detail) -> Vec<(String, String)> {
    let facts = app.facts();
    let item = &detail.line.item;
    let absent = || "-".to_owned();
    let number = |value: Option<f64>, write: fn(f64) -> String| value.map_or_else(absent, write);
    let cpu = number(figures::cpu_percent(&facts, item), percent);
    let known = app.shown.history(app.level()).was_active(&item.key);
    let mean = number(known.then_some(f64::from(item.mean) * 100.0), percent);
    let hertz = number(figures::frequency(&facts, item), frequency);
    let ipc = number(figures::instructions_per_cycle(&facts, item), ratio);
    let mut cells = vec![
        ("CPU".to_owned(), cpu),
        ("CPU, minute".to_owned(), mean),
        ("frequency".to_owned(), hertz),
        ("instr. / cycle".to_owned(), ipc),
    ];
    for counter in Counter::all() {
        let value = facts.measured.value(&item.row.counters, counter);
        let value = match (value, figures::rate(&facts, item, counter)) {
            (Some(ns), _) if counter == Counter::CpuTime => duration(ns),
            (Some(ns), Some(growth))
                if matches!(counter, Counter::Wait(_) | Counter::Blocked(_)) =>
            {
                format!("{:>6} {:>8}/s", duration(ns), text::length(growth))
            }
            (Some(sum), Some(growth)) => format!("{:>6} {:>8}/s", count(sum), rate(growth)),
            (Some(sum), None) => count(sum),
            (None, _) => absent(),
        };
        cells.push((usage::title(counter), value));
    }
    cells.extend(energy(&facts, item));
    cells
}

/// Returns the active energy in the window by kind of zone, and the power.
fn energy(facts: &Facts, item: &Item) -> Vec<(String, String)> {
    let cell = |kind: ZoneKind| {
        let power = figures::watts_of(facts, item, kind)?;
        let used = joules(item.row.joules[kind]);
        let label = format!("energy {}", kind.name());
        Some((label, format!("{used:>6} {:>8}", watts(power))))
    };
    ZoneKind::ALL.into_iter().filter_map(cell).collect()
}
