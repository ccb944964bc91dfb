//! The table of `noctule waits`.

use noctule_analysis::{WaitReport, WaitReportRow};
use noctule_model::{Cause, Level, Preemptor, VerdictKind};
use noctule_text::{self as text, Cell, Tone, WAIT_SCALE, escape};

use crate::commands::shared::columns::{Choice, Column, Figure, more};
use crate::print::Paint;

/// Maximum number of culprits named below a row.
const CULPRITS: usize = 4;
/// Width of a bar, in characters.
const BAR: usize = 24;

/// Computes the figure of a row in a column.
type Of = fn(&WaitReport, Level, &WaitReportRow) -> Option<Figure>;

/// Returns the columns. On a narrow terminal, columns with higher priority numbers are dropped
/// first. The verdict and the culprit are dropped last.
pub(crate) fn columns() -> Vec<Column<Of>> {
    vec![
        Column::text("name", 0, 9, |_, level, row| {
            Some(Figure::text(escape(&row.party.name(level))))
        }),
        Column::number("waited", 3, |_, _, row| Some(time(row.total_ns()))),
        Column::number("CPU", 5, |_, _, row| Some(time(row.cpu_ns))),
        Column::number("now", 7, |_, _, row| Some(now(row))),
        Column::number("hurts", 6, |_, _, row| Some(time(row.hurts.wait_ns))),
        Column::number("waits", 10, |_, _, row| {
            let count = row.histogram.count();
            Some(Figure::number(count as f64, text::count(count)))
        }),
        Column::number("p50", 11, |_, _, row| row.histogram.quantile(0.5).map(time)),
        Column::number("p90", 12, |_, _, row| row.histogram.quantile(0.9).map(time)),
        Column::number("p99", 4, |_, _, row| row.histogram.quantile(0.99).map(time)),
        Column::number("max", 8, |_, _, row| row.histogram.max().map(time)),
        Column::number("lengths", 9, lengths as Of).titled(WAIT_SCALE),
        Column::text("culprit", 2, 8, |_, level, row| {
            let culprit = row.main_culprit()?;
            Some(Figure::text(escape(&culprit.name(level))))
        }),
        Column::text("verdict", 1, 11, |_, _, row| Some(verdict(row))),
    ]
}

fn lengths(_: &WaitReport, _: Level, row: &WaitReportRow) -> Option<Figure> {
    let drawn = Cell::new(text::drawn(&row.histogram), Tone::Plain);
    Some(Figure::drawn(row.histogram.count() as f64, drawn))
}

fn time(ns: u64) -> Figure {
    Figure::number(ns as f64, text::duration(ns))
}

/// Returns the figure for waits in progress, which sorts rows by the longest wait.
fn now(row: &WaitReportRow) -> Figure {
    let waiting = &row.waiting;
    Figure::number(waiting.longest_ns as f64, text::waiting_now(waiting))
}

/// Returns the name of the verdict, which sorts rows by the time that the group lost.
fn verdict(row: &WaitReportRow) -> Figure {
    let kind = row.verdict.kind;
    let tone = match kind {
        VerdictKind::Quiet => Tone::Good,
        kind if kind.is_own() => Tone::Own,
        _ => Tone::Bad,
    };
    let lost = match kind {
        VerdictKind::Quiet => -1.0,
        _ => row.verdict.hurt_ns() as f64,
    };
    let cell = Cell {
        short: Some(text::verdict_word(kind).to_owned()),
        ..Cell::new(kind.name(), tone)
    };
    Figure::drawn(lost, cell)
}

/// Renders the table. If the verdict of a row is not quiet, the culprits are listed below the row.
pub(crate) fn draw(
    report: &WaitReport,
    level: Level,
    top: usize,
    choice: &Choice,
    paint: Paint,
) -> String {
    let figure = |of: &Of, row: &&WaitReportRow| of(report, level, row);
    let mut columns = columns();
    if report.rows.iter().any(|row| exceeds_window(report, row)) {
        Column::keep("now", &mut columns);
    }
    let mut rows: Vec<&WaitReportRow> = report.rows.iter().collect();
    choice.sort(&columns, &mut rows, figure);
    let hidden = rows.split_off(rows.len().min(top));
    let drawn = choice.draw(&columns, &rows, level, figure, paint);
    let mut out = drawn.head;
    for (line, row) in drawn.rows.iter().zip(rows) {
        out.push_str(line);
        if row.verdict.kind != VerdictKind::Quiet {
            out.push_str(&details(row, level, paint));
        }
    }
    if !hidden.is_empty() {
        let waited = hidden.iter().map(|row| row.total_ns()).sum();
        let hidden = format!("{}: {}", more(hidden.len()), text::duration(waited));
        out.push_str(&paint.folded(Tone::Faint, &hidden, 0));
    }
    out.push_str(&drawn.dropped);
    out.push_str(&legend(report, &drawn.shown, paint));
    out
}

