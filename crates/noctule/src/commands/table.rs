//! The table of `noctule stat`, and of the first look of `noctule run`.

use noctule_analysis::{Report, Row};
use noctule_model::{Counter, EventCounter, Level, SOFTIRQ_VECTORS};
use noctule_text::{self as text, escape};

use crate::print::{self, Paint};

/// One column: its title, and its cell in a row. A counter that is not measured gives `None`, and
/// so does an event that did not happen; a column of nothing but those is left out.
struct Column {
    title: &'static str,
    cell: fn(&Report, &Row) -> Option<String>,
}

const COLUMNS: &[Column] = &[
    Column {
        title: "CPU%",
        cell: |report, row| {
            let share = row.counters[Counter::CpuTime] as f64 / report.window_ns.max(1) as f64;
            Some(text::decimal(share * 100.0))
        },
    },
    Column {
        title: "CPU",
        cell: |report, row| {
            report
                .measured
                .value(&row.counters, Counter::CpuTime)
                .map(text::duration)
        },
    },
    Column {
        title: "joules",
        cell: |report, row| {
            let energy = report.energy.as_ref()?;
            (!energy.kinds.is_empty()).then(|| text::joules(energy.total_uj(&row.joules)))
        },
    },
    Column {
        title: "freq",
        cell: |report, row| {
            let hertz = report.node.nominal_hertz;
            row.counters
                .frequency_hertz(report.measured, hertz)
                .map(text::frequency)
        },
    },
    Column {
        title: "cycles",
        cell: |report, row| count(report, row, Counter::Cycles),
    },
    Column {
        title: "instr",
        cell: |report, row| count(report, row, Counter::Instructions),
    },
    Column {
        title: "IPC",
        cell: |report, row| {
            let value = |counter| report.measured.value(&row.counters, counter);
            let (instructions, cycles) = (value(Counter::Instructions)?, value(Counter::Cycles)?);
            (cycles > 0).then(|| text::ratio(instructions as f64 / cycles as f64))
        },
    },
    Column {
        title: "misses",
        cell: |report, row| count(report, row, Counter::CacheMisses),
    },
    Column {
        title: "pg read",
        cell: |report, row| count(report, row, Counter::PageReads),
    },
    Column {
        title: "pg write",
        cell: |report, row| count(report, row, Counter::PageWrites),
    },
    Column {
        title: "softirq",
        cell: |report, row| {
            let vectors = (0..SOFTIRQ_VECTORS.len() as u8).map(Counter::Softirq);
            let values = vectors.map(|vector| report.measured.value(&row.counters, vector));
            values.sum::<Option<u64>>().map(text::count)
        },
    },
    Column {
        title: "vol",
        cell: |report, row| count(report, row, Counter::SwitchesVoluntary),
    },
    Column {
        title: "preempt",
        cell: |report, row| count(report, row, Counter::SwitchesPreempted),
    },
    Column {
        title: "starts",
        cell: |report, row| events(report, row, &[EventCounter::ProcessStarts]),
    },
    Column {
        title: "conns",
        cell: |report, row| {
            let made = [EventCounter::TcpConnects, EventCounter::TcpAccepts];
            events(report, row, &made)
        },
    },
    Column {
        title: "received",
        cell: |report, row| bytes(report, row, EventCounter::TcpBytesReceived),
    },
    Column {
        title: "sent",
        cell: |report, row| bytes(report, row, EventCounter::TcpBytesSent),
    },
    Column {
        title: "oom",
        cell: |report, row| events(report, row, &[EventCounter::OomKills]),
    },
];

/// Events together, if there were any.
fn events(report: &Report, row: &Row, counters: &[EventCounter]) -> Option<String> {
    sum(report, row, counters).map(text::count)
}

/// An event that counts bytes, if there were any.
fn bytes(report: &Report, row: &Row, counter: EventCounter) -> Option<String> {
    sum(report, row, &[counter]).map(text::bytes)
}

fn sum(report: &Report, row: &Row, counters: &[EventCounter]) -> Option<u64> {
    let events = row.events.as_ref()?;
    let values = counters
        .iter()
        .map(|counter| report.measured.value(&events.counters, *counter));
    values.sum::<Option<u64>>().filter(|sum| *sum > 0)
}

fn count(report: &Report, row: &Row, counter: Counter) -> Option<String> {
    report
        .measured
        .value(&row.counters, counter)
        .map(text::count)
}

/// One line of the table: its name, the row that it shows, and where that belongs.
struct Line<'a> {
    name: String,
    row: &'a Row,
    place: String,
}

