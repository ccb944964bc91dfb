//! Merges the tables of several events into a shared one.

use super::{KeyShow, SortColumn, SortKey, Table};
use crate::program::{Part, Program};

/// The reason why a table cannot be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The differing clause of the trigger.
    pub clause: Clause,
    pub why: &'static str,
}

/// A clause in which two triggers can differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clause {
    /// Keys or values, which determine the layout of a row.
    Rows,
    /// `sort=`.
    Sort,
    /// `size=`.
    Size,
}

impl Table {
    /// Extends this table to count another event. `program` is the program of this table; `other`
    /// and `table` belong to the other event.
    ///
    /// # Errors
    ///
    /// Returns the difference in the layout, the order or the number of rows.
    pub fn join(
        &mut self,
        program: &Program,
        other: &Program,
        table: Self,
    ) -> Result<(), Mismatch> {
        let rows = |why| Mismatch {
            clause: Clause::Rows,
            why,
        };
        if self.keys.len() != table.keys.len() {
            return Err(rows("the number of keys differs"));
        }
        let sizes = |program: &Program| program.keys.iter().map(Part::size).collect::<Vec<_>>();
        if sizes(program) != sizes(other) {
            return Err(rows("the size of a key differs"));
        }
        let aggregates = |program: &Program| {
            let all = program.values.iter().map(|kept| kept.what);
            all.collect::<Vec<_>>()
        };
        if self.values != table.values
            || self.nohitcount != table.nohitcount
            || aggregates(program) != aggregates(other)
        {
            return Err(rows("the values differ"));
        }
        for (own, key) in self.keys.iter_mut().zip(table.keys) {
            if own.name != key.name {
                return Err(rows("the names of the keys differ"));
            }
            match (&mut own.show, key.show) {
                // Names of the events that the table counts.
                (KeyShow::Flags(names), KeyShow::Flags(more)) if own.name == "event" => {
                    for entry in more.entries {
                        if !names.entries.contains(&entry) {
                            names.entries.push(entry);
                        }
                    }
                }
                (own, other) if *own == other => {}
                _ => return Err(rows("the format of a key differs")),
            }
        }
        if order(&self.sort) != order(&table.sort) {
            return Err(Mismatch {
                clause: Clause::Sort,
                why: "the sort orders differ",
            });
        }
        if self.size != table.size {
            return Err(Mismatch {
                clause: Clause::Size,
                why: "the sizes differ",
            });
        }
        if self.info != table.info && !self.more_info.contains(&table.info) {
            self.more_info.push(table.info);
        }
        Ok(())
    }
}

/// Returns the order of the rows, or the default order.
fn order(sort: &[SortKey]) -> &[SortKey] {
    const DEFAULT: &[SortKey] = &[SortKey {
        column: SortColumn::Hits,
        descending: false,
    }];
    if sort.is_empty() { DEFAULT } else { sort }
}
