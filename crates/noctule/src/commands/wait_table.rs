//! The table of `noctule waits`.

use noctule_analysis::{WaitReport, WaitReportRow};
use noctule_model::{Cause, Level, Preemptor, VerdictKind};
use noctule_text::{self as text, WAIT_SCALE, escape};

use crate::print::{self, Paint};

/// Culprits that are named below a row.
const CULPRITS: usize = 4;
/// Characters of a bar.
const BAR: usize = 24;

/// The table. Rows with a verdict other than quiet say below because of whom.
pub(super) fn draw(report: &WaitReport, level: Level, top: usize, paint: Paint) -> String {
    let (shown, hidden) = report.rows.split_at(report.rows.len().min(top));
    let title = text::level_word(level);
    let header = [
        title, "waited", "CPU", "waits", "p50", "p90", "p99", "max", WAIT_SCALE,
    ];
    let cells: Vec<Vec<String>> = shown.iter().map(|row| cells(row, level)).collect();
    // Painted afterwards, so that widths are those on the screen.
    let table = print::table(&header, &cells, Paint::none());
    let mut lines = table.lines();
    let head = lines.next().unwrap_or_default();
    let mut out = format!("{}\n", paint.bold(&format!("{head}  verdict")));
    for (line, row) in lines.zip(shown) {
        let room = " ".repeat(text::width(head).saturating_sub(text::width(line)));
        out.push_str(&format!("{line}{room}  {}\n", verdict(row, paint)));
        if row.verdict.kind != VerdictKind::Quiet {
            out.push_str(&details(row, level));
        }
    }
    if !hidden.is_empty() {
        let waited: u64 = hidden.iter().map(WaitReportRow::total_ns).sum();
        let hidden = format!("{} more rows: {}\n", hidden.len(), text::duration(waited));
        out.push_str(&paint.dim(&hidden));
    }
    out.push_str(&legend(report, paint));
    out
}

fn cells(row: &WaitReportRow, level: Level) -> Vec<String> {
    let quantile = |q| row.histogram.quantile(q).map_or("-".into(), text::duration);
    vec![
        escape(&row.party.name(level)),
        text::duration(row.total_ns()),
        text::duration(row.cpu_ns),
        text::count(row.histogram.count()),
        quantile(0.5),
        quantile(0.9),
        quantile(0.99),
        row.histogram.max().map_or("-".into(), text::duration),
        text::drawn(&row.histogram),
    ]
}

fn verdict(row: &WaitReportRow, paint: Paint) -> String {
    let name = row.verdict.kind.name();
    match row.verdict.kind {
        VerdictKind::Quiet => paint.green(name),
        kind if kind.is_own() => paint.yellow(name),
        _ => paint.red(name),
    }
}

/// The causes as a bar and in figures, and the culprits.
fn details(row: &WaitReportRow, level: Level) -> String {
    let total = row.total_ns().max(1);
    let causes: Vec<String> = Cause::ALL
        .into_iter()
        .map(|cause| (cause, row.wait_ns[cause as usize]))
        // Below that it would be drawn as 0.0%.
        .filter(|(_, ns)| u128::from(*ns) * 2000 >= u128::from(total))
        .map(|(cause, ns)| format!("{} {}", cause.name(), text::share(ns, total)))
        .collect();
    let mut out = format!("  {}  {}\n", bar(row), causes.join(", "));
    let others = row.others_ns().max(1);
    let culprits: Vec<String> = row
        .culprits
        .iter()
        .take(CULPRITS)
        .filter(|culprit| culprit.blame.wait_ns * 1000 >= others)
        .map(|culprit| {
            let share = text::share(culprit.blame.wait_ns, others);
            format!("{} {share}", escape(&culprit.party.name(level)))
        })
        .collect();
    if !culprits.is_empty() {
        out.push_str(&format!("  behind {}\n", culprits.join(", ")));
    }
    let preemptions: Vec<String> = Preemptor::ALL
        .into_iter()
        .map(|preemptor| (preemptor, row.preemptions[preemptor as usize]))
        .filter(|(_, count)| *count > 0)
        .map(|(preemptor, count)| format!("{} {}", preemptor.name(), text::count(count)))
        .chain((row.throttles > 0).then(|| format!("quota {}", text::count(row.throttles))))
        .collect();
    if !preemptions.is_empty() {
        out.push_str(&format!("  preempted by: {}\n", preemptions.join(", ")));
    }
    out
}

/// The glyph of each cause, as often as its part of the bar.
fn bar(row: &WaitReportRow) -> String {
    let parts = row.bar(BAR);
    parts
        .map(|(cause, part)| text::glyph(cause).to_string().repeat(part))
        .collect()
}

fn legend(report: &WaitReport, paint: Paint) -> String {
    let causes: Vec<String> = Cause::ALL
        .into_iter()
        .map(|cause| format!("{} {}", text::glyph(cause), cause.name()))
        .collect();
    paint.dim(&format!(
        "{} on {} CPUs; waited: sum over all threads; {}\n",
        text::seconds(report.window_ns),
        report.cpus,
        causes.join("  ")
    ))
}
