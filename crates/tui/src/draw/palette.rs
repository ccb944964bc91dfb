//! The styles. Meaning never rests on colour alone: each has a sign or a place beside it.

use noctule_model::Cause;
use noctule_text::cause_colour;
use ratatui::style::{Color, Modifier, Style};

/// Styles by what they say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    /// Names of keys, headings, the chosen level.
    pub(crate) accent: Style,
    /// Graphs and bars.
    pub(crate) graph: Style,
    /// A bar that is nearly full, and warnings.
    pub(crate) alarm: Style,
    color: bool,
    /// What a group, or its quota, does to itself.
    pub(crate) own: Style,
    /// What matters more than its neighbours.
    pub(crate) strong: Style,
    /// What matters less: units, guides, idle rows.
    pub(crate) faint: Style,
    /// The selected row, the sort column, the pause.
    pub(crate) reversed: Style,
}

impl Palette {
    /// Only colours of the terminal's own sixteen that are dark enough on white and bright enough
    /// on black in the usual themes: no yellow, blue, white, black or bright ones. Faint is a
    /// modifier, for "bright black" is the background of some themes.
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

    /// The style of a cause. Its glyph says the same without colours.
    pub(crate) fn cause(&self, cause: Cause) -> Style {
        match (cause_colour(cause), self.color) {
            (None, _) => self.faint,
            (Some(_), false) => Style::new(),
            (Some(colour), true) => Style::new().fg(Color::Indexed(colour)),
        }
    }
}
