//! The numbers that `onmax` and `onchange` track in a row.

use std::cmp::Reverse;
use std::fmt::Write as _;

use super::cells::Cell;
use super::names::{NodeNames, Shown};
use super::{Row, Table, key};
use crate::program::When;

/// A tracked number and the fields saved with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracked {
    /// The number's index in [`crate::program::Program::values`].
    pub saved: usize,
    /// Name of the variable, without `$`.
    pub name: String,
    /// Condition for keeping a new value.
    pub when: When,
    /// Fields that are saved with the number.
    pub fields: Vec<SavedColumn>,
    /// Whether the action is `snapshot()`, which keeps the preceding events and does not add a
    /// column.
    pub is_snapshot: bool,
}

/// The cause of a `snapshot()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken<'a> {
    /// The tracked number.
    pub tracked: &'a Tracked,
    /// Time in nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    pub value: u64,
    /// The row of the number's key.
    pub row: &'a Row,
}

/// A saved field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedColumn {
    pub name: String,
    /// Size in bytes, a multiple of eight.
    pub size: usize,
    pub show: SavedShow,
}

/// How a saved field is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SavedShow {
    /// An unsigned number.
    Number,
    /// A signed number. The kernel shows negative numbers as large unsigned numbers.
    Signed,
    /// Text up to its first NUL.
    Text,
}

impl Tracked {
    /// Returns `max($lat)`.
    pub(super) fn title(&self) -> String {
        format!("{}(${})", self.label(), self.name)
    }

    /// Returns the kernel's label.
    const fn label(&self) -> &'static str {
        match self.when {
            When::Greater => "max",
            When::Other => "changed",
        }
    }

    /// Returns the kernel's name of the handler.
    pub const fn handler(&self) -> &'static str {
        match self.when {
            When::Greater => "onmax",
            When::Other => "onchange",
        }
    }

    pub(super) fn cell(&self, row: &Row, names: Shown<'_>) -> Cell {
        let (value, words) = row.saved(self.saved);
        let fields = self.values(words).map(|(column, bytes)| {
            let number = key::number(&bytes);
            let cell = match column.show {
                SavedShow::Number => Cell::Number(number),
                SavedShow::Signed => Cell::Signed(number.cast_signed()),
                SavedShow::Text => Cell::Text(names.text(key::text(&bytes))),
            };
            (column.name.clone(), cell)
        });
        Cell::Saved {
            value,
            fields: fields.collect(),
        }
    }

    /// Formats the number and the named fields in one line.
    pub(super) fn text(&self, row: &Row, names: Shown<'_>) -> String {
        let (value, words) = row.saved(self.saved);
        let mut text = value.to_string();
        for (column, bytes) in self.values(words) {
            let number = key::number(&bytes);
            // Writing to a `String` cannot fail.
            let _ = match column.show {
                SavedShow::Number => write!(text, " {}={number}", column.name),
                SavedShow::Signed => write!(text, " {}={}", column.name, number.cast_signed()),
                SavedShow::Text => {
                    write!(text, " {}={}", column.name, names.text(key::text(&bytes)))
                }
            };
        }
        text
    }

    /// Returns each field with its bytes, which are zero if nothing was saved.
    fn values(&self, words: &[u64]) -> impl Iterator<Item = (&SavedColumn, Vec<u8>)> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut at = 0;
        self.fields.iter().map(move |column| {
            let from = bytes.get(at..).unwrap_or_default();
            at += column.size;
            (column, from[..from.len().min(column.size)].to_vec())
        })
    }
}

impl Table {
    /// Returns the tracked numbers that are columns.
    pub(super) fn tracked_columns(&self) -> impl Iterator<Item = &Tracked> {
        self.tracked.iter().filter(|tracked| !tracked.is_snapshot)
    }

    /// Returns the cause of the snapshot: the maximum over all keys (the first one if several are
    /// equal), or the latest change. Returns `None` if nothing was kept or the table has no
    /// `snapshot()`.
    pub fn taken<'a>(&'a self, rows: &'a [Row]) -> Option<Taken<'a>> {
        let tracked = self.tracked.iter().find(|tracked| tracked.is_snapshot)?;
        let taken = rows.iter().filter_map(|row| {
            let (time_ns, value) = row.saved_at(tracked.saved)?;
            Some(Taken {
                tracked,
                time_ns,
                value,
                row,
            })
        });
        match tracked.when {
            When::Greater => taken.max_by_key(|one| (one.value, Reverse(one.time_ns))),
            When::Other => taken.max_by_key(|one| one.time_ns),
        }
    }

    /// Returns the lines that the kernel prints after the rows if a snapshot was taken.
    pub fn taken_text(&self, taken: &Taken<'_>, names: &dyn NodeNames) -> String {
        let (handler, name) = (taken.tracked.handler(), &taken.tracked.name);
        let mut text = format!(
            "\nSnapshot taken (see above).  Details:\n\ttriggering value {{ {handler}(${name}) }}: \
             {:10}\ttriggered by event with key: ",
            taken.value
        );
        self.key_text(taken.row, Shown(names), &mut text);
        text.push('\n');
        text
    }

    /// Appends the tracked numbers like the kernel, one per line.
    pub(super) fn tracked_text(&self, row: &Row, names: Shown<'_>, out: &mut String) {
        for tracked in self.tracked_columns() {
            let (value, words) = row.saved(tracked.saved);
            // Writing to a `String` cannot fail.
            let _ = write!(out, "\n\t{}: {value:10}", tracked.label());
            for (column, bytes) in tracked.values(words) {
                let _ = match column.show {
                    SavedShow::Text => {
                        let text = names.text(key::text(&bytes));
                        write!(out, "  {}: {text:<32}", column.name)
                    }
                    SavedShow::Number | SavedShow::Signed => {
                        write!(out, "  {}: {:10}", column.name, key::number(&bytes))
                    }
                };
            }
        }
    }
}
