//! Draws the state. Equal states give equal screens.

mod blame;
mod choose;
mod cpus;
mod detail;
mod header;
mod help;
mod line;
mod palette;
pub(crate) mod pane;
mod rows;
mod spark;
mod wait_cells;
mod wait_detail;
mod zones;

use noctule_model::Level;
use noctule_text::{escape, level_word};
use ratatui::Frame;
use ratatui::layout::Position;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::data::Warning;
use crate::data::level::LEVELS;
use crate::draw::line::put;
use crate::draw::palette::Palette;
use crate::state::App;
use crate::state::keys::{self, Action, Mode};
use crate::state::layout::Areas;
use crate::table::View;
use crate::table::columns::COLUMNS;
use crate::text;

/// Draws the whole screen.
pub(crate) fn draw(app: &App, frame: &mut Frame<'_>) {
    let warning = app.shown.warning();
    let areas = app.areas_of(frame.area().as_size());
    let palette = Palette::new(app.color);
    header::draw(app, &areas, &palette, frame);
    if let Some(warning) = &warning {
        put(
            frame,
            areas.warning,
            0,
            &warning_line(warning, areas.warning.width, &palette),
        );
    }
    put(
        frame,
        areas.status,
        0,
        &status(app, areas.status.width, &palette),
    );
    zones::draw(app, areas.zones, &palette, frame);
    match app.mode {
        Mode::Table | Mode::Filter | Mode::Goto => rows::draw(app, &areas, &palette, frame),
        Mode::Detail | Mode::Help | Mode::Blame | Mode::Cpus | Mode::Columns => {
            let lines = pane::lines(app, areas.pane.width, &palette);
            let shown = lines.into_iter().skip(app.scroll);
            for (y, line) in (0..areas.pane.height).zip(shown) {
                put(frame, areas.pane, y, &line);
            }
        }
    }
    footer(app, &areas, &palette, frame);
    if app.ascii {
        to_ascii(frame);
    }
}

/// Replaces non-ASCII characters, each by one character of the same width.
fn to_ascii(frame: &mut Frame<'_>) {
    for cell in &mut frame.buffer_mut().content {
        if !cell.symbol().is_ascii() {
            let near = noctule_text::ascii(cell.symbol());
            cell.set_symbol(near.get(..1).unwrap_or(" "));
        }
    }
}

fn warning_line(warning: &Warning, width: u16, palette: &Palette) -> Line<'static> {
    const HINT: &str = " (noctule doctor)";
    let room = usize::from(width).saturating_sub(3 + HINT.len());
    let (mark, words) = match warning.is_losing {
        true => (palette.alarm, Style::new()),
        false => (palette.faint, palette.faint),
    };
    Line::from(vec![
        Span::styled(" ! ", mark),
        Span::styled(text::keep_start(&warning.words, room), words),
        Span::styled(HINT, palette.faint),
    ])
}

/// Draws the levels, followed by sort order and filter. On a narrow screen, draws only the current
/// level.
fn status(app: &App, width: u16, palette: &Palette) -> Line<'static> {
    let mut spans = vec![Span::raw(" ")];
    for (i, &level) in LEVELS.iter().enumerate() {
        let chosen = level == app.level();
        if chosen {
            let label = format!(" {} {} ", i + 1, level_word(level));
            spans.push(Span::styled(label, palette.reversed));
        } else if width >= 100 {
            spans.push(Span::styled(format!(" {} ", i + 1), palette.accent));
            spans.push(Span::raw(format!("{} ", level_word(level))));
        } else if width >= 60 {
            spans.push(Span::styled(format!(" {} ", i + 1), palette.accent));
        }
    }
    let view = match app.view {
        View::Overview => None,
        View::Use => Some(" U CPU "),
        View::Waits => Some(" w waits "),
        View::Energy => Some(" e energy "),
    };
    if let Some(view) = view {
        spans.push(Span::raw(" "));
        spans.push(Span::styled(view, palette.reversed));
    }
    spans.push(Span::raw(format!("  {}", describe_table(app).join(" · "))));
    if app.view == View::Waits && matches!(app.mode, Mode::Table | Mode::Filter | Mode::Goto) {
        let legend = wait_cells::legend(palette);
        let used: usize = spans.iter().chain(&legend).map(Span::width).sum();
        if used <= usize::from(width) {
            spans.extend(legend);
        }
    }
    Line::from(spans)
}

