//! Draws the help from the tables of keys and columns.

use noctule_model::Cause;
use ratatui::text::{Line, Span};

use crate::draw::line::labelled;
use crate::draw::palette::Palette;
use crate::state::keys::{self, Mode};
use crate::table::View;
use crate::table::columns::COLUMNS;
use crate::text::{self, Align};

/// Minimum width of the terminal for listing keys in two columns, and width of a key's label.
const TWO: usize = 78;
const LABEL: usize = 9;

/// Draws the help. Keys come first, so that all of them fit on a screen of 80x24, or 80x30 with the
/// keys of recordings.
pub(crate) fn lines(width: usize, palette: &Palette, recorded: bool) -> Vec<Line<'static>> {
    let mut lines = every_key(width, palette, recorded);
    lines.push(Line::default());
    for (view, heading) in [
        (View::Overview, " Columns of the overview"),
        (View::Use, " Columns of CPU use"),
        (View::Waits, " Columns of waits"),
        (View::Energy, " Columns of energy"),
    ] {
        lines.push(Line::styled(heading, palette.accent));
        for column in COLUMNS.iter().filter(|column| column.views.contains(&view)) {
            lines.extend(labelled(column.title, column.help, width, palette));
        }
        lines.push(Line::default());
    }
    lines.push(Line::styled(" Causes of waits", palette.accent));
    for cause in Cause::ALL {
        let label = format!("{} {}", noctule_text::glyph(cause), cause.name());
        lines.extend(labelled(&label, about(cause), width, palette));
    }
    lines.push(Line::default());
    for line in [
        "A row stays for a minute after it last used the CPU; in the waits view, until the next \
        verdict.",
        "Waits are recorded per group, not per process: instead of processes, this view shows \
         containers.",
        "Energy: the lines above the rows show each zone of the meters with its power and its \
        parts; error is the half-width of the active part. Idle energy belongs to the node and to \
        no row.",
        "A figure that is not measured has no column, or shows -; noctule doctor says why.",
        "irq+steal: interrupts and steal, time neither idle nor charged to a process. If the kernel \
         includes steal in busy and idle time, steal has its own figure.",
    ] {
        let wrapped = text::wrap(line, width.saturating_sub(2));
        lines.extend(
            wrapped
                .into_iter()
                .map(|line| Line::raw(format!(" {line}"))),
        );
    }
    lines
}

/// Lists every key, column by column. Keys of the text inputs come last.
fn every_key(width: usize, palette: &Palette, recorded: bool) -> Vec<Line<'static>> {
    let bindings = keys::bindings(recorded).into_iter();
    let entries =
        bindings.map(|(binding, labels)| (binding.modes, (labels.join(" "), binding.help)));
    let entries: Vec<(&[Mode], (String, &str))> = entries.collect();
    let of = |wanted: &dyn Fn(&[Mode]) -> bool| {
        let those = entries.iter().filter(|(modes, _)| wanted(modes));
        those.map(|(_, entry)| entry.clone()).collect::<Vec<_>>()
    };
    let mut shown = of(&|modes| !matches!(modes, [Mode::Filter] | [Mode::Goto]));
    shown.push(("mouse".to_owned(), "select, sort; Shift: copy"));
    shown.push((String::new(), "while a filter is typed:"));
    shown.extend(of(&|modes| modes == [Mode::Filter]));
    if recorded {
        shown.push((String::new(), "while a time is typed:"));
        shown.extend(of(&|modes| modes == [Mode::Goto]));
    }
    let entries = shown;
    let columns = if width >= TWO { 2 } else { 1 };
    let rows = entries.len().div_ceil(columns);
    let room = (width / columns).saturating_sub(LABEL + 2);
    let mut lines = vec![Line::styled(" Keys", palette.accent)];
    for row in 0..rows {
        let mut spans = Vec::new();
        for (label, help) in entries.iter().skip(row).step_by(rows) {
            let label = text::pad(label, LABEL, Align::Left);
            spans.push(Span::styled(format!(" {label} "), palette.accent));
            spans.push(Span::raw(text::pad(help, room, Align::Left)));
        }
        lines.push(Line::from(spans));
    }
    lines
}

fn about(cause: Cause) -> &'static str {
    match cause {
        Cause::Throttle => "the CPU quota of the group, or of a parent, had run out",
        Cause::Neighbour => "another container, unit or group had the CPU",
        Cause::Own => "another thread of the same group had the CPU",
        Cause::Kernel => "a kernel thread had the CPU",
        Cause::Interrupt => "interrupts took the CPU from the running thread",
        Cause::Host => "the host took the CPU from this virtual machine (steal)",
        Cause::Idle => "the CPU was idle and had to wake up",
        Cause::Unattributed => "the culprit is no longer known",
    }
}
