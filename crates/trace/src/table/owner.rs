//! Merges rows whose cgroups have the same owner.

use std::collections::HashMap;

use super::{KeyShow, Row, Table, key};
use crate::identity::Identity;
use crate::program::Aggregate;

impl Table {
    /// Merges rows whose keys differ only in cgroups of the same owner. `first` returns the
    /// representative cgroup of an owner; `kept` lists the program's aggregates.
    ///
    /// The merge is exact: the sums, extremes and buckets of the merged row equal the values over
    /// all hits.
    pub fn by_owner(
        &self,
        rows: Vec<Row>,
        kept: &[Aggregate],
        first: &mut dyn FnMut(Identity, u64) -> u64,
    ) -> Vec<Row> {
        let mut places: Vec<(usize, Identity)> = Vec::new();
        let mut at = 0;
        for column in &self.keys {
            if let KeyShow::Owner(identity) = column.show {
                places.push((at, identity));
            }
            at += column.size;
        }
        if places.is_empty() {
            return rows;
        }
        let mut merged: HashMap<Vec<u8>, Row> = HashMap::new();
        for mut row in rows {
            for (at, identity) in &places {
                if let Some(part) = row.key.get_mut(*at..at + 8) {
                    let id = first(*identity, key::number(part));
                    part.copy_from_slice(&id.to_ne_bytes());
                }
            }
            match merged.get_mut(&row.key) {
                Some(other) => other.add(&row, kept),
                None => {
                    merged.insert(row.key.clone(), row);
                }
            }
        }
        merged.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{KeyColumn, Merged};

    #[test]
    fn rows_of_one_owner_are_merged() {
        let column = |show| KeyColumn {
            name: String::new(),
            show,
            signed: false,
            size: 8,
        };
        let table = Table {
            keys: vec![
                column(KeyShow::Number),
                column(KeyShow::Owner(Identity::Container)),
            ],
            ..Table::default()
        };
        let row = |number: u64, group: u64, hits: u64, least: i64| Row {
            key: [number.to_ne_bytes(), group.to_ne_bytes()].concat(),
            hits,
            kept: vec![
                Merged::Number(hits * 10),
                Merged::Number(least.cast_unsigned()),
                Merged::Number(hits),
                Merged::Buckets(vec![hits, 1]),
            ],
        };
        let kept = [
            Aggregate::Sum,
            Aggregate::Minimum { signed: true },
            Aggregate::Maximum { signed: false },
            Aggregate::Buckets,
        ];
        let rows = vec![row(1, 20, 3, -5), row(1, 21, 4, 2), row(2, 21, 1, 0)];
        let mut rows = table.by_owner(rows, &kept, &mut |_, id| id / 10 * 10);
        rows.sort_by_key(|row| row.hits);
        let [one, both] = rows.as_slice() else {
            panic!("{rows:?}");
        };
        assert_eq!((one.hits, one.key[8]), (1, 20));
        assert_eq!(both.hits, 7);
        let all = [
            Merged::Number(70),
            Merged::Number((-5_i64).cast_unsigned()),
            Merged::Number(4),
            Merged::Buckets(vec![7, 2]),
        ];
        assert_eq!(both.kept, all);
    }
}
