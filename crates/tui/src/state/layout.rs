//! The layout of the screen. The state needs it to know the height of a page.

use ratatui::layout::{Rect, Size};

/// The parts of the screen. A part for which there is no room is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Areas {
    /// The node and the agent, on one to four lines.
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
    /// Headings and rows, or the pane that covers them.
    pub(crate) pane: Rect,
    /// The main keys.
    pub(crate) footer: Rect,
}

/// Divides the screen.
pub(crate) fn areas(size: Size, warning: bool, zones: u16) -> Areas {
    let Size { width, height } = size;
    let header = match height {
        0..=2 => 0,
        3..=8 => 1,
        9..=13 => 2,
        14..=19 => 3,
        _ => 4,
    };
    let graph = if header == 4 && width >= 120 { 62 } else { 0 };
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
                    let areas = areas(Size::new(width, height), warning, zones);
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
