//! Draws the rows of the table.

use ratatui::Frame;
use ratatui::style::Style;
use ratatui::text::{Line as Text, Span};

use crate::app::App;
use crate::figures;
use crate::fit::{self, Placed};
use crate::history::LENGTH;
use crate::layout::Areas;
use crate::lines::{Fold, Line};
use crate::palette::Palette;
use crate::spark;
use crate::table::{COLUMNS, Cell, Facts};
use crate::text::{self, Align};
use crate::view::put;

/// Peak to which the graph of a row is drawn at least, in CPUs: what uses little stays low, so that
/// the eye finds what uses much.
const LEAST_PEAK: f32 = 0.5;
/// CPU use from which a row is drawn strong, in percent of one CPU.
const STRONG: f64 = 50.0;

/// Draws headings and rows.
pub(crate) fn draw(app: &App, areas: &Areas, palette: &Palette, frame: &mut Frame<'_>) {
    // One column at the left belongs to the mark of the selection.
    let width = usize::from(areas.body.width).saturating_sub(1);
    let facts = app.facts();
    let placed = fit::fit(&facts, width, app.is_tree());
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
        put(
            frame,
            areas.body,
            0,
            &Text::styled(nothing(app), palette.faint),
        );
    }
}

fn nothing(app: &App) -> &'static str {
    match &app.shown.window {
        None => " no data yet",
        Some(_) if !app.filter.is_empty() => " no row matches the filter; Esc clears it",
        Some(_) => " nothing ran",
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
        let title = format!("{}{mark}", column.title);
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
    let cpu = figures::cpu_percent(facts, &line.item).unwrap_or(0.0);
    let base = match line.matched {
        true if cpu >= STRONG => palette.strong,
        true if !line.item.row.counters.is_zero() => Style::new(),
        _ => palette.faint,
    };
    let mut spans = vec![Span::raw(if chosen { ">" } else { " " })];
    for place in placed {
        let column = &COLUMNS[place.column];
        match &column.cell {
            Cell::Name => spans.extend(name(line, place.width, base, palette)),
            Cell::Minute => {
                let style = if chosen { Style::new() } else { palette.graph };
                spans.push(Span::styled(minute(app, line, place.width), style));
            }
            Cell::Text(value) => {
                let value = shorten(&value(&line.item), place.width);
                spans.push(Span::styled(
                    text::pad(&value, place.width, Align::Left),
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

/// Guides, name and the mark of a folded row. Of a deep tree the nearest guides are kept, and a
/// third of the room for the name.
fn name(line: &Line, width: usize, base: Style, palette: &Palette) -> [Span<'static>; 2] {
    let guide = text::keep_end(&line.guide, width * 2 / 3);
    let room = width - text::width(&guide);
    let name = match line.fold {
        Fold::Closed => format!("[+{}] {}", line.below.len(), line.name),
        _ => line.name.clone(),
    };
    let name = text::pad(&shorten(&name, room), room, Align::Left);
    [Span::styled(guide, palette.faint), Span::styled(name, base)]
}

/// Of a path the end is kept, of everything else the beginning.
fn shorten(name: &str, width: usize) -> String {
    match name.starts_with('/') {
        true => text::keep_end(name, width),
        false => text::keep_start(name, width),
    }
}

fn minute(app: &App, line: &Line, width: usize) -> String {
    let history = app.shown.history(app.level);
    let keys = line.below.iter().chain([&line.item.key]);
    let values = history.squeeze(&history.minute(keys), width.min(LENGTH));
    let peak = values.iter().flatten().copied().fold(LEAST_PEAK, f32::max);
    text::pad(&spark::graph(&values, peak, 1).concat(), width, Align::Left)
}
