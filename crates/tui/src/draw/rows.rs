//! Draws the rows of the table.

use noctule_model::FeatureId;
use noctule_text::{WAIT_SCALE, bytes};
use ratatui::Frame;
use ratatui::style::Style;
use ratatui::text::{Line as Text, Span};

use crate::data::history::LENGTH;
use crate::draw::detail;
use crate::draw::line::put;
use crate::draw::palette::Palette;
use crate::draw::spark;
use crate::draw::wait_cells;
use crate::state::App;
use crate::state::layout::Areas;
use crate::table::columns::COLUMNS;
use crate::table::figures;
use crate::table::fit::{self, Placed};
use crate::table::lines::{Branch, Line};
use crate::table::{Cell, Facts, View};
use crate::text::{self, Align};

/// Minimum scale of a row's graph, in CPUs. The graphs of rows that use little stay low, so that
/// busy rows stand out.
const LEAST_PEAK: f32 = 0.5;
/// Minimum CPU use of a row that is drawn in bold, in percent of one CPU.
const STRONG: f64 = 50.0;

/// Draws headings and rows.
pub(crate) fn draw(app: &App, areas: &Areas, palette: &Palette, frame: &mut Frame<'_>) {
    // The leftmost column holds the selection mark.
    let width = usize::from(areas.body.width).saturating_sub(1);
    let facts = app.facts();
    let placed = fit::fit(&facts, &app.hidden, width, app.is_tree());
    draw_side(app, areas, palette, frame);
    put(frame, areas.titles, 0, &titles(app, &placed, palette));
    let selected = app.selected();
    let page = usize::from(areas.body.height);
    let shown = app.lines.iter().enumerate().skip(app.offset).take(page);
    for (y, (i, line)) in (0..).zip(shown) {
        let chosen = selected == Some(i);
        let row = row(app, &facts, line, &placed, chosen, palette);
        put(frame, areas.body, y, &row);
    }
    if app.lines.is_empty() {
        let wrapped = text::wrap(&nothing(app), width);
        for (y, line) in (0..areas.body.height).zip(wrapped) {
            let line = Text::styled(format!(" {line}"), palette.faint);
            put(frame, areas.body, y, &line);
        }
    }
}

/// Draws the details of the selected row to the right of a wide table.
fn draw_side(app: &App, areas: &Areas, palette: &Palette, frame: &mut Frame<'_>) {
    let Some(detail) = app.beside.as_ref().filter(|_| areas.side.width > 2) else {
        return;
    };
    let lines = detail::lines(app, detail, usize::from(areas.side.width) - 2, palette);
    let mut lines = lines.into_iter();
    for y in 0..areas.side.height {
        let mut spans = vec![Span::styled("│", palette.faint)];
        spans.extend(lines.next().unwrap_or_default().spans);
        put(frame, areas.side, y, &Text::from(spans));
    }
}

fn nothing(app: &App) -> String {
    let (what, feature) = match app.view {
        View::Overview | View::Use => ("CPU time", FeatureId::CpuTime),
        View::Waits => ("waiting for the CPU", FeatureId::CpuWaits),
        View::Energy => ("energy", FeatureId::Energy),
    };
    match (
        &app.shown.window,
        app.view,
        app.shown.not_measured(what, feature),
    ) {
        (None, ..) => "no data yet".to_owned(),
        (.., Some(why)) => why,
        _ if !app.filter.is_empty() => "no row matches the filter; Esc clears it".to_owned(),
        (_, View::Waits, _) => "nobody waited".to_owned(),
        (_, View::Overview | View::Use | View::Energy, _) => "nothing ran".to_owned(),
    }
}

fn titles(app: &App, placed: &[Placed], palette: &Palette) -> Text<'static> {
    let mut spans = vec![Span::raw(" ")];
    for place in placed {
        let column = &COLUMNS[place.column];
        let sorts = place.column == app.sort();
        let (mark, style) = match (sorts, app.descending) {
            (false, _) => ("", palette.accent),
            (true, true) => ("▼", palette.accent.patch(palette.reversed)),
            (true, false) => ("▲", palette.accent.patch(palette.reversed)),
        };
        let title = match column.cell {
            Cell::Lengths => WAIT_SCALE.to_owned(),
            _ => format!("{}{mark}", column.title),
        };
        let room = place.width.saturating_sub(text::width(&title));
        let (before, after) = match column.align() {
            Align::Left => (0, room),
            Align::Right => (room, 0),
        };
        spans.push(Span::raw(" ".repeat(before)));
        spans.push(Span::styled(title, style));
        spans.push(Span::raw(" ".repeat(after + 1)));
    }
    Text::from(spans)
}

