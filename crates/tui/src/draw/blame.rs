//! Draws the matrix of victims and culprits.

use std::cmp::Reverse;
use std::collections::HashMap;

use noctule_analysis::WaitReportRow;
use noctule_model::{Cause, FeatureId, Level};
use noctule_text::{duration, escape};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::data::waits;
use crate::draw::palette::Palette;
use crate::state::App;
use crate::text::{self, Align};

/// Width of a figure with its mark, and minimum width of the victims' names.
const FIGURE: usize = 11;
const NAME: usize = 17;
/// A figure is marked if it is at least this share of a victim's waits for others, in percent.
const MOST: u64 = 50;

/// Draws a line for each victim and a column for each culprit, worst first. Figures are waiting
/// time per second. The sum of a line is the time that the group waited. The sum of a column is the
/// time that others waited for the group.
pub(crate) fn lines(app: &App, width: usize, palette: &Palette) -> Vec<Line<'static>> {
    let level = waits::level(app.level());
    let rows = app.shown.waits.rows(level).iter().map(|row| &row.now);
    let mut victims: Vec<&WaitReportRow> = rows.filter(|row| row.wait_on_others_ns() > 0).collect();
    victims.sort_by_key(|row| Reverse(row.wait_on_others_ns()));
    let culprits = culprits(&victims, level);
    let heading =
        " Victims (rows) by culprits (columns), time waited per second; * is half or more";
    let heading = text::keep_start(heading, width);
    let mut lines = vec![Line::styled(heading, palette.accent)];
    if let Some(why) = app
        .shown
        .not_measured("waiting for the CPU", FeatureId::CpuWaits)
    {
        let lines_of_reason = text::wrap(&why, width.saturating_sub(1)).into_iter();
        lines.extend(lines_of_reason.map(|line| Line::styled(format!(" {line}"), palette.faint)));
        return lines;
    }
    if culprits.is_empty() {
        lines.push(Line::raw(" no group waited behind another"));
        return lines;
    }
    // The last column contains the sums.
    let name = (width / 4).max(NAME).min(width.saturating_sub(2 * FIGURE));
    let columns = (width.saturating_sub(name + 1) / FIGURE).saturating_sub(1);
    let shown = &culprits[..culprits.len().min(columns)];
    let matrix = Matrix {
        name,
        window_ns: app.facts().window_ns.max(1),
    };
    let titles = shown.iter().map(|(name, _)| (title(name), palette.accent));
    lines.push(matrix.line("", titles, title("all")));
    for victim in &victims {
        let others = victim.wait_on_others_ns();
        let cells = shown.iter().map(|(culprit, _)| {
            let ns = behind(victim, culprit, level);
            match ns * 100 >= others * MOST {
                _ if ns == 0 => ("- ".to_owned(), palette.faint),
                true => (matrix.time(ns) + "*", palette.cause(Cause::Neighbour)),
                false => (matrix.time(ns) + " ", Style::new()),
            }
        });
        let name = escape(&victim.party.name(level));
        lines.push(matrix.line(&name, cells, matrix.time(others) + " "));
    }
    let all = victims.iter().map(|row| row.wait_on_others_ns()).sum();
    let sums = shown
        .iter()
        .map(|(_, ns)| (matrix.time(*ns) + " ", Style::new()));
    let sums = matrix.line("all", sums, matrix.time(all) + " ");
    lines.push(sums.style(palette.strong));
    if shown.len() < culprits.len() {
        let more = culprits.len() - shown.len();
        let more = format!(" {more} more culprits do not fit; the sums include them");
        lines.push(Line::styled(text::keep_start(&more, width), palette.faint));
    }
    lines
}

/// Returns all culprits, with the total time that groups waited for each.
fn culprits(victims: &[&WaitReportRow], level: Level) -> Vec<(String, u64)> {
    let mut sums: HashMap<String, u64> = HashMap::new();
    for culprit in victims.iter().flat_map(|row| &row.culprits) {
        *sums.entry(culprit.party.name(level)).or_default() += culprit.blame.wait_ns;
    }
    let mut sums: Vec<(String, u64)> = sums.into_iter().filter(|(_, ns)| *ns > 0).collect();
    sums.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    sums
}

fn behind(victim: &WaitReportRow, culprit: &str, level: Level) -> u64 {
    let found = victim.culprits.iter();
    let found = found.filter(|it| it.party.name(level) == culprit);
    found.map(|it| it.blame.wait_ns).sum()
}

fn title(name: &str) -> String {
    text::shorten(&escape(name), FIGURE - 2) + " "
}

struct Matrix {
    /// Width of the victims' names.
    name: usize,
    window_ns: u64,
}

impl Matrix {
    fn time(&self, ns: u64) -> String {
        duration((ns as f64 * 1e9 / self.window_ns as f64).round() as u64)
    }

    fn line(
        &self,
        name: &str,
        cells: impl Iterator<Item = (String, Style)>,
        sum: String,
    ) -> Line<'static> {
        let name = text::pad(&text::shorten(name, self.name), self.name, Align::Left);
        let mut spans = vec![Span::raw(format!(" {name}"))];
        for (text, style) in cells.chain([(sum, Style::new())]) {
            let text = text::pad(&text, FIGURE, Align::Right);
            spans.push(Span::styled(text, style));
        }
        Line::from(spans)
    }
}
