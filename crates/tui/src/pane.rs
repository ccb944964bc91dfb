//! The panes that cover the table.

use ratatui::text::{Line, Span};

use crate::app::App;
use crate::keys::Mode;
use crate::palette::Palette;
use crate::text::{self, Align};
use crate::{detail, help};

/// Columns of a label.
const LABEL: usize = 11;

/// How many lines the pane has; 0 while none is open.
pub(crate) fn height(app: &App, width: u16) -> usize {
    match app.mode {
        Mode::Table | Mode::Filter => 0,
        Mode::Detail | Mode::Help => lines(app, width, &Palette::new(false)).len(),
    }
}

/// The lines of the pane.
pub(crate) fn lines(app: &App, width: u16, palette: &Palette) -> Vec<Line<'static>> {
    let width = usize::from(width);
    match (app.mode, &app.detail) {
        (Mode::Help, _) => help::lines(width, palette),
        (_, Some(detail)) => detail::lines(app, detail, width, palette),
        _ => Vec::new(),
    }
}

/// A label and a text that is folded to the width.
pub(crate) fn labelled(
    label: &str,
    value: &str,
    width: usize,
    palette: &Palette,
) -> Vec<Line<'static>> {
    let room = width.saturating_sub(LABEL + 2).max(1);
    let folded = text::wrap(value, room).into_iter().enumerate();
    folded
        .map(|(i, part)| {
            let label = if i == 0 { label } else { "" };
            Line::from(vec![
                Span::styled(
                    format!(" {}", text::pad(label, LABEL, Align::Left)),
                    palette.faint,
                ),
                Span::raw(part),
            ])
        })
        .collect()
}
