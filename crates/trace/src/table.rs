//! The table of a histogram: its columns, its rows, and the forms in which it is shown.
//!
//! A program counts into rows, one for each key and CPU. [`Row::merge`] makes one row of those of all
//! CPUs. What the bytes of a key and the numbers of a row mean stands in the columns of [`Table`],
//! which are plain data.

mod cells;
mod draw;
mod graph;
mod join;
mod kernel;
mod key;
mod names;
mod owner;
mod range;
mod row;
mod saved;
mod share;
mod sort;
#[cfg(test)]
mod tests;

use crate::identity::Identity;
use crate::print::FieldTable;

pub use cells::{Cell, Frame};
pub use draw::Area;
pub use join::{Clause, Mismatch};
pub use names::NodeNames;
pub use row::{Merged, Row};
pub use saved::{SavedColumn, SavedShow, Taken, Tracked};

/// The columns of a histogram, and how it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The trigger as the kernel repeats it behind `# trigger info: `, without the final ` [active]`.
    pub info: String,
    /// The same of other events that count into it, where it differs.
    pub more_info: Vec<String>,
    /// The parts of the key, in the order of the program.
    pub keys: Vec<KeyColumn>,
    /// The values behind the count of hits, which is not one of them.
    pub values: Vec<ValueColumn>,
    /// What is kept by `onmax` and `onchange`, shown behind the values.
    pub tracked: Vec<Tracked>,
    /// The order of the rows; without any they are sorted by hits, ascending.
    pub sort: Vec<SortKey>,
    /// Most rows that the table can have.
    pub size: u32,
    /// The count of hits is not shown.
    pub nohitcount: bool,
}

/// A part of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// The name as the kernel prints it: `call_site`, `common_pid`, `common_stacktrace`.
    pub name: String,
    /// How it is shown.
    pub show: KeyShow,
    /// Rows are sorted by it as by a signed number, which the kernel does for signed fields. The text
    /// does not depend on it.
    pub signed: bool,
    /// Bytes in the key: [`crate::program::Part::size`].
    pub size: usize,
}

/// How a part of the key is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyShow {
    /// An unsigned number, also where the field is signed: the kernel prints -1 as
    /// 18446744073709551615.
    Number,
    /// A signed number (ours).
    Signed,
    /// `.hex`.
    Hex,
    /// `.sym`.
    Symbol,
    /// `.sym-offset`.
    SymbolOffset,
    /// `.execname`: a thread's id, with its name.
    ExecName,
    /// `.syscall`.
    Syscall,
    /// `.log2`: the program has taken the logarithm.
    Log2,
    /// `.buckets=N`: the program has rounded down to a multiple of N.
    Buckets(u64),
    /// `.usecs`: microseconds, by which the program has divided.
    Microseconds,
    /// Text up to its first NUL.
    Text,
    /// An IP address of 16 bytes, `-` where there is none (ours).
    Address,
    /// The number of a stack, below zero where there is none.
    Stack,
    /// `.flags`: the names that the event's print format has for the number (ours).
    Flags(FieldTable),
    /// The owner of the cgroup with this id (ours).
    Owner(Identity),
}

/// A value of the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueColumn {
    /// The name as the kernel prints it: `bytes_req`, `hitcount`.
    pub name: String,
    /// Which number of the row it is.
    pub figure: Figure,
    /// How it is shown.
    pub show: ValueShow,
}

/// A number of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Figure {
    /// How many hits there were.
    Hits,
    /// What the program keeps at this index of [`crate::program::Program::values`]: a sum, the least or
    /// the greatest number.
    Kept(usize),
    /// The sum at this index, divided by the hits; rounded towards zero.
    Average {
        /// Index of the sum.
        kept: usize,
        /// The sum is a signed number.
        signed: bool,
    },
    /// A percentile from the buckets at this index.
    Percentile {
        /// Index of the buckets.
        kept: usize,
        /// 500 is the median.
        thousandths: u16,
        /// Of signed numbers; the buckets of those below zero are wide, and the result is -1 for all of them.
        signed: bool,
    },
}

/// How a value is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueShow {
    /// An unsigned number, as the kernel shows all sums.
    Number,
    /// A signed number (ours).
    Signed,
    /// `.hex`.
    Hex,
    /// `.percent`: the share of the sum of all rows.
    Percent,
    /// `.graph`: a bar, the longest for the greatest of all rows.
    Graph,
}

/// An order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SortKey {
    /// By what.
    pub column: SortColumn,
    /// The greatest first.
    pub descending: bool,
}

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SortColumn {
    /// A part of the key: an index of [`Table::keys`].
    Key(usize),
    /// A value: an index of [`Table::values`].
    Value(usize),
    /// The count of hits.
    Hits,
}

/// What a table holds at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Snapshot<'a> {
    /// The rows, in any order.
    pub rows: &'a [Row],
    /// Hits that found no room for their row.
    pub dropped: u64,
    /// Hits for which the kernel did not run the program, whether or not the filter would have held.
    pub skipped: u64,
    /// The part of the time in which a counter of the processor counted the event; `None`: all of it.
    pub counted_part: Option<f64>,
    /// The table does not count at the moment.
    pub paused: bool,
}

impl Snapshot<'_> {
    /// The hits of all rows; those that were dropped are not among them.
    pub fn hits(&self) -> u64 {
        let hits = self.rows.iter().map(|row| row.hits);
        hits.fold(0, u64::wrapping_add)
    }
}