/// Describes the contents of the table or pane below.
fn describe_table(app: &App) -> Vec<String> {
    if !matches!(app.mode, Mode::Table | Mode::Filter | Mode::Goto) {
        return position(app).into_iter().collect();
    }
    let filter = escape(&app.filter);
    let rows = match app.lines.iter().filter(|line| line.matched).count() {
        1 => "1 row".to_owned(),
        count => format!("{count} rows"),
    };
    let mark = if app.descending { '▼' } else { '▲' };
    let mut facts = vec![
        match filter.is_empty() {
            true => rows,
            false => format!("{rows} with \"{filter}\""),
        },
        format!("by {}{mark}", COLUMNS[app.sort()].title),
    ];
    if app.is_tree() {
        facts.push("tree".to_owned());
    } else if app.tree {
        facts.push("no tree at this level".to_owned());
    }
    if app.merged && !app.is_tree() && app.level() == Level::Process {
        facts.push("by command".to_owned());
    }
    if app.falls_back() {
        facts.push("not by process".to_owned());
    }
    facts
}

/// Returns which lines of a pane are visible, if the pane does not fit.
fn position(app: &App) -> Option<String> {
    let pane = app.areas().pane;
    let all = pane::height(app, pane.width);
    let last = app.scroll + usize::from(pane.height);
    let first = app.scroll + 1;
    (all > usize::from(pane.height)).then(|| format!("lines {first}-{last} of {all}"))
}

/// Draws the main keys of the mode. While a filter is typed, draws it before the keys.
fn footer(app: &App, areas: &Areas, palette: &Palette, frame: &mut Frame<'_>) {
    let area = areas.footer;
    let mut spans = vec![Span::raw(" ")];
    let typing = matches!(app.mode, Mode::Filter | Mode::Goto);
    if typing || (areas.status.height == 0 && !app.filter.is_empty()) {
        let (mark, line) = match (app.mode, &app.place) {
            (Mode::Goto, Some(place)) => ("→ ", &place.typed),
            _ => ("/ ", &app.filter),
        };
        // Keeps the last characters of the text visible, because the user types there.
        let room = usize::from(area.width).saturating_sub(5).min(40);
        let typed = text::keep_end(&escape(line), room);
        let end = 3 + text::width(&typed) as u16;
        spans.push(Span::styled(mark, palette.accent));
        spans.push(Span::raw(typed + "   "));
        if typing && area.height > 0 && end < area.width {
            frame.set_cursor_position(Position::new(area.x + end, area.y));
        }
    }
    let mut used: usize = spans.iter().map(|s| text::width(&s.content)).sum();
    if let Some(refused) = app.place.as_ref().and_then(|place| place.refused.as_ref()) {
        let room = usize::from(area.width).saturating_sub(used);
        let words = text::keep_start(&format!("{refused}  "), room);
        used += text::width(&words);
        spans.push(Span::styled(words, palette.alarm));
    }
    let here = keys::bindings(app.place.is_some());
    let here = here.iter().filter(|(b, _)| b.modes.contains(&app.mode));
    for (word, binding, labels) in here.filter_map(|(b, labels)| Some((b.footer?, b, labels))) {
        let word = match (binding.action, app.view) {
            (Action::View(view), shown) if view == shown => "overview",
            _ => word,
        };
        let label = labels[0].clone();
        let entry = format!(" {word}  ");
        used += text::width(&label) + text::width(&entry);
        // The blanks after the last entry may be cut off.
        if used > usize::from(area.width) + 2 {
            break;
        }
        spans.push(Span::styled(label, palette.accent));
        spans.push(Span::raw(entry));
    }
    put(frame, area, 0, &Line::from(spans));
}
