//! The first lines of `noctule waits`: hurt groups, their culprits, the extent, and advice.

use noctule_analysis::{WaitReport, WaitReportRow};
use noctule_model::{Level, VerdictKind};
use noctule_text::{self as text, Tone, escape};

use crate::print::Paint;

/// Renders a sentence for each hurt group, worst first, up to `top`.
pub(crate) fn draw(report: &WaitReport, level: Level, top: usize, paint: Paint) -> String {
    let hurt = worst_first(report);
    if hurt.is_empty() {
        return paint.green("no group is hurt") + "\n\n";
    }
    let mut out = String::new();
    for row in hurt.iter().take(top) {
        let reason = report.reason(row, level);
        let answer = escape(&text::answer(&row.party.name(level), &reason));
        out.push_str(&paint.folded(Tone::Strong, &answer, 2));
    }
    if hurt.len() > top {
        let more = format!("{} more groups are hurt", hurt.len() - top);
        out.push_str(&paint.folded(Tone::Faint, &more, 0));
    }
    out.push('\n');
    out
}

/// Returns the hurt groups, in descending order of the time they lost.
fn worst_first(report: &WaitReport) -> Vec<&WaitReportRow> {
    let rows = report.rows.iter();
    let mut hurt: Vec<&WaitReportRow> = rows
        .filter(|row| row.verdict.kind != VerdictKind::Quiet)
        .collect();
    hurt.sort_by_key(|row| std::cmp::Reverse(row.verdict.hurt_ns()));
    hurt
}
