//! The help: the tables of keys and columns, as they are.

use ratatui::text::Line;

use crate::keys::{Binding, KEYS, Mode, Press};
use crate::palette::Palette;
use crate::pane::labelled;
use crate::table::COLUMNS;
use crate::text;

/// The lines of the help.
pub(crate) fn lines(width: usize, palette: &Palette) -> Vec<Line<'static>> {
    let describe = |binding: &Binding| {
        let labels: Vec<String> = binding.keys.iter().map(Press::label).collect();
        labelled(&labels.join(" "), binding.help, width, palette)
    };
    let mut lines = vec![Line::styled(" Keys", palette.accent)];
    let (typing, other): (Vec<_>, Vec<_>) = KEYS
        .iter()
        .partition(|binding| binding.modes == [Mode::Filter]);
    lines.extend(other.into_iter().flat_map(describe));
    lines.push(Line::default());
    lines.push(Line::styled(" While a filter is typed", palette.accent));
    lines.extend(typing.into_iter().flat_map(describe));
    lines.push(Line::default());
    lines.push(Line::styled(" Columns", palette.accent));
    for column in COLUMNS {
        lines.extend(labelled(column.title, column.help, width, palette));
    }
    lines.push(Line::default());
    for line in [
        "A row stays for a minute after it last used anything.",
        "What is not measured has no column, or -; noctule doctor says why.",
        "remainder: time that is neither idle nor charged to a process.",
    ] {
        let folded = text::wrap(line, width.saturating_sub(2));
        lines.extend(folded.into_iter().map(|line| Line::raw(format!(" {line}"))));
    }
    lines
}
