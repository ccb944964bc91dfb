//! Drawing of verdicts, causes and their legend, shared by the table and the detail pane.

use noctule_analysis::WaitReportRow;
use noctule_model::{Cause, VerdictKind};
use ratatui::style::Style;
use ratatui::text::Span;

use crate::draw::palette::Palette;
use crate::table::{Item, figures};
use crate::text::{self, Align};

/// Returns the style of a verdict, depending on the party at fault.
pub(crate) fn kind_style(kind: VerdictKind, palette: &Palette) -> Style {
    match kind {
        VerdictKind::Quiet => palette.graph,
        kind if kind.is_own() => palette.own,
        _ => palette.alarm,
    }
}

/// Returns the style of the row's verdict. The verdict of a row that is no longer held up is faint.
pub(crate) fn verdict_style(item: &Item, palette: &Palette) -> Style {
    match figures::verdict(item) {
        Some(kind) if kind == VerdictKind::Quiet || figures::is_hurt(item) => {
            kind_style(kind, palette)
        }
        _ => palette.faint,
    }
}

/// Returns the style of a cause, in the colour used by the tables of the command line.
fn cause_style(cause: Cause, palette: &Palette) -> Style {
    palette.cause(cause)
}

/// Draws the causes of the waits as a bar. With `plain`, the parts have no style, because colours
/// are unreadable on the reversed line of a selected row.
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

/// Draws the legend of the causes' glyphs.
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

/// Draws a glyph in the style of its cause.
pub(crate) fn glyph(cause: Cause, palette: &Palette) -> Span<'static> {
    Span::styled(
        noctule_text::glyph(cause).to_string(),
        cause_style(cause, palette),
    )
}

/// Returns the name of the row's verdict, or a shorter word if the name does not fit; `…` before
/// the first verdict, and `-` if the row has no waits.
pub(crate) fn verdict(item: &Item, width: usize) -> String {
    let word = match (figures::verdict(item), &item.waited) {
        (Some(kind), _) if kind.name().len() <= width => kind.name(),
        (Some(kind), _) => noctule_text::verdict_word(kind),
        (None, Some(_)) => "…",
        (None, None) => "-",
    };
    text::pad(word, width, Align::Left)
}
