//! Draws a table for a terminal.

use super::names::Shown;
use super::range::Range;
use super::{Figure, KeyColumn, KeyShow, NodeNames, Row, Snapshot, SortColumn, SortKey, Table};
use super::{ValueShow, key, share};

/// Maximum length of a bar in characters.
const BAR: usize = 20;
/// Number of spaces between columns.
const GAP: usize = 2;
/// Minimum width of text columns.
const MIN_WIDTH: usize = 8;

/// The available area for a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Characters per line.
    pub width: usize,
    /// Number of rows. The header and the line about omitted rows are not included.
    pub rows: usize,
}

/// A column and the text of its rows.
struct Column {
    title: String,
    is_number: bool,
    cells: Vec<String>,
    width: usize,
}

impl Table {
    /// Draws the first rows as columns with a header, without colors. A table without a sort order
    /// is sorted by hits, descending. If a cell or line is too long, it ends with `…`.
    ///
    /// Widths are in characters, although a terminal draws some of them two cells wide.
    pub fn draw(&self, now: &Snapshot<'_>, names: &dyn NodeNames, area: Area) -> String {
        const MOST_HITS: &[SortKey] = &[SortKey {
            column: SortColumn::Hits,
            descending: true,
        }];
        let by = if self.sort.is_empty() {
            MOST_HITS
        } else {
            &self.sort
        };
        let mut rows = self.sorted_by(now.rows, by, names);
        rows.truncate(area.rows);
        let mut columns = self.columns(&rows, now, Shown(names));
        fit(&mut columns, area.width);
        let mut out = String::new();
        line(&columns, |column| &column.title, area.width, &mut out);
        for index in 0..rows.len() {
            line(
                &columns,
                |column| &column.cells[index],
                area.width,
                &mut out,
            );
        }
        let omitted = omitted_line(now.rows.len() - rows.len(), now.dropped);
        if !omitted.is_empty() {
            out.push_str(&cut(&omitted, area.width));
            out.push('\n');
        }
        out
    }

    fn columns(&self, rows: &[&Row], now: &Snapshot<'_>, names: Shown<'_>) -> Vec<Column> {
        let mut titles = self.titles().into_iter();
        let mut columns = Vec::new();
        let mut push = |is_number, cells: Vec<String>| {
            let title = titles.next().unwrap_or_default();
            let widths = cells.iter().map(|cell| cell.chars().count());
            let width = widths.max().unwrap_or(0).max(title.chars().count());
            columns.push(Column {
                title,
                is_number,
                cells,
                width,
            });
        };
        for (index, column) in self.keys.iter().enumerate() {
            let cells = rows
                .iter()
                .map(|row| part(column, self.part(row, index), names));
            push(is_number(&column.show), cells.collect());
        }
        if !self.nohitcount {
            let hits = rows.iter().map(|row| row.figure(Figure::Hits).to_string());
            push(true, hits.collect());
        }
        let wholes = share::wholes(self, now.rows);
        for (column, whole) in self.values.iter().zip(wholes) {
            let cells = rows
                .iter()
                .map(|row| value(column.show, row.figure(column.figure), whole));
            push(column.show != ValueShow::Graph, cells.collect());
        }
        for tracked in self.tracked_columns() {
            let cells = rows.iter().map(|row| tracked.text(row, names));
            push(tracked.fields.is_empty(), cells.collect());
        }
        columns
    }
}

fn is_number(show: &KeyShow) -> bool {
    match show {
        KeyShow::Number
        | KeyShow::Signed
        | KeyShow::Hex
        | KeyShow::Log2
        | KeyShow::Buckets(_)
        | KeyShow::Microseconds => true,
        KeyShow::Symbol
        | KeyShow::SymbolOffset
        | KeyShow::ExecName
        | KeyShow::Syscall
        | KeyShow::Text
        | KeyShow::Address
        | KeyShow::Stack
        | KeyShow::Flags(_)
        | KeyShow::Owner(_) => false,
    }
}

