//! Lays out tables: which columns fit, their widths and their lines.

use noctule_model::Cause;

use crate::fit::{Align, keep_start, pad, shorten, width};

/// The space that a column needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Minimum width on the terminal.
    pub least: usize,
    /// Width if there is room.
    pub most: usize,
    /// Columns with higher numbers are dropped first.
    pub priority: u8,
    /// Columns with lower numbers get spare width first.
    pub turn: u8,
}

/// A visible column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The column's position among all columns.
    pub column: usize,
    /// The column's width on the terminal.
    pub width: usize,
}

/// Chooses the columns that fit into `room` with `gap` blanks between them, and distributes the
/// spare width. The column with the lowest priority number is always kept.
pub fn fit(needs: &[Need], room: usize, gap: usize) -> Vec<Place> {
    let mut chosen: Vec<usize> = (0..needs.len()).collect();
    chosen.sort_by_key(|&column| needs[column].priority);
    let mut used = 0;
    let fitting = chosen.iter().take_while(|&&column| {
        used += needs[column].least + gap;
        // The last column needs no blanks after it.
        used <= room + gap
    });
    let count = fitting.count().max(1);
    chosen.truncate(count);
    chosen.sort_unstable();
    let mut places: Vec<Place> = chosen
        .into_iter()
        .map(|column| Place {
            column,
            width: needs[column].least,
        })
        .collect();
    let used: usize = places.iter().map(|place| place.width + gap).sum();
    let mut left = (room + gap).saturating_sub(used);
    let mut turns: Vec<u8> = needs.iter().map(|need| need.turn).collect();
    turns.sort_unstable();
    turns.dedup();
    for turn in turns {
        let growing = places.iter_mut();
        for place in growing.filter(|place| needs[place.column].turn == turn) {
            let more = needs[place.column].most.saturating_sub(place.width);
            let more = more.min(left);
            place.width += more;
            left -= more;
        }
    }
    places
}

/// Meaning of a text, shown by colour. Colour is never the only sign of a meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// No meaning.
    #[default]
    Plain,
    /// More important than the text around it.
    Strong,
    /// Less important than the text around it.
    Faint,
    Good,
    /// Caused by the group itself or by its quota.
    Own,
    /// Caused by other groups, or a failure.
    Bad,
    /// Time with this cause.
    Cause(Cause),
}

/// Returns the colour of a cause, among the 256 colours of terminals. The colour resembles the one
/// on the page and is visible on light and dark backgrounds. `None` means faint: no group had the
/// CPU, or the group is unknown.
pub const fn cause_colour(cause: Cause) -> Option<u8> {
    match cause {
        Cause::Throttle => Some(136),
        Cause::Neighbour => Some(167),
        Cause::Own => Some(133),
        Cause::Kernel => Some(98),
        Cause::Interrupt => Some(100),
        Cause::Host => Some(94),
        Cause::Idle => Some(245),
        Cause::Unattributed => None,
    }
}

/// A section of a line in one tone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub text: String,
    pub tone: Tone,
}

impl Span {
    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        let text = text.into();
        Self { text, tone }
    }
}

/// The contents of a column in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// The text, or several parts that are never cut.
    pub spans: Vec<Span>,
    /// A shorter word, used if the text does not fit.
    pub short: Option<String>,
}

impl Cell {
    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self {
            spans: vec![Span::new(text, tone)],
            short: None,
        }
    }

    /// Returns the width on the terminal.
    pub fn width(&self) -> usize {
        self.spans.iter().map(|span| width(&span.text)).sum()
    }

    /// Returns the cell in exactly `columns` columns.
    fn fitted(&self, columns: usize, align: Align) -> Vec<Span> {
        let mut spans = self.spans.clone();
        let wide = self.width() > columns;
        match (&mut spans[..], &self.short) {
            ([only], Some(short)) if wide => only.text = keep_start(short, columns),
            ([only], None) if wide => only.text = shorten(&only.text, columns),
            _ => {}
        }
        let used: usize = spans.iter().map(|span| width(&span.text)).sum();
        let blanks = Span::new(" ".repeat(columns.saturating_sub(used)), Tone::Plain);
        match align {
            Align::Left => spans.push(blanks),
            Align::Right => spans.insert(0, blanks),
        }
        spans
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// The heading of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub title: String,
    /// Alignment of the cells.
    pub align: Align,
    /// See [`Need::priority`].
    pub priority: u8,
    /// Minimum width; `None` if a truncated cell would be meaningless.
    pub least: Option<usize>,
}

/// Blanks between columns.
const GAP: usize = 2;

/// The lines of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines {
    /// The headings.
    pub head: Vec<Span>,
    /// One line per row.
    pub rows: Vec<Vec<Span>>,
    /// Positions of the columns that did not fit.
    pub dropped: Vec<usize>,
}

