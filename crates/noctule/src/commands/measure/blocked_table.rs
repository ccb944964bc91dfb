//! The table of `noctule waits --blocked`: how the threads spent their time.

use std::cmp::Reverse;

use noctule_analysis::{WaitReport, WaitReportRow};
use noctule_model::{BlockClass, Level};
use noctule_text::{self as text, Tone, escape};

use super::released;
use crate::commands::shared::columns::{Choice, Column, Figure, more};
use crate::print::Paint;

/// Computes the figure of a row in a column.
type Of = fn(&WaitReport, Level, &WaitReportRow) -> Option<Figure>;

/// Returns the columns: running and runnable time, then the classes, with stalls first and idle
/// time last. When the terminal is narrow, columns with higher numbers are dropped first.
pub(super) fn columns() -> Vec<Column<Of>> {
    vec![
        Column::text("name", 0, 9, |_, level, row| {
            Some(Figure::text(escape(&row.party.name(level))))
        }),
        Column::number("threads", 5, |report, _, row| {
            let threads = row.threads_ns() as f64 / report.window_ns.max(1) as f64;
            Some(Figure::number(threads, format!("{threads:.1}")))
        }),
        Column::number("running", 3, |_, _, row| part(row, row.cpu_ns)),
        Column::number("runnable", 3, |_, _, row| part(row, row.total_ns())),
        Column::number("disk", 4, |_, _, row| class(row, BlockClass::Disk)),
        Column::number("filesystem", 4, |_, _, row| {
            class(row, BlockClass::Filesystem)
        }),
        Column::number("memory", 4, |_, _, row| class(row, BlockClass::Memory)),
        Column::number("writeback", 4, |_, _, row| {
            class(row, BlockClass::Writeback)
        }),
        Column::number("stopped", 4, |_, _, row| class(row, BlockClass::Stopped)),
        Column::number("lock", 6, |_, _, row| class(row, BlockClass::Lock)),
        Column::number("pipe", 7, |_, _, row| class(row, BlockClass::Pipe)),
        Column::number("unix", 7, |_, _, row| class(row, BlockClass::Unix)),
        Column::number("loopback", 7, |_, _, row| class(row, BlockClass::Loopback)),
        Column::number("network", 7, |_, _, row| class(row, BlockClass::Network)),
        Column::number("child", 8, |_, _, row| class(row, BlockClass::Child)),
        Column::number("timer", 9, |_, _, row| class(row, BlockClass::Timer)),
        Column::number("poll", 9, |_, _, row| class(row, BlockClass::Poll)),
        Column::number("other", 6, |_, _, row| class(row, BlockClass::Other)),
        Column::text("releaser", 5, 9, |_, level, row| {
            released::largest_releaser(row, level).map(Figure::text)
        }),
    ]
}

fn class(row: &WaitReportRow, class: BlockClass) -> Option<Figure> {
    part(row, row.blocked_ns[class as usize])
}

/// Returns a time as a share of the threads' total time, or `None` if it is 0.
fn part(row: &WaitReportRow, ns: u64) -> Option<Figure> {
    (ns > 0).then(|| Figure::number(ns as f64, text::share(ns, row.threads_ns())))
}

/// Renders the table, in descending order of stalled time.
pub(super) fn draw(
    report: &WaitReport,
    level: Level,
    top: usize,
    choice: &Choice,
    paint: Paint,
) -> String {
    let figure = |of: &Of, row: &&WaitReportRow| of(report, level, row);
    let columns = columns();
    let mut rows: Vec<&WaitReportRow> = report.rows.iter().collect();
    rows.sort_by_key(|row| Reverse((row.stalled_ns(), row.total_ns())));
    choice.sort(&columns, &mut rows, figure);
    let hidden = rows.split_off(rows.len().min(top));
    let drawn = choice.draw(&columns, &rows, level, figure, paint);
    let mut out = drawn.head + &drawn.rows.concat();
    if !hidden.is_empty() {
        out.push_str(&paint.folded(Tone::Faint, &more(hidden.len()), 0));
    }
    out.push_str(&drawn.dropped);
    let window = text::seconds(report.window_ns);
    let words = format!(
        "{window} on {}; shares of the time of all threads; docs/blocked.md explains the classes",
        text::counted(report.cpus.into(), "CPU", "CPUs")
    );
    out + &paint.folded(Tone::Faint, &words, 0)
}
