//! Converts rows to typed cells, from which other formats are generated.

use std::net::IpAddr;

use super::names::Shown;
use super::range::Range;
use super::{
    Figure, KeyColumn, KeyShow, NodeNames, Row, Snapshot, Table, Tracked, ValueShow, key, share,
};

/// A value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    Number(u64),
    /// A signed number.
    Signed(i64),
    /// A number with a name: an address, a thread, a system call, flags.
    Named {
        number: u64,
        /// The escaped name.
        name: Option<String>,
    },
    /// The numbers of a bucket.
    Range {
        first: u64,
        last: u64,
    },
    /// A share of the sum of all rows, in hundredths of a percent; `None` if the sum overflowed.
    Percent(Option<u32>),
    /// Escaped text.
    Text(String),
    /// An IP address; `None` for a packet without one.
    Address(Option<IpAddr>),
    /// The number that `onmax` or `onchange` tracks, and the fields saved with it.
    Saved {
        value: u64,
        /// Names and values of the saved fields.
        fields: Vec<(String, Cell)>,
    },
    /// A stack, innermost frame first; `None` if the kernel could not capture it.
    Stack(Option<Vec<Frame>>),
}

/// An address of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub address: u64,
    /// `name+0x10/0x20 [module]`, escaped, or the address in hex if no function contains it.
    pub symbol: String,
}

impl Table {
    /// Returns the column titles for [`Self::cells`]: the key, the hits (unless they are hidden),
    /// and the values. Titles are unique: a share is titled `hitcount (%)`, and a repeated name
    /// gets a number.
    pub fn titles(&self) -> Vec<String> {
        let keys = self.keys.iter().map(|column| column.name.clone());
        let hits = (!self.nohitcount).then(|| "hitcount".to_owned());
        let values = self.values.iter().map(|column| match column.show {
            ValueShow::Percent => format!("{} (%)", column.name),
            _ => column.name.clone(),
        });
        let tracked = self.tracked_columns().map(Tracked::title);
        let mut titles: Vec<String> = Vec::new();
        for name in keys.chain(hits).chain(values).chain(tracked) {
            let mut title = name.clone();
            let mut number = 2;
            while titles.contains(&title) {
                title = format!("{name} {number}");
                number += 1;
            }
            titles.push(title);
        }
        titles
    }

    /// Returns the cells of each row in the table's order. Each row has one cell per title in
    /// [`Self::titles`].
    pub fn cells(&self, now: &Snapshot<'_>, names: &dyn NodeNames) -> Vec<Vec<Cell>> {
        let whole = share::wholes(self, now.rows);
        let sorted = self.sorted(now.rows, names).into_iter();
        let cells = sorted.map(|row| self.row_cells(row, &whole, Shown(names)));
        cells.collect()
    }

    fn row_cells(&self, row: &Row, whole: &[u64], names: Shown<'_>) -> Vec<Cell> {
        let keys = self.keys.iter().enumerate();
        let mut cells: Vec<Cell> = keys
            .map(|(index, column)| part(column, self.part(row, index), names))
            .collect();
        if !self.nohitcount {
            cells.push(Cell::Number(row.figure(Figure::Hits)));
        }
        for (column, whole) in self.values.iter().zip(whole) {
            let number = row.figure(column.figure);
            cells.push(match column.show {
                ValueShow::Signed => Cell::Signed(number.cast_signed()),
                ValueShow::Percent => Cell::Percent(share::hundredths(number, *whole)),
                ValueShow::Number | ValueShow::Hex | ValueShow::Graph => Cell::Number(number),
            });
        }
        cells.extend(
            self.tracked_columns()
                .map(|tracked| tracked.cell(row, names)),
        );
        cells
    }
}

fn part(column: &KeyColumn, bytes: &[u8], names: Shown<'_>) -> Cell {
    let number = key::number(bytes);
    let named = |name| Cell::Named { number, name };
    match &column.show {
        // The kernel prints the number unsigned, but JSON output keeps the sign.
        KeyShow::Number if column.signed => Cell::Signed(number.cast_signed()),
        KeyShow::Number | KeyShow::Hex | KeyShow::Microseconds => Cell::Number(number),
        KeyShow::Signed => Cell::Signed(number.cast_signed()),
        KeyShow::Symbol => named(names.known_symbol(number, false)),
        KeyShow::SymbolOffset => named(names.known_symbol(number, true)),
        KeyShow::ExecName => named(names.known_thread(number)),
        KeyShow::Syscall => named(names.syscall(number)),
        KeyShow::Flags(table) => {
            let flags = table.render_value(number);
            named(Some(names.text(flags.as_bytes())))
        }
        KeyShow::Log2 | KeyShow::Buckets(_) => match Range::of(&column.show, number) {
            Some(Range { first, last, .. }) => Cell::Range { first, last },
            None => Cell::Number(number),
        },
        KeyShow::Owner(identity) => named(Some(names.owner(*identity, number))),
        KeyShow::Address => Cell::Address(key::address(bytes)),
        KeyShow::Text => Cell::Text(names.text(key::text(bytes))),
        KeyShow::Stack => Cell::Stack(names.0.stack(number).map(|frames| {
            let frame = |address: &u64| Frame {
                address: *address,
                symbol: names.symbol(*address, true),
            };
            frames.iter().map(frame).collect()
        })),
    }
}
