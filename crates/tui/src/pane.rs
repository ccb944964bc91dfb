//! The panes that cover the table: everything about one row, and the help.

use std::time::Duration;

use noctule_model::{Counter, SOFTIRQ_VECTORS, escape_terminal};
use ratatui::text::{Line, Span};

use crate::app::{App, Detail};
use crate::history::LENGTH;
use crate::keys::{KEYS, Mode, Press};
use crate::palette::Palette;
use crate::table::{self, COLUMNS};
use crate::text::{self, Align};
use crate::{level, spark};

/// Lines of the graph in the detail pane.
const GRAPH: usize = 5;
/// Columns of a label.
const LABEL: usize = 15;

/// How many lines the pane has; 0 while none is open.
pub(crate) fn height(app: &App, width: u16) -> usize {
    match app.mode {
        Mode::Table | Mode::Filter => 0,
        Mode::Detail | Mode::Help => lines(app, width, &Palette::new(false)).len(),
    }
}

/// The lines of the pane.
pub(crate) fn lines(app: &App, width: u16, palette: &Palette) -> Vec<Line<'static>> {
    let width = usize::from(width);
    match (app.mode, &app.detail) {
        (Mode::Help, _) => help(width, palette),
        (_, Some(detail)) => self::detail(app, detail, width, palette),
        _ => Vec::new(),
    }
}

fn help(width: usize, palette: &Palette) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled(" Keys", palette.accent)];
    for binding in KEYS {
        let labels: Vec<String> = binding.keys.iter().map(Press::label).collect();
        lines.extend(labelled(&labels.join(" "), binding.help, width, palette));
    }
    lines.push(Line::default());
    lines.push(Line::styled(" Columns", palette.accent));
    for column in COLUMNS {
        lines.extend(labelled(column.title, column.help, width, palette));
    }
    lines.push(Line::default());
    for line in [
        "A row stays for a minute after it last used anything.",
        "What is not measured has no column, or -; noctule doctor says why.",
        "remainder: time that is neither idle nor charged to a process.",
    ] {
        let folded = text::wrap(line, width.saturating_sub(2));
        lines.extend(folded.into_iter().map(|line| Line::raw(format!(" {line}"))));
    }
    lines
}

/// A label and a text that is folded to the width.
fn labelled(label: &str, value: &str, width: usize, palette: &Palette) -> Vec<Line<'static>> {
    let room = width.saturating_sub(LABEL + 2).max(1);
    let folded = text::wrap(value, room).into_iter().enumerate();
    folded
        .map(|(i, part)| {
            let label = if i == 0 { label } else { "" };
            Line::from(vec![
                Span::styled(
                    format!(" {}", text::pad(label, LABEL, Align::Left)),
                    palette.faint,
                ),
                Span::raw(part),
            ])
        })
        .collect()
}

fn detail(app: &App, detail: &Detail, width: usize, palette: &Palette) -> Vec<Line<'static>> {
    let line = &detail.line;
    let mut title = vec![
        Span::raw(" "),
        Span::styled(
            text::keep_start(&line.name, width.saturating_sub(2)),
            palette.accent,
        ),
        Span::raw(format!("  {}", level::word(app.level))),
    ];
    if !line.below.is_empty() {
        title.push(Span::raw(format!(" with {} below it", line.below.len())));
    }
    if detail.gone {
        let gone = "  gone, or idle for a minute: last figures";
        title.push(Span::styled(gone, palette.alarm));
    }
    let mut lines = vec![Line::from(title)];
    lines.extend(graph(app, detail, width, palette));
    lines.push(Line::default());
    for (label, value) in identity(app, detail) {
        lines.extend(labelled(label, &escape_terminal(&value), width, palette));
    }
    lines.push(Line::default());
    lines.extend(figures(app, detail, width, palette));
    lines
}

/// The minute, with the numbers that its height stands for.
fn graph(app: &App, detail: &Detail, width: usize, palette: &Palette) -> Vec<Line<'static>> {
    let history = app.shown.history(app.level);
    let keys = detail.line.below.iter().chain([&detail.line.item.key]);
    let minute = history.minute(keys);
    let peak = minute.iter().flatten().copied().fold(0.1, f32::max);
    let values = history.squeeze(&minute, width.saturating_sub(10).min(LENGTH));
    let mut lines: Vec<Line<'static>> = spark::graph(&values, peak, GRAPH)
        .into_iter()
        .enumerate()
        .map(|(i, part)| {
            let scale = match i {
                0 => text::percent(f64::from(peak) * 100.0) + " %",
                _ if i + 1 == GRAPH => "0 %".to_owned(),
                _ => String::new(),
            };
            Line::from(vec![
                Span::styled(format!("{scale:>8} "), palette.faint),
                Span::styled(part, palette.graph),
            ])
        })
        .collect();
    let span = app.interval.max(Duration::from_millis(1)) * LENGTH as u32;
    let caption = format!("CPU, last {}", text::duration(span.as_nanos() as f64));
    lines.push(Line::styled(format!("{:9}{caption}", ""), palette.faint));
    lines
}