/// Formats a part of the key.
pub(super) fn part(column: &KeyColumn, bytes: &[u8], names: Shown<'_>) -> String {
    let number = key::number(bytes);
    match &column.show {
        KeyShow::Number | KeyShow::Microseconds => number.to_string(),
        KeyShow::Signed => number.cast_signed().to_string(),
        KeyShow::Hex => format!("{number:x}"),
        KeyShow::Symbol => names.symbol(number, false),
        KeyShow::SymbolOffset => names.symbol(number, true),
        KeyShow::ExecName => format!("{} ({number})", names.thread(number)),
        KeyShow::Syscall => names.syscall(number).unwrap_or_else(|| number.to_string()),
        KeyShow::Log2 | KeyShow::Buckets(_) => {
            let range = Range::of(&column.show, number);
            range.map_or_else(|| number.to_string(), Range::text)
        }
        KeyShow::Owner(identity) => names.owner(*identity, number),
        KeyShow::Text => names.text(key::text(bytes)),
        KeyShow::Address => {
            key::address(bytes).map_or_else(|| "-".to_owned(), |address| address.to_string())
        }
        KeyShow::Flags(table) => match table.render_value(number) {
            name if name.is_empty() => number.to_string(),
            name => names.text(name.as_bytes()),
        },
        KeyShow::Stack => match names.0.stack(number) {
            None => "[no stack]".to_owned(),
            Some(frames) => {
                let symbols = frames.iter().map(|frame| names.symbol(*frame, false));
                symbols.collect::<Vec<_>>().join(" < ")
            }
        },
    }
}

fn value(show: ValueShow, number: u64, whole: u64) -> String {
    match (show, share::hundredths(number, whole)) {
        (ValueShow::Number, _) => number.to_string(),
        (ValueShow::Signed, _) => number.cast_signed().to_string(),
        (ValueShow::Hex, _) => format!("{number:x}"),
        (ValueShow::Percent | ValueShow::Graph, None) => "?".to_owned(),
        (ValueShow::Percent, Some(part)) => format!("{}.{:02}", part / 100, part % 100),
        (ValueShow::Graph, Some(part)) => "#".repeat((part as usize * BAR / 10_000).min(BAR)),
    }
}

/// Narrows text columns until the line fits, the widest first.
fn fit(columns: &mut [Column], width: usize) {
    loop {
        let gaps = GAP * columns.len().saturating_sub(1);
        let all = columns.iter().map(|column| column.width).sum::<usize>() + gaps;
        let texts = columns.iter_mut().filter(|column| !column.is_number);
        let Some(widest) = texts.max_by_key(|column| column.width) else {
            return;
        };
        let over = all.saturating_sub(width);
        if over == 0 || widest.width <= MIN_WIDTH {
            return;
        }
        // Shrinks in small steps, so that columns of equal width shrink evenly.
        let step = over.min(widest.width.div_ceil(8));
        widest.width = widest.width.saturating_sub(step).max(MIN_WIDTH);
    }
}

fn line(columns: &[Column], text: impl Fn(&Column) -> &str, width: usize, out: &mut String) {
    let mut line = String::new();
    for (index, column) in columns.iter().enumerate() {
        if index > 0 {
            line.push_str("  ");
        }
        let text = cut(text(column), column.width);
        let blanks = " ".repeat(column.width.saturating_sub(text.chars().count()));
        if column.is_number {
            line.push_str(&blanks);
            line.push_str(&text);
        } else {
            line.push_str(&text);
            line.push_str(&blanks);
        }
    }
    out.push_str(cut(line.trim_end(), width).trim_end());
    out.push('\n');
}

/// Returns the text, truncated with `…` if it is too wide.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        short.push('…');
    }
    short
}

/// Formats the line about omitted rows.
fn omitted_line(rows: usize, dropped: u64) -> String {
    let rows = match rows {
        0 => String::new(),
        1 => "1 more row".to_owned(),
        rows => format!("{rows} more rows"),
    };
    let between = if rows.is_empty() || dropped == 0 {
        ""
    } else {
        "; "
    };
    let dropped = match dropped {
        0 => String::new(),
        1 => "1 hit dropped: the table is full".to_owned(),
        dropped => format!("{dropped} hits dropped: the table is full"),
    };
    format!("{rows}{between}{dropped}")
}
