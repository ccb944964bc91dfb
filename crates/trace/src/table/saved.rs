//! What `onmax` and `onchange` keep of a row.

use std::fmt::Write as _;

use super::cells::Cell;
use super::names::Shown;
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
    /// As the kernel prints them, on a line for each.
    pub(super) fn tracked_text(&self, row: &Row, names: Shown<'_>, out: &mut String) {
        for tracked in &self.tracked {
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
