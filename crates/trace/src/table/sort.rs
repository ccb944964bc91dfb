//! Sorts rows.

use std::cmp::Ordering;

use super::{Figure, KeyColumn, KeyShow, NodeNames, Row, SortColumn, SortKey, Table};
use super::{ValueShow, key};

/// The value by which a row is compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank<'a> {
    /// A rank that is equal for all rows.
    None,
    /// A number, which is shifted by 2^63 if it is signed.
    Number(u64),
    Bytes(&'a [u8]),
    Name(String),
}

impl Table {
    /// Returns the rows in the order of the table. Key numbers are compared as signed or unsigned,
    /// depending on their field; text is compared by its bytes, and owners by name. Values are
    /// compared as unsigned numbers, except for noctule's own signed values. Stacks compare equal.
    /// The kernel does not define the order of equal rows; here their keys determine it.
    pub fn sorted<'a>(&self, rows: &'a [Row], names: &dyn NodeNames) -> Vec<&'a Row> {
        const HITS: &[SortKey] = &[SortKey {
            column: SortColumn::Hits,
            descending: false,
        }];
        let by = if self.sort.is_empty() {
            HITS
        } else {
            &self.sort
        };
        self.sorted_by(rows, by, names)
    }

    /// Returns the rows in another order.
    pub(super) fn sorted_by<'a>(
        &self,
        rows: &'a [Row],
        by: &[SortKey],
        names: &dyn NodeNames,
    ) -> Vec<&'a Row> {
        let ranked = rows.iter().map(|row| {
            let ranks = by.iter().map(|sort| self.rank(row, sort.column, names));
            (ranks.collect::<Vec<_>>(), row)
        });
        let mut ranked: Vec<_> = ranked.collect();
        ranked.sort_by(|(left, left_row), (right, right_row)| {
            let mut order = Ordering::Equal;
            for ((left, right), sort) in left.iter().zip(right).zip(by) {
                let one = left.cmp(right);
                order = order.then(if sort.descending { one.reverse() } else { one });
            }
            order.then_with(|| self.cmp_keys(left_row, right_row, names))
        });
        ranked.into_iter().map(|(_, row)| row).collect()
    }

    fn cmp_keys(&self, left: &Row, right: &Row, names: &dyn NodeNames) -> Ordering {
        let parts = 0..self.keys.len();
        let ranks = |row| {
            parts
                .clone()
                .map(move |index| self.rank(row, SortColumn::Key(index), names))
        };
        // Stacks have no rank, so their ids are compared last.
        ranks(left)
            .cmp(ranks(right))
            .then_with(|| left.key.cmp(&right.key))
    }

    fn rank<'a>(&self, row: &'a Row, column: SortColumn, names: &dyn NodeNames) -> Rank<'a> {
        match column {
            SortColumn::Hits => Rank::Number(row.figure(Figure::Hits)),
            SortColumn::Value(index) => match self.values.get(index) {
                None => Rank::None,
                Some(value) => {
                    number_rank(row.figure(value.figure), value.show == ValueShow::Signed)
                }
            },
            SortColumn::Key(index) => match self.keys.get(index) {
                None => Rank::None,
                Some(column) if column.show == KeyShow::Stack => Rank::None,
                Some(KeyColumn {
                    show: KeyShow::Owner(identity),
                    ..
                }) => Rank::Name(names.owner(*identity, key::number(self.part(row, index)))),
                Some(column) if column.is_text() => Rank::Bytes(key::text(self.part(row, index))),
                Some(column) if column.show == KeyShow::Address => {
                    Rank::Bytes(self.part(row, index))
                }
                Some(column) => number_rank(key::number(self.part(row, index)), column.signed),
            },
        }
    }
}

fn number_rank(number: u64, is_signed: bool) -> Rank<'static> {
    Rank::Number(if is_signed {
        number ^ (1 << 63)
    } else {
        number
    })
}
