//! The panes that cover the table.

use ratatui::text::Line;

use crate::draw::blame;
use crate::draw::choose;
use crate::draw::cpus;
use crate::draw::detail;
use crate::draw::help;
use crate::draw::palette::Palette;
use crate::state::App;
use crate::state::keys::Mode;

/// Returns the number of lines in the open pane; 0 if none is open.
pub(crate) fn height(app: &App, width: u16) -> usize {
    match app.mode {
        Mode::Table | Mode::Filter | Mode::Goto => 0,
        Mode::Detail | Mode::Help | Mode::Blame | Mode::Cpus | Mode::Columns => {
            lines(app, width, &Palette::new(false)).len()
        }
    }
}

/// Draws the open pane.
pub(crate) fn lines(app: &App, width: u16, palette: &Palette) -> Vec<Line<'static>> {
    let width = usize::from(width);
    match (app.mode, &app.detail) {
        (Mode::Help, _) => help::lines(width, palette, app.place.is_some()),
        (Mode::Blame, _) => blame::lines(app, width, palette),
        (Mode::Cpus, _) => cpus::lines(app, width, palette),
        (Mode::Columns, _) => choose::lines(app, width, palette),
        (_, Some(detail)) => detail::lines(app, detail, width, palette),
        _ => Vec::new(),
    }
}
