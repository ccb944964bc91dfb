//! Draws the pane that shows, hides and sorts columns.

use ratatui::text::{Line, Span};

use crate::draw::palette::Palette;
use crate::state::App;
use crate::table::columns::COLUMNS;
use crate::text::{self, Align};

/// Width of a column's heading.
const TITLE: usize = 9;

/// Draws a line for each column of the view: whether the column is shown, its heading and its help.
pub(crate) fn lines(app: &App, width: usize, palette: &Palette) -> Vec<Line<'static>> {
    let heading = " Columns of this view: Space shows or hides, Enter sorts by it";
    let mut lines = vec![Line::styled(
        text::keep_start(heading, width),
        palette.accent,
    )];
    for (i, column) in app.choices().into_iter().enumerate() {
        let shown = match app.hidden.contains(&column) {
            true => "[ ]",
            false => "[x]",
        };
        let order = match (app.sort() == column, app.descending) {
            (true, true) => '▼',
            (true, false) => '▲',
            (false, _) => ' ',
        };
        let column = &COLUMNS[column];
        let title = text::pad(column.title, TITLE, Align::Left);
        let mark = if i == app.marked { '>' } else { ' ' };
        let begin = format!("{mark}{shown} {title}{order} ");
        let room = width.saturating_sub(text::width(&begin));
        let line = Line::from(vec![
            Span::raw(begin),
            Span::styled(text::keep_start(column.help, room), palette.faint),
        ]);
        lines.push(match i == app.marked {
            true => line.style(palette.reversed),
            false => line,
        });
    }
    lines
}