fn row(
    app: &App,
    facts: &Facts,
    line: &Line,
    placed: &[Placed],
    chosen: bool,
    palette: &Palette,
) -> Text<'static> {
    let base = match weight(facts, line) {
        Weight::Strong => palette.strong,
        Weight::Plain => Style::new(),
        Weight::Faint => palette.faint,
    };
    let paint = |style: Style| if chosen { Style::new() } else { style };
    let mut spans = vec![Span::raw(if chosen { ">" } else { " " })];
    for place in placed {
        let column = &COLUMNS[place.column];
        match &column.cell {
            Cell::Name => spans.extend(name(line, place.width, base, palette)),
            Cell::Minute => {
                let minute = minute(app, line, place.width);
                spans.push(Span::styled(minute, paint(palette.graph)));
            }
            Cell::Lengths => {
                let drawn = line
                    .item
                    .waited
                    .as_ref()
                    .map(|w| noctule_text::drawn(&w.now.histogram));
                let drawn = text::pad(&drawn.unwrap_or_default(), place.width, Align::Left);
                spans.push(Span::styled(drawn, paint(palette.graph)));
            }
            Cell::Causes => {
                if let Some(waited) = &line.item.waited {
                    let bar = wait_cells::causes(&waited.now, place.width, chosen, palette);
                    spans.extend(bar);
                }
            }
            Cell::Verdict => {
                let word = wait_cells::verdict(&line.item, place.width);
                let style = wait_cells::verdict_style(&line.item, palette);
                spans.push(Span::styled(word, paint(style)));
            }
            Cell::Text(value) => {
                let value = text::shorten(&value(facts, &line.item), place.width);
                spans.push(Span::styled(
                    text::pad(&value, place.width, Align::Left),
                    base,
                ));
            }
            Cell::User => {
                let user = line.item.user.as_deref().unwrap_or("-");
                let user = text::pad(&text::shorten(user, place.width), place.width, Align::Left);
                spans.push(Span::styled(user, base));
            }
            Cell::Memory => {
                let bytes = line.item.resident_bytes.map(bytes);
                let bytes = bytes.unwrap_or_else(|| "-".to_owned());
                spans.push(Span::styled(
                    text::pad(&bytes, place.width, Align::Right),
                    base,
                ));
            }
            Cell::Number(value, write) => {
                let value = value(facts, &line.item).map_or_else(|| "-".to_owned(), write);
                spans.push(Span::styled(
                    text::pad(&value, place.width, Align::Right),
                    base,
                ));
            }
        }
        spans.push(Span::raw(" "));
    }
    let row = Text::from(spans);
    if chosen {
        row.style(palette.reversed)
    } else {
        row
    }
}

/// Visual weight of a row.
enum Weight {
    Strong,
    Plain,
    Faint,
}

fn weight(facts: &Facts, line: &Line) -> Weight {
    let cpu = figures::cpu_percent(facts, &line.item).unwrap_or(0.0);
    let suffers = figures::is_hurt(&line.item);
    let waited = line.item.waited.as_ref();
    let idle = line.item.row.counters.without_blocked().is_zero()
        && waited.is_none_or(|waited| waited.now.histogram.is_empty());
    match line.matched {
        true if cpu >= STRONG || suffers => Weight::Strong,
        true if !idle => Weight::Plain,
        _ => Weight::Faint,
    }
}

/// Draws guides, name and the mark of a collapsed row. In a deep tree only the nearest guides are
/// drawn, and the name gets at least a third of the width.
fn name(line: &Line, width: usize, base: Style, palette: &Palette) -> [Span<'static>; 2] {
    let guide = text::keep_end(&line.guide, width * 2 / 3);
    let room = width - text::width(&guide);
    let name = match line.branch {
        Branch::Collapsed => format!("[+{}] {}", line.below.len(), line.name),
        _ => line.name.clone(),
    };
    let name = text::pad(&text::shorten(&name, room), room, Align::Left);
    [Span::styled(guide, palette.faint), Span::styled(name, base)]
}

fn minute(app: &App, line: &Line, width: usize) -> String {
    let history = app.shown.history(app.level());
    let keys = line.below.iter().chain([&line.item.key]);
    let values = history.squeeze(&history.minute(keys), width.min(LENGTH));
    let peak = values.iter().flatten().copied().fold(LEAST_PEAK, f32::max);
    text::pad(&spark::graph(&values, peak, 1).concat(), width, Align::Left)
}
