//! The columns of a table, their order, and the sort order of the rows.

use std::cmp::Ordering;

use noctule_model::Level;
use noctule_text::{self as text, Align, Cell, Head, Tone, level_word};

use crate::args::Shape;
use crate::exit::Usage;
use crate::print::Paint;

/// A column, with a function `F` that computes its figure for a row.
pub(crate) struct Column<F> {
    /// The column's name in `--columns` and `--sort`.
    pub(crate) name: &'static str,
    title: &'static str,
    align: Align,
    priority: u8,
    least: Option<usize>,
    usual: bool,
    of_processes: bool,
    pub(crate) figure: F,
}

/// Priority of columns that are dropped last; only names, verdict and culprit are kept longer.
const KEPT: u8 = 3;

impl<F> Column<F> {
    /// Creates a numeric column. On a narrow terminal, columns with higher priorities are dropped
    /// first.
    pub(crate) fn number(name: &'static str, priority: u8, figure: F) -> Self {
        Self {
            name,
            title: name,
            align: Align::Right,
            priority,
            least: None,
            usual: true,
            of_processes: false,
            figure,
        }
    }

    /// Creates a text column that can be shortened to a width of `least`.
    pub(crate) fn text(name: &'static str, priority: u8, least: usize, figure: F) -> Self {
        Self {
            align: Align::Left,
            least: Some(least),
            ..Self::number(name, priority, figure)
        }
    }

    /// Keeps the named column longer on narrow terminals, because it is the purpose of the table.
    pub(crate) fn keep(name: &str, columns: &mut [Self]) {
        for column in columns.iter_mut().filter(|column| column.name == name) {
            column.priority = KEPT;
        }
    }

    /// Sets a heading that differs from the name.
    pub(crate) fn titled(self, title: &'static str) -> Self {
        Self { title, ..self }
    }

    /// Shows the column only on request.
    pub(crate) fn on_request(self) -> Self {
        Self {
            usual: false,
            ..self
        }
    }

    /// Restricts the column to processes.
    pub(crate) fn of_processes(self) -> Self {
        Self {
            of_processes: true,
            ..self
        }
    }
}

/// The value of a column for a row: the displayed cell and the sort key.
pub(crate) struct Figure {
    cell: Cell,
    key: Key,
}

#[derive(Clone, Debug, PartialEq)]
enum Key {
    Number(f64),
    Text(String),
}

impl Figure {
    pub(crate) fn number(value: f64, text: impl Into<String>) -> Self {
        Self {
            cell: Cell::new(text, Tone::Plain),
            key: Key::Number(value),
        }
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self {
            key: Key::Text(text.to_lowercase()),
            cell: text.into(),
        }
    }

    /// Creates a figure whose cell differs from its sort key.
    pub(crate) fn drawn(value: f64, cell: Cell) -> Self {
        Self {
            cell,
            key: Key::Number(value),
        }
    }
}

/// The selected columns, as indexes, and the sort column.
#[derive(Debug)]
pub(crate) struct Choice {
    shown: Vec<usize>,
    /// Columns that are displayed even if no row has a figure.
    named: Vec<usize>,
    sort: Option<usize>,
    /// The heading of the column of names, if it differs from the word for the level.
    heading: Option<&'static str>,
}

impl Choice {
    /// Resolves the selection. The first column contains the names and is always displayed.
    pub(crate) fn new<F>(
        shape: &Shape,
        columns: &[Column<F>],
        level: Level,
    ) -> Result<Self, Usage> {
        let find = |option: &str, wanted: &str| find(option, wanted, columns, level);
        let usual = (1..columns.len()).filter(|&i| columns[i].usual);
        let added: Vec<&str> = shape
            .columns
            .iter()
            .filter_map(|name| name.strip_prefix('+'))
            .collect();
        let mut named = Vec::new();
        for name in &shape.columns {
            let column = find("--columns", name.strip_prefix('+').unwrap_or(name))?;
            if column != 0 && !named.contains(&column) {
                named.push(column);
            }
        }
        if !added.is_empty() && added.len() < shape.columns.len() {
            return Err(Usage(
                "--columns: put a + before every name (to add to the default columns) or before \
                 none"
                    .into(),
            ));
        }
        let mut shown = vec![0];
        if added.len() == shape.columns.len() {
            shown.extend(usual.filter(|column| !named.contains(column)));
        }
        shown.extend(&named);
        let sort = shape.sort.as_deref().map(|name| find("--sort", name));
        Ok(Self {
            shown,
            named,
            sort: sort.transpose()?,
            heading: None,
        })
    }

