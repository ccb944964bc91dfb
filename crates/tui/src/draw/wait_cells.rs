//! What is drawn of waits in more than one place: verdicts, causes, their legend.

use noctule_analysis::WaitReportRow;
use noctule_model::{Cause, VerdictKind};
use ratatui::style::Style;
use ratatui::text::Span;

use crate::draw::palette::Palette;
use crate::text::{self, Align};

/// The style of a verdict: by whose doing it is.
pub(crate) fn verdict_style(kind: VerdictKind, palette: &Palette) -> Style {
    match kind {
        VerdictKind::Quiet => palette.graph,
        kind if kind.is_own() => palette.own,
        _ => palette.alarm,
    }
}

fn cause_style(cause: Cause, palette: &Palette) -> Style {
    match cause {
        Cause::Throttle | Cause::Own => palette.own,
        Cause::Neighbour | Cause::Kernel | Cause::Interrupt | Cause::Host => palette.others,
        Cause::Idle | Cause::Unattributed => palette.faint,
    }
}

/// The causes of the waits as a bar of `columns`. Without a style for the parts when the row is
/// selected: colours cannot be read on the reversed line.
pub(crate) fn causes(
    row: &WaitReportRow,
    columns: usize,
    plain: bool,
    palette: &Palette,
) -> Vec<Span<'static>> {
    let parts = row.bar(columns).filter(|(_, part)| *part > 0);
    let mut spans: Vec<Span<'static>> = parts
        .map(|(cause, part)| {
            let style = match plain {
                true => Style::new(),
                false => cause_style(cause, palette),
            };
            Span::styled(noctule_text::glyph(cause).to_string().repeat(part), style)
        })
        .collect();
    let used: usize = spans.iter().map(Span::width).sum();
    let rest = " ".repeat(columns.saturating_sub(used));
    spans.push(Span::raw(rest));
    spans
}

/// What the glyphs of the causes mean.
pub(crate) fn legend(palette: &Palette) -> Vec<Span<'static>> {
    let entry = |cause: Cause| {
        [
            Span::styled(
                format!("  {} ", noctule_text::glyph(cause)),
                cause_style(cause, palette),
            ),
            Span::styled(cause.name(), palette.faint),
        ]
    };
    Cause::ALL.into_iter().flat_map(entry).collect()
}

/// A glyph in the style of its cause.
pub(crate) fn glyph(cause: Cause, palette: &Palette) -> Span<'static> {
    Span::styled(
        noctule_text::glyph(cause).to_string(),
        cause_style(cause, palette),
    )
}

/// The name of a verdict; `…` before the first.
pub(crate) fn verdict(kind: Option<VerdictKind>, width: usize) -> String {
    text::pad(kind.map_or("…", VerdictKind::name), width, Align::Left)
}
