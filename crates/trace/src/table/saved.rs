//! What `onmax` and `onchange` keep of a row.

use std::cmp::Reverse;
use std::fmt::Write as _;

use super::cells::Cell;
use super::names::{NodeNames, Shown};
use super::{Row, Table, key};
use crate::program::When;

/// A number that is kept where it is the greatest or another one, with what was saved then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracked {
    /// The index of it in [`crate::program::Program::values`].
    pub saved: usize,
    /// The variable, without `$`.
    pub name: String,
    /// When it is kept.
    pub when: When,
    /// What was saved with it.
    pub fields: Vec<SavedColumn>,
    /// The events before it are kept (`snapshot()`), and it is no column of the rows.
    pub is_snapshot: bool,
}

/// What a `snapshot()` was taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken<'a> {
    /// The number that was kept.
    pub tracked: &'a Tracked,
    /// When it was, in nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The number.
    pub value: u64,
    /// The row of its key.
    pub row: &'a Row,
}

/// A field that was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedColumn {
    /// Its name.
    pub name: String,
    /// Bytes of it; a multiple of eight.
    pub size: usize,
    /// How it is shown.
    pub show: SavedShow,
}

/// How a field that was saved is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SavedShow {
    /// An unsigned number.
    Number,
    /// A number that can be below zero; the kernel shows those as great ones.
    Signed,
    /// Text up to its first NUL.
    Text,
}

impl Tracked {
    /// `max($lat)`.
    pub(super) fn title(&self) -> String {
        format!("{}(${})", self.word(), self.name)
    }

    /// The kernel's word for it.
    const fn word(&self) -> &'static str {
        match self.when {
            When::Greater => "max",
            When::Other => "changed",
        }
    }

    /// The kernel's word for when it is kept.
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

    /// In one line: the number, and the fields with their names.
    pub(super) fn text(&self, row: &Row, names: Shown<'_>) -> String {
        let (value, words) = row.saved(self.saved);
        let mut text = value.to_string();
        for (column, bytes) in self.values(words) {
            let number = key::number(&bytes);
            // Writing to a string does not fail.
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

    /// Each field with its bytes, which are zero where nothing was saved.
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
    /// Those that are columns of the rows.
    pub(super) fn tracked_columns(&self) -> impl Iterator<Item = &Tracked> {
        self.tracked.iter().filter(|tracked| !tracked.is_snapshot)
    }

    /// What the snapshot of these rows is of: the greatest number of all keys, of equal ones the first,
    /// or the last that was another one. `None`: there is none, or the table has no `snapshot()`.
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

    /// The lines that the kernel has behind the rows of a table whose snapshot was taken.
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

    /// As the kernel prints them, on a line for each.
    pub(super) fn tracked_text(&self, row: &Row, names: Shown<'_>, out: &mut String) {
        for tracked in self.tracked_columns() {
            let (value, words) = row.saved(tracked.saved);
            // Writing to a string does not fail.
            let _ = write!(out, "\n\t{}: {value:10}", tracked.word());
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