/// Who it is. What is not known is left out.
fn identity(app: &App, detail: &Detail) -> Vec<(&'static str, String)> {
    let row = &detail.line.item.row;
    let owner = &row.owner;
    let mut facts = Vec::new();
    if let Some(process) = &row.process {
        facts.push(("pid", process.id.pid.to_string()));
        facts.push(("parent pid", process.parent_pid.to_string()));
        let boot = app.shown.window.as_ref().map_or(0, |w| w.boot_unix_ns);
        facts.push(("started", text::date_time(boot + process.id.start_ns)));
        if process.kernel_thread {
            facts.push(("kind", "thread of the kernel".to_owned()));
        }
    }
    if let Some(container) = &owner.container {
        facts.push(("container", container.id.clone()));
        facts.extend(container.name.clone().map(|name| ("name", name)));
        facts.push(("runtime", container.runtime.name().to_owned()));
        if !container.chain.is_empty() {
            facts.push(("inside of", container.chain.join(" > ")));
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

/// Every counter, in as many columns as fit.
fn figures(app: &App, detail: &Detail, width: usize, palette: &Palette) -> Vec<Line<'static>> {
    const WIDTH: usize = 38;
    let cells = cells(app, detail);
    let columns = (width / WIDTH).max(1);
    let rows = cells.len().div_ceil(columns);
    let row = |y: usize| {
        let mut spans = Vec::new();
        for (label, value) in cells.iter().skip(y).step_by(rows.max(1)) {
            let label = text::pad(label, LABEL, Align::Left);
            spans.push(Span::styled(format!(" {label}"), palette.faint));
            spans.push(Span::raw(text::pad(value, WIDTH - LABEL - 1, Align::Left)));
        }
        Line::from(spans)
    };
    (0..rows).map(row).collect()
}

fn cells(app: &App, detail: &Detail) -> Vec<(String, String)> {
    let facts = app.facts();
    let item = &detail.line.item;
    let absent = || "-".to_owned();
    let number =
        |value: Option<f64>, write: &dyn Fn(f64) -> String| value.map_or_else(absent, write);
    let cpu = number(table::cpu_percent(&facts, item), &|v| {
        text::percent(v) + " %"
    });
    let mean = text::percent(f64::from(item.mean) * 100.0) + " %";
    let frequency = number(table::frequency(&facts, item), &|v| text::count(v) + "Hz");
    let ipc = number(table::instructions_per_cycle(&facts, item), &text::ratio);
    let mut cells = vec![
        ("CPU".to_owned(), cpu),
        ("CPU, minute".to_owned(), mean),
        ("frequency".to_owned(), frequency),
        ("instr. / cycle".to_owned(), ipc),
    ];
    for counter in Counter::all() {
        let value = facts.measured.value(&item.row.counters, counter);
        let value = match (value, table::rate(&facts, item, counter)) {
            (Some(ns), _) if counter == Counter::CpuTime => text::duration(ns as f64),
            (Some(sum), Some(rate)) => {
                format!("{:>6} {:>8}/s", text::count(sum as f64), text::count(rate))
            }
            (Some(sum), None) => text::count(sum as f64),
            (None, _) => absent(),
        };
        cells.push((label(counter), value));
    }
    cells
}

fn label(counter: Counter) -> String {
    let name = match counter {
        Counter::CpuTime => "CPU time",
        Counter::Cycles => "cycles",
        Counter::ReferenceCycles => "ref. cycles",
        Counter::Instructions => "instructions",
        Counter::CacheMisses => "cache misses",
        Counter::PageReads => "page reads",
        Counter::PageWrites => "page writes",
        Counter::SwitchesVoluntary => "voluntary sw.",
        Counter::SwitchesPreempted => "preempted",
        Counter::Softirq(vector) => {
            return format!("irq {}", SOFTIRQ_VECTORS[usize::from(vector)]);
        }
    };
    name.to_owned()
}
