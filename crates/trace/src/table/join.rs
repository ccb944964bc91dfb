//! Tables of several events: one for all of them.

use super::{KeyShow, Table};
use crate::program::{Part, Program};

impl Table {
    /// Counts another event into this table: `program` is the one that made the table, `other` that of the
    /// event, with the table that it would have alone.
    ///
    /// # Errors
    ///
    /// What differs in the layout of the rows.
    pub fn join(
        &mut self,
        program: &Program,
        other: &Program,
        table: Self,
    ) -> Result<(), &'static str> {
        if self.keys.len() != table.keys.len() {
            return Err("the keys are not as many");
        }
        let sizes = |program: &Program| program.keys.iter().map(Part::size).collect::<Vec<_>>();
        if sizes(program) != sizes(other) {
            return Err("a key has another size");
        }
        let aggregates = |program: &Program| {
            let all = program.values.iter().map(|kept| kept.what);
            all.collect::<Vec<_>>()
        };
        if self.values != table.values
            || self.nohitcount != table.nohitcount
            || aggregates(program) != aggregates(other)
        {
            return Err("the values are not the same");
        }
        for (own, key) in self.keys.iter_mut().zip(table.keys) {
            if own.name != key.name {
                return Err("the keys have other names");
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
                _ => return Err("a key is shown in another way"),
            }
        }
        if self.info != table.info && !self.more_info.contains(&table.info) {
            self.more_info.push(table.info);
        }
        Ok(())
    }
}
