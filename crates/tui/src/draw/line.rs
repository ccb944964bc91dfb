//! Places lines on the screen, and draws lines with a label.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::draw::palette::Palette;
use crate::text::{self, Align};

/// Width of a label.
const LABEL: usize = 11;

/// Draws a line into an area, truncated to the size of the area.
pub(crate) fn put(frame: &mut Frame<'_>, area: Rect, y: u16, line: &Line<'_>) {
    if y < area.height {
        let buffer = frame.buffer_mut();
        buffer.set_line(area.x, area.y + y, line, area.width);
    }
}

/// Draws a label and a text that is wrapped to the width.
pub(crate) fn labelled(
    label: &str,
    value: &str,
    width: usize,
    palette: &Palette,
) -> Vec<Line<'static>> {
    let room = width.saturating_sub(LABEL + 2).max(1);
    let wrapped = text::wrap(value, room).into_iter().enumerate();
    wrapped
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