/// Returns whether a wait in progress is longer than the window, so that no other column shows its
/// length.
fn exceeds_window(report: &WaitReport, row: &WaitReportRow) -> bool {
    row.verdict.kind != VerdictKind::Quiet && row.waiting.longest_ns > report.window_ns
}

/// Renders the causes as a bar and as percentages, and the culprits.
fn details(row: &WaitReportRow, level: Level, paint: Paint) -> String {
    let total = row.total_ns().max(1);
    let causes: Vec<String> = Cause::ALL
        .into_iter()
        .map(|cause| (cause, row.wait_ns[cause as usize]))
        // Smaller shares would be displayed as 0.0%.
        .filter(|(_, ns)| u128::from(*ns) * 2000 >= u128::from(total))
        .map(|(cause, ns)| format!("{} {}", cause.name(), text::share(ns, total)))
        .collect();
    let causes = causes.join(", ");
    let room = paint.width().unwrap_or(usize::MAX);
    let mut out = match 4 + BAR + text::width(&causes) <= room {
        true => format!("  {}  {causes}\n", bar(row, paint)),
        false => {
            let causes = paint.folded(Tone::Plain, &format!("  {causes}"), 2);
            format!("  {}\n{causes}", bar(row, paint))
        }
    };
    let mut line = |words: String| out.push_str(&paint.folded(Tone::Plain, &words, 4));
    // The shares of culprits are relative to the total wait, like the shares of the causes above.
    // The shares add up to the shares of neighbours and the kernel.
    let culprits: Vec<String> = row
        .culprits
        .iter()
        .take(CULPRITS)
        .filter(|culprit| u128::from(culprit.blame.wait_ns) * 1000 >= u128::from(total))
        .map(|culprit| {
            let share = text::share(culprit.blame.wait_ns, total);
            format!("{} {share}", escape(&culprit.party.name(level)))
        })
        .collect();
    if !culprits.is_empty() {
        line(format!("  behind {}", culprits.join(", ")));
    }
    let preemptions: Vec<String> = Preemptor::ALL
        .into_iter()
        .map(|preemptor| (preemptor, row.preemptions[preemptor as usize]))
        .filter(|(_, count)| *count > 0)
        .map(|(preemptor, count)| format!("{} {}", preemptor.name(), text::count(count)))
        .chain((row.throttles > 0).then(|| format!("quota {}", text::count(row.throttles))))
        .collect();
    if !preemptions.is_empty() {
        line(format!("  preempted by: {}", preemptions.join(", ")));
    }
    out
}

/// Renders the glyph of each cause in its colour. The number of glyphs is proportional to the share
/// of the cause.
fn bar(row: &WaitReportRow, paint: Paint) -> String {
    row.bar(BAR)
        .map(|(cause, part)| {
            let glyphs = text::glyph(cause).to_string().repeat(part);
            paint.tone(Tone::Cause(cause), &glyphs)
        })
        .collect()
}

/// Explanations of columns. Each is printed if its column is shown.
const MEANINGS: [(&str, &str); 3] = [
    ("waited", "sum over all threads"),
    ("now", "threads waiting now, and the longest of these waits"),
    ("hurts", "time that others waited behind it"),
];

/// Explains the columns and glyphs.
fn legend(report: &WaitReport, shown: &[&str], paint: Paint) -> String {
    let mut about = format!(
        "{} on {}",
        text::seconds(report.window_ns),
        text::counted(report.cpus.into(), "CPU", "CPUs")
    );
    for (column, meaning) in MEANINGS {
        if shown.contains(&column) {
            about.push_str(&format!("; {column}: {meaning}"));
        }
    }
    let mut out = paint.folded(Tone::Faint, &about, 0);
    let (mut line, mut used) = (String::new(), 0);
    for cause in Cause::ALL {
        let (glyph, name) = (text::glyph(cause).to_string(), cause.name());
        let columns = 3 + text::width(name);
        if used > 0 && paint.width().is_some_and(|room| used + 1 + columns > room) {
            out.push_str(&(line.trim_end().to_owned() + "\n"));
            (line, used) = (String::new(), 0);
        }
        let glyph = paint.tone(Tone::Cause(cause), &glyph);
        line.push_str(&format!("{glyph} {}  ", paint.dim(name)));
        used += columns + 1;
    }
    out + line.trim_end() + "\n"
}