    /// Sets the heading of the names.
    pub(crate) fn headed(self, heading: &'static str) -> Self {
        Self {
            heading: Some(heading),
            ..self
        }
    }

    /// Returns the default columns and order.
    pub(crate) fn usual<F>(columns: &[Column<F>]) -> Self {
        let usual = (0..columns.len()).filter(|&i| columns[i].usual);
        Self {
            shown: usual.collect(),
            named: Vec::new(),
            sort: None,
            heading: None,
        }
    }

    /// Sorts the rows if a sort column was selected. Rows without a figure come last.
    pub(crate) fn sort<F, R>(
        &self,
        columns: &[Column<F>],
        rows: &mut [R],
        figure: impl Fn(&F, &R) -> Option<Figure>,
    ) {
        let Some(sort) = self.sort else { return };
        let of = &columns[sort].figure;
        rows.sort_by_cached_key(|row| ByKey(figure(of, row).map(|figure| figure.key)));
    }

    /// Lays out the rows. Omits columns in which no row has a value, unless the user selected the
    /// column by name.
    pub(crate) fn draw<F, R>(
        &self,
        columns: &[Column<F>],
        rows: &[R],
        level: Level,
        figure: impl Fn(&F, &R) -> Option<Figure>,
        paint: Paint,
    ) -> Drawn {
        let mut heads = Vec::new();
        let mut cells: Vec<Vec<Cell>> = rows.iter().map(|_| Vec::new()).collect();
        let mut there = Vec::new();
        for &shown in &self.shown {
            let column = &columns[shown];
            let figures: Vec<Option<Figure>> =
                rows.iter().map(|row| figure(&column.figure, row)).collect();
            let named = self.named.contains(&shown);
            if shown != 0 && !named && figures.iter().all(Option::is_none) {
                continue;
            }
            there.push(column.name);
            heads.push(Head {
                title: match shown {
                    0 => self.heading.unwrap_or(level_word(level)).to_owned(),
                    _ => column.title.to_owned(),
                },
                align: column.align,
                // A column that the user selected by name is dropped last.
                priority: if named { 0 } else { column.priority },
                least: column.least,
            });
            for (cells, figure) in cells.iter_mut().zip(figures) {
                cells.push(figure.map_or_else(|| "-".to_owned().into(), |figure| figure.cell));
            }
        }
        let lines = noctule_text::table(&heads, &cells, paint.width());
        let dropped: Vec<&str> = lines.dropped.iter().map(|&i| there[i]).collect();
        let mut shown = there;
        shown.retain(|name| !dropped.contains(name));
        Drawn {
            head: paint.line(&lines.head),
            rows: lines.rows.iter().map(|row| paint.line(row)).collect(),
            shown,
            dropped: match dropped.is_empty() {
                true => String::new(),
                false => paint.folded(
                    Tone::Faint,
                    &format!("no room for: {} (--wide)", dropped.join(", ")),
                    0,
                ),
            },
        }
    }
}

/// The lines of a table.
pub(crate) struct Drawn {
    pub(crate) head: String,
    pub(crate) rows: Vec<String>,
    /// Names of the columns that fit.
    pub(crate) shown: Vec<&'static str>,
    /// Names of the columns that do not fit; empty if all of them fit.
    pub(crate) dropped: String,
}

/// Returns the line that reports how many rows are not shown.
pub(crate) fn more(rows: usize) -> String {
    match rows {
        1 => "1 more row".to_owned(),
        rows => format!("{} more rows", text::count(rows as u64)),
    }
}

/// Sorts numbers in descending order and strings in ascending order. Missing values come last.
#[derive(PartialEq)]
struct ByKey(Option<Key>);

impl Eq for ByKey {}

impl Ord for ByKey {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Some(Key::Number(a)), Some(Key::Number(b))) => b.total_cmp(a),
            (Some(Key::Text(a)), Some(Key::Text(b))) => a.cmp(b),
            (a, b) => a.is_none().cmp(&b.is_none()),
        }
    }
}

impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Finds a column by name, ignoring case, blanks and dashes.
fn find<F>(
    option: &str,
    wanted: &str,
    columns: &[Column<F>],
    level: Level,
) -> Result<usize, Usage> {
    let plain = |name: &str| name.to_lowercase().replace([' ', '-', '_'], "");
    let spelled = |name: &str| name.to_lowercase().replace(' ', "-");
    let there = |column: &Column<F>| !column.of_processes || level == Level::Process;
    let found = columns
        .iter()
        .position(|column| plain(column.name) == plain(wanted));
    match found {
        Some(found) if there(&columns[found]) => return Ok(found),
        Some(_) => {
            return Err(Usage(format!(
                "{option} {wanted}: only processes have this column, and each row is a {}: add \
                 --by process",
                level_word(level)
            )));
        }
        None => {}
    }
    let names = columns.iter().filter(|column| there(column));
    let mut names: Vec<String> = names.map(|column| spelled(column.name)).collect();
    let list = names.join(", ");
    let near = |name: &str| strsim::jaro_winkler(&plain(wanted), &plain(name));
    names.retain(|name| near(name) > 0.7);
    names.sort_by(|a, b| near(b).total_cmp(&near(a)));
    let nearest = names.first();
    let nearest = nearest.map_or_else(String::new, |name| format!("; the closest is {name}"));
    Err(Usage(format!(
        "{option} {wanted}: no such column{nearest}; the columns are {list}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Of = fn(&(&str, f64)) -> Option<Figure>;

    fn columns() -> Vec<Column<Of>> {
        let number: Of = |row| (row.1 >= 0.0).then(|| Figure::number(row.1, row.1.to_string()));
        vec![
            Column::text("name", 0, 4, (|row| Some(Figure::text(row.0))) as Of),
            Column::number("CPU%", 1, number),
            Column::number("pg read", 2, |_| None),
            Column::text("user", 3, 4, (|_| Some(Figure::text("root"))) as Of)
                .on_request()
                .of_processes(),
        ]
    }

    fn choice(names: &[&str], sort: Option<&str>, level: Level) -> Result<Choice, String> {
        let shape = Shape {
            columns: names.iter().map(|&name| name.to_owned()).collect(),
            sort: sort.map(str::to_owned),
            wide: false,
        };
        Choice::new(&shape, &columns(), level).map_err(|error| error.0)
    }

    fn drawn(choice: &Choice) -> String {
        let mut rows = [("b", 1.0), ("none", -1.0), ("a", 2.0)];
        let columns = columns();
        choice.sort(&columns, &mut rows, |of, row| of(row));
        let drawn = choice.draw(
            &columns,
            &rows,
            Level::Unit,
            |of, row| of(row),
            Paint::none(),
        );
        drawn.head + &drawn.rows.concat()
    }

    #[test]
    fn columns_are_the_default_the_named_or_both() {
        let cases: [(&[&str], &str); 4] = [
            (&[], "unit  CPU%\nb        1\nnone     -\na        2\n"),
            (
                &["pg-READ"],
                "unit  pg read\nb           -\nnone        -\na           -\n",
            ),
            (
                &["+pgread"],
                "unit  CPU%  pg read\nb        1        -\nnone     -        -\na        2        -\n",
            ),
            (
                &["name", "cpu%"],
                "unit  CPU%\nb        1\nnone     -\na        2\n",
            ),
        ];
        for (names, expected) in cases {
            let choice = choice(names, None, Level::Unit).expect("they are there");
            assert_eq!(drawn(&choice), expected, "{names:?}");
        }
    }

    #[test]
    fn numbers_sort_descending_and_names_ascending() {
        let first = |sort| {
            let choice = choice(&["name"], Some(sort), Level::Unit).expect("it is there");
            drawn(&choice).replace("unit\n", "").replace('\n', " ")
        };
        assert_eq!(first("cpu%"), "a b none ");
        assert_eq!(first("name"), "a b none ");
        assert_eq!(first("pg read"), "b none a ");
    }

    #[test]
    fn unknown_column_suggests_the_closest() {
        let cases: [(&[&str], Level, &str); 3] = [
            (
                &["cpuu"],
                Level::Unit,
                "--columns cpuu: no such column; the closest is cpu%; the columns are name, cpu%, pg-read",
            ),
            (
                &["user"],
                Level::Unit,
                "--columns user: only processes have this column, and each row is a unit: add --by process",
            ),
            (
                &["cpu%", "+user"],
                Level::Process,
                "--columns: put a + before every name",
            ),
        ];
        for (names, level, expected) in cases {
            let error = choice(names, None, level).expect_err("it is not there");
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(choice(&["user"], None, Level::Process).is_ok());
        assert!(choice(&[], Some("user"), Level::Unit).is_err());
    }
}