/// The table with the rest of the machine below it. `together`: a last line for all rows, as the
/// answer to what a command used.
pub(super) fn draw(
    report: &Report,
    level: Level,
    top: usize,
    together: bool,
    paint: Paint,
) -> String {
    let (shown, hidden) = report.rows.split_at(report.rows.len().min(top));
    let mut lines: Vec<Line<'_>> = shown
        .iter()
        .map(|row| Line {
            name: name(row, level),
            row,
            place: place(row, level),
        })
        .collect();
    let sum = report.sum();
    if together && report.rows.len() > 1 {
        let name = format!("all {} together", report.rows.len());
        let place = String::new();
        lines.push(Line {
            name,
            row: &sum,
            place,
        });
    }
    let mut header = vec![text::level_word(level)];
    let mut cells: Vec<Vec<String>> = lines.iter().map(|line| vec![line.name.clone()]).collect();
    for column in COLUMNS {
        let values: Vec<Option<String>> = lines
            .iter()
            .map(|line| (column.cell)(report, line.row))
            .collect();
        if values.iter().all(Option::is_none) {
            continue;
        }
        header.push(column.title);
        for (cells, value) in cells.iter_mut().zip(values) {
            cells.push(value.unwrap_or_else(|| "-".into()));
        }
    }
    let mut out = print::table(&header, &cells, paint);
    if matches!(level, Level::Process | Level::Container | Level::Pod) {
        let places: Vec<String> = lines.into_iter().map(|line| line.place).collect();
        out = with_places(&out, &places, paint);
    }
    if !hidden.is_empty() {
        let cpu: u64 = hidden
            .iter()
            .map(|row| row.counters[Counter::CpuTime])
            .sum();
        let hidden = format!("{} more rows: {}\n", hidden.len(), text::duration(cpu));
        out.push_str(&paint.dim(&hidden));
    }
    if report.unrecorded_ns > 0 {
        let time = text::duration(report.unrecorded_ns);
        out.push_str(&format!("processes that ended without a record: {time}\n"));
    }
    out.push_str(&machine(report, paint));
    out.push_str(&lost(report));
    out
}

/// What is missing in the figures, if anything is.
fn lost(report: &Report) -> String {
    if report.losses.is_empty() {
        return String::new();
    }
    let words = report.losses.iter();
    let words = words.map(|loss| format!("{} {} ({})", loss.count, loss.kind, loss.place));
    format!(
        "lost in the window: {}; docs/json.md says what that means\n",
        words.collect::<Vec<_>>().join(", ")
    )
}

/// Puts the places behind the lines, aligned to the left: they are of very different lengths.
pub(super) fn with_places(table: &str, places: &[String], paint: Paint) -> String {
    let title = paint.bold("in");
    let places = std::iter::once(title.as_str()).chain(places.iter().map(String::as_str));
    let joined = table
        .lines()
        .zip(places)
        .map(|(line, place)| format!("{line}  {place}"));
    joined
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

pub(super) fn name(row: &Row, level: Level) -> String {
    match &row.process {
        Some(process) => {
            let (name, exited) = (text::process_name(process), text::exited(process));
            format!("{name} {}{exited}", process.id.pid)
        }
        None => escape(&row.name(level)),
    }
}

/// Where a row belongs: container, unit or cgroup of a process; path of a container.
pub(super) fn place(row: &Row, level: Level) -> String {
    let text = match level {
        Level::Process => row.name(Level::Container),
        _ => row.owner.path.clone(),
    };
    escape(&text)
}

/// What was taken of all CPUs, of those that were idle too, where that is known.
fn taken(name: &str, ns: Option<u64>) -> String {
    ns.map_or_else(String::new, |ns| {
        format!(", of all CPUs {name} {}", text::seconds(ns))
    })
}

/// Window, idle time, and the rest (interrupts and steal), so that the sums close before the
/// reader's eyes.
fn machine(report: &Report, paint: Paint) -> String {
    let node = &report.node;
    let share = |ns: u64| text::share(ns, node.elapsed_ns);
    let used = node.total[Counter::CpuTime];
    paint.dim(&format!(
        "{} on {} CPUs: {} used ({}), {} idle ({}), {} interrupts and steal ({}){}{}\n",
        text::seconds(report.window_ns),
        node.cpus,
        text::seconds(used),
        share(used),
        text::seconds(node.idle_ns),
        share(node.idle_ns),
        text::seconds(node.remainder_ns()),
        share(node.remainder_ns()),
        taken("interrupts", node.interrupt_ns),
        taken("steal", node.steal_ns),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples are copied from a terminal: this finds those that are older than the table.
    #[test]
    fn the_readme_shows_columns_that_exist() {
        let page = include_str!("../../../../README.md");
        let heads: Vec<&str> = page.lines().filter(|l| l.contains(" CPU% ")).collect();
        assert!(!heads.is_empty(), "README.md has no example of stat");
        let words = |head: &'static str| head.split("  ").map(str::trim).filter(|w| !w.is_empty());
        for title in heads.into_iter().flat_map(words) {
            let known = COLUMNS.iter().any(|column| column.title == title);
            assert!(
                known || ["container", "process", "in"].contains(&title),
                "{title}"
            );
        }
        assert!(page.contains("s interrupts and steal ("));
    }
}