/// Lays out rows of cells below their headings. Without `room`, all columns get their full width.
pub fn table(heads: &[Head], rows: &[Vec<Cell>], room: Option<usize>) -> Lines {
    let needs: Vec<Need> = heads
        .iter()
        .enumerate()
        .map(|(i, head)| {
            let cells = rows.iter().map(|row| row[i].width());
            let title = width(&head.title);
            let most = cells.max().unwrap_or(0).max(title);
            // The first column identifies the row, so it may use up to a third of the room. Other
            // text columns may use a sixth each.
            let part = room.unwrap_or(0) / if i == 0 { 3 } else { 6 };
            let least = |least: usize| least.max(part).max(title).min(most);
            Need {
                least: head.least.map_or(most, least),
                most,
                priority: head.priority,
                turn: head.priority,
            }
        })
        .collect();
    let places = match room {
        Some(room) => fit(&needs, room, GAP),
        None => (0..)
            .zip(&needs)
            .map(|(column, need)| Place {
                column,
                width: need.most,
            })
            .collect(),
    };
    let line = |of: &dyn Fn(&Place) -> Vec<Span>| {
        let mut spans = Vec::new();
        for (i, place) in places.iter().enumerate() {
            if i > 0 {
                spans.push(Span::new(" ".repeat(GAP), Tone::Plain));
            }
            spans.extend(of(place));
        }
        trim_end(&mut spans);
        spans
    };
    let head = line(&|place| {
        let head = &heads[place.column];
        let title = pad(&head.title, place.width, head.align);
        vec![Span::new(title, Tone::Strong)]
    });
    let rows = rows
        .iter()
        .map(|row| line(&|place| row[place.column].fitted(place.width, heads[place.column].align)));
    Lines {
        head,
        rows: rows.collect(),
        dropped: (0..heads.len())
            .filter(|i| places.iter().all(|place| place.column != *i))
            .collect(),
    }
}

/// Removes trailing blanks.
fn trim_end(spans: &mut Vec<Span>) {
    while let Some(last) = spans.last_mut() {
        last.text.truncate(last.text.trim_end_matches(' ').len());
        if !last.text.is_empty() {
            return;
        }
        spans.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(least: usize, most: usize, priority: u8) -> Need {
        Need {
            least,
            most,
            priority,
            turn: priority,
        }
    }

    /// Returns the relative luminance of one of the upper 240 colours, as defined by WCAG.
    fn luminance(colour: u8) -> f64 {
        let cube = |step: u8| [0, 95, 135, 175, 215, 255][usize::from(step)];
        let of = colour - 16;
        let parts = match colour {
            232.. => [8 + 10 * (colour - 232); 3],
            _ => [cube(of / 36), cube(of / 6 % 6), cube(of % 6)],
        };
        let linear = |part: u8| match f64::from(part) / 255.0 {
            part if part <= 0.03928 => part / 12.92,
            part => ((part + 0.055) / 1.055).powf(2.4),
        };
        let [red, green, blue] = parts.map(linear);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    /// WCAG 2.1 requires a contrast of 3:1 for graphics (1.4.11).
    #[test]
    fn cause_colours_are_visible_on_light_and_dark() {
        for cause in Cause::ALL {
            let Some(colour) = cause_colour(cause) else {
                continue;
            };
            let luminance = luminance(colour);
            let (on_white, on_black) = (1.05 / (luminance + 0.05), (luminance + 0.05) / 0.05);
            assert!(
                on_white >= 3.0 && on_black >= 3.0,
                "{cause:?}: {on_white:.1}, {on_black:.1}"
            );
        }
    }

    fn shown(needs: &[Need], room: usize) -> Vec<(usize, usize)> {
        fit(needs, room, 1)
            .iter()
            .map(|place| (place.column, place.width))
            .collect()
    }

    #[test]
    fn columns_are_dropped_by_priority_and_widened_by_turn() {
        let needs = [need(4, 10, 0), need(6, 6, 2), need(5, 8, 1)];
        let cases: [(usize, &[(usize, usize)]); 7] = [
            (0, &[(0, 4)]),
            (9, &[(0, 9)]),
            (10, &[(0, 4), (2, 5)]),
            (16, &[(0, 10), (2, 5)]),
            (17, &[(0, 4), (1, 6), (2, 5)]),
            (24, &[(0, 10), (1, 6), (2, 6)]),
            (99, &[(0, 10), (1, 6), (2, 8)]),
        ];
        for (room, expected) in cases {
            assert_eq!(shown(&needs, room), expected, "{room}");
        }
    }

    fn head(title: &str, align: Align, priority: u8, least: Option<usize>) -> Head {
        Head {
            title: title.into(),
            align,
            priority,
            least,
        }
    }

    fn drawn(room: Option<usize>) -> Vec<String> {
        let heads = [
            head("name", Align::Left, 0, Some(6)),
            head("cpu", Align::Right, 2, None),
            head("verdict", Align::Left, 1, Some(7)),
        ];
        let verdict = |long: &str, short: &str| Cell {
            short: Some(short.into()),
            ..Cell::new(long, Tone::Bad)
        };
        let rows = [
            vec![
                "日本".to_owned().into(),
                "1".to_owned().into(),
                verdict("quiet", "quiet"),
            ],
            vec![
                "systemd-journal".to_owned().into(),
                "23".to_owned().into(),
                verdict("hurt_by_host", "host"),
            ],
        ];
        let lines = table(&heads, &rows, room);
        let text = |spans: &Vec<Span>| spans.iter().map(|span| span.text.as_str()).collect();
        [&lines.head]
            .into_iter()
            .chain(&lines.rows)
            .map(text)
            .collect()
    }

    #[test]
    fn lines_fit_and_columns_stand_below_their_headings() {
        let wide = [
            "name             cpu  verdict",
            "日本               1  quiet",
            "systemd-journal   23  hurt_by_host",
        ];
        assert_eq!(drawn(None), wide);
        assert_eq!(drawn(Some(34)), wide);
        assert_eq!(
            drawn(Some(20)),
            [
                "name    cpu  verdict",
                "日本      1  quiet",
                "sys…al   23  host"
            ]
        );
        assert_eq!(
            drawn(Some(15)),
            ["name    verdict", "日本    quiet", "sys…al  host"]
        );
        assert_eq!(drawn(Some(3)), ["name", "日本", "sys…al"]);
    }

    #[test]
    fn every_cause_has_a_colour_of_its_own() {
        let mut colours = Cause::ALL.map(cause_colour).to_vec();
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), Cause::ALL.len());
    }
}
