//! The layout of the screen. The state needs it to know the height of a page.

use ratatui::layout::{Rect, Size};

/// The parts of the screen. A part for which there is no room is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Areas {
    /// The headline in the overview. In every view: the node and the agent, on up to four lines.
    pub(crate) header: Rect,
    /// The node's graph, to the right of a wide header.
    pub(crate) graph: Rect,
    /// Warnings about features and losses.
    pub(crate) warning: Rect,
    /// Levels, sort order and filter.
    pub(crate) status: Rect,
    /// Energy zones, in the view of energy.
    pub(crate) zones: Rect,
    /// The headings of the table.
    pub(crate) titles: Rect,
    /// The rows.
    pub(crate) body: Rect,
    /// The details of the selected row, to the right of a wide overview.
    pub(crate) side: Rect,
    /// Headings and rows, or the pane that covers them.
    pub(crate) pane: Rect,
    /// The main keys.
    pub(crate) footer: Rect,
}

/// Parts of the screen whose size depends on their content.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// Whether there is a warning.
    pub(crate) warning: bool,
    /// Number of lines for the energy zones.
    pub(crate) zones: u16,
    /// Number of lines of the headline; 0 outside the overview.
    pub(crate) headline: u16,
    /// Whether the details of the selected row are shown on a wide screen.
    pub(crate) side: bool,
}

/// Minimum width of a screen with a second pane.
const WIDE: u16 = 160;

/// Returns the maximum number of lines of the headline on a screen of this height.
pub(crate) const fn most_headline(height: u16) -> u16 {
    match height {
        0..=2 => 0,
        3..=13 => 1,
        14..=19 => 2,
        _ => 4,
    }
}

/// Divides the screen.
pub(crate) fn areas(size: Size, wanted: Wanted) -> Areas {
    let Size { width, height } = size;
    let Wanted { warning, zones, .. } = wanted;
    let header = match (height, wanted.headline) {
        (0..=2, _) => 0,
        (3..=8, _) => 1,
        (_, 1..) => 1 + wanted.headline.min(most_headline(height)),
        (9..=13, 0) => 2,
        (14..=19, 0) => 3,
        (_, 0) => 4,
    };
    let graph = if header == 4 && wanted.headline == 0 && width >= 120 {
        62
    } else {
        0
    };
    let side = match wanted.side && width >= WIDE {
        true => width * 2 / 5,
        false => 0,
    };
    let mut y = 0;
    let mut take = |lines: u16| {
        let lines = lines.min(height - y);
        y += lines;
        Rect::new(0, y - lines, width, lines)
    };
    let top = take(header);
    let warning = take(u16::from(warning && height >= 9));
    let status = take(u16::from(height >= 7));
    let footer = u16::from(height >= 3);
    // On a tall screen, zones take at most a third, to leave room for the rows.
    let zones = take(if height < 12 {
        0
    } else {
        zones.min(height / 3)
    });
    let pane = take(
        (height - top.height - warning.height - status.height - zones.height)
            .saturating_sub(footer),
    );
    let titles = Rect {
        width: width - side,
        height: pane.height.min(1),
        ..pane
    };
    Areas {
        header: Rect {
            width: width - graph,
            ..top
        },
        graph: Rect {
            x: width - graph,
            width: graph,
            ..top
        },
        warning,
        status,
        zones,
        titles,
        body: Rect {
            y: pane.y + titles.height,
            height: pane.height - titles.height,
            ..titles
        },
        side: Rect {
            x: width - side,
            width: side,
            ..pane
        },
        pane,
        footer: take(footer),
    }
}

impl Areas {
    /// Makes the pane cover everything except the keys. The help needs that much room.
    pub(crate) fn covered(self) -> Self {
        let none = |area: Rect| Rect { height: 0, ..area };
        Self {
            header: none(self.header),
            graph: Rect {
                width: 0,
                ..none(self.graph)
            },
            warning: none(self.warning),
            status: none(self.status),
            zones: none(self.zones),
            titles: none(self.titles),
            body: none(self.body),
            side: none(self.side),
            pane: Rect {
                y: 0,
                height: self.footer.y,
                ..self.pane
            },
            footer: self.footer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_fill_the_screen_whatever_its_size() {
        for width in [0, 1, 20, 119, 120, 300] {
            for height in 0..60 {
                for (warning, zones) in [(false, 0), (true, 0), (false, 4), (true, 90)] {
                    let wanted = Wanted {
                        warning,
                        zones,
                        headline: zones % 5,
                        side: !warning,
                    };
                    let areas = areas(Size::new(width, height), wanted);
                    let parts = [
                        areas.header,
                        areas.warning,
                        areas.status,
                        areas.zones,
                        areas.titles,
                        areas.body,
                        areas.footer,
                    ];
                    let sum: u16 = parts.iter().map(|part| part.height).sum();
                    assert_eq!(sum, height, "{width}x{height}");
                    assert!(height < 5 || areas.body.height >= 2, "{width}x{height}");
                }
            }
        }
    }
}
