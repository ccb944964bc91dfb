//! The help: the tables of keys and columns, as they are.

use noctule_model::Cause;
use ratatui::text::Line;

use crate::draw::line::labelled;
use crate::draw::palette::Palette;
use crate::state::keys::{Binding, KEYS, Mode, Press};
use crate::table::View;
use crate::table::columns::COLUMNS;
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
    for (view, heading) in [
        (View::Use, " Columns: who uses the CPU"),
        (View::Waits, " Columns: who waits for it"),
        (View::Energy, " Columns: what it costs in energy"),
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
        "A row stays for a minute after it last used anything; in the view of waits until the next \
         verdict.",
        "Waits are known by group, not by process: where processes were asked for, containers are \
         shown.",
        "Energy: above the rows are the zones of the meters, what they took, and where it went; error is \
         the half-width of the active part. Idle energy belongs to the node and to no row.",
        "What is not measured has no column, or -; noctule doctor says why.",
        "irq+steal: interrupts and steal, time neither idle nor charged to a process.",
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

fn about(cause: Cause) -> &'static str {
    match cause {
        Cause::Throttle => "the quota of the group, or of one above, had run out",
        Cause::Neighbour => "another container, unit or group had the CPU",
        Cause::Own => "another thread of the group itself had the CPU",
        Cause::Kernel => "a thread of the kernel had the CPU",
        Cause::Interrupt => "interrupts took the CPU from the running thread",
        Cause::Host => "the host took the CPU from this virtual machine (steal)",
        Cause::Idle => "nobody had the CPU: it was idle and had to wake up",
        Cause::Unattributed => "who had the CPU is not known any more",
    }
}
