//! Tables of several events: one for all of them.

use super::{KeyShow, SortColumn, SortKey, Table};
use crate::program::{Part, Program};

/// Why a table cannot be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// What of the trigger it is.
    pub clause: Clause,
    /// In words.
    pub why: &'static str,
}

/// What of two triggers differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Clause {
    /// What a row is: keys or values.
    Rows,
    /// `sort=`.
    Sort,
    /// `size=`.
    Size,
}

impl Table {
    /// Counts another event into this table: `program` is the one that made the table, `other` that of the
    /// event, with the table that it would have alone.
    ///
    /// # Errors
    ///
    /// What differs in the layout of the rows, in their order, or in how many there can be.
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
            return Err(rows("the keys are not as many"));
        }
        let sizes = |program: &Program| program.keys.iter().map(Part::size).collect::<Vec<_>>();
        if sizes(program) != sizes(other) {
            return Err(rows("a key has another size"));
        }
        let aggregates = |program: &Program| {
            let all = program.values.iter().map(|kept| kept.what);
            all.collect::<Vec<_>>()
        };
        if self.values != table.values
            || self.nohitcount != table.nohitcount
            || aggregates(program) != aggregates(other)
        {
            return Err(rows("the values are not the same"));
        }
        for (own, key) in self.keys.iter_mut().zip(table.keys) {
            if own.name != key.name {
                return Err(rows("the keys have other names"));
            }
            match (&mut own.show, key.show) {
                // The names of the events themselves.
                (KeyShow::Flags(names), KeyShow::Flags(more)) if own.name == "event" => {
                    for entry in more.entries {
                        if !names.entries.contains(&entry) {
                            names.entries.push(entry);
                        }
                    }
                }
                (own, other) if *own == other => {}
                _ => return Err(rows("a key is shown in another way")),
            }
        }
        if order(&self.sort) != order(&table.sort) {
            return Err(Mismatch {
                clause: Clause::Sort,
                why: "the orders are not the same",
            });
        }
        if self.size != table.size {
            return Err(Mismatch {
                clause: Clause::Size,
                why: "the sizes are not the same",
            });
        }
        if self.info != table.info && !self.more_info.contains(&table.info) {
            self.more_info.push(table.info);
        }
        Ok(())
    }
}

/// The order of the rows, also where nothing was said about it.
fn order(sort: &[SortKey]) -> &[SortKey] {
    const USUAL: &[SortKey] = &[SortKey {
        column: SortColumn::Hits,
        descending: false,
    }];
    if sort.is_empty() { USUAL } else { sort }
}
