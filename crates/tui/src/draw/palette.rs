//! Styles. Colour never carries meaning alone: a symbol or a position always shows the same.

use noctule_model::Cause;
use noctule_text::cause_colour;
use ratatui::style::{Color, Modifier, Style};

/// Styles by meaning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    /// Key names, headings, the current level.
    pub(crate) accent: Style,
    /// Graphs and bars.
    pub(crate) graph: Style,
    /// A nearly full bar, and warnings.
    pub(crate) alarm: Style,
    color: bool,
    /// Waits that are caused by the group itself or by its quota.
    pub(crate) own: Style,
    /// Rows that are more important than others.
    pub(crate) strong: Style,
    /// Units, guides and idle rows, which are less important.
    pub(crate) faint: Style,
    /// The selected row, the sort column, the pause mark.
    pub(crate) reversed: Style,
}

impl Palette {
    /// Creates the styles. The styles use only colours of the terminal's 16 that are readable on
    /// white and on black in the usual themes. This rule excludes yellow, blue, white, black and
    /// the bright colours. Faint is a modifier, because "bright black" is the background of some
    /// themes.
    pub(crate) fn new(color: bool) -> Self {
        let paint = |color_of: Color| match color {
            true => Style::new().fg(color_of),
            false => Style::new(),
        };
        Self {
            accent: paint(Color::Cyan).add_modifier(Modifier::BOLD),
            graph: paint(Color::Green),
            alarm: paint(Color::Red).add_modifier(Modifier::BOLD),
            color,
            own: paint(Color::Magenta),
            strong: Style::new().add_modifier(Modifier::BOLD),
            faint: Style::new().add_modifier(Modifier::DIM),
            reversed: Style::new().add_modifier(Modifier::REVERSED),
        }
    }

    /// Returns the style of a cause. The glyph of the cause shows the same without colour.
    pub(crate) fn cause(&self, cause: Cause) -> Style {
        match (cause_colour(cause), self.color) {
            (None, _) => self.faint,
            (Some(_), false) => Style::new(),
            (Some(colour), true) => Style::new().fg(Color::Indexed(colour)),
        }
    }
}
