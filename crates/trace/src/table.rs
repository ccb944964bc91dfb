//! The table of a histogram: its columns, its rows and its output formats.
//!
//! A program counts into rows, one per key and CPU. [`Row::merge`] combines the rows of all CPUs.
//! The columns of [`Table`] are plain data that define the meaning of the bytes of a key and of the
//! numbers of a row.

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

/// The columns of a histogram and its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The trigger as the kernel prints it after `# trigger info: `, without the final ` [active]`.
    pub info: String,
    /// The triggers of other events that count into the table, if they differ from `info`.
    pub more_info: Vec<String>,
    /// The parts of the key, in the program's order.
    pub keys: Vec<KeyColumn>,
    /// The values, without the hit count.
    pub values: Vec<ValueColumn>,
    /// The numbers that `onmax` and `onchange` track, which are shown after the values.
    pub tracked: Vec<Tracked>,
    /// Sort keys. If empty, rows are sorted by hits, ascending.
    pub sort: Vec<SortKey>,
    /// Maximum number of rows.
    pub size: u32,
    /// Whether the hit count is hidden.
    pub nohitcount: bool,
}

/// A part of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// The kernel's name: `call_site`, `common_pid`, `common_stacktrace`.
    pub name: String,
    pub show: KeyShow,
    /// Whether rows are sorted by this part as a signed number, as the kernel does for signed
    /// fields. This does not affect how the number is printed.
    pub signed: bool,
    /// Size in the key in bytes: [`crate::program::Part::size`].
    pub size: usize,
}

/// How a part of the key is shown. Variants marked as extensions do not exist in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyShow {
    /// An unsigned number, even if the field is signed: the kernel prints -1 as
    /// 18446744073709551615.
    Number,
    /// A signed number (extension).
    Signed,
    /// `.hex`.
    Hex,
    /// `.sym`.
    Symbol,
    /// `.sym-offset`.
    SymbolOffset,
    /// `.execname`: a thread id with the thread's name.
    ExecName,
    /// `.syscall`.
    Syscall,
    /// `.log2`: the program has computed the logarithm.
    Log2,
    /// `.buckets=N`: the program has rounded down to a multiple of N.
    Buckets(u64),
    /// `.usecs`: the program has converted to microseconds.
    Microseconds,
    /// Text up to its first NUL.
    Text,
    /// An IP address in 16 bytes, or `-` for a missing one (extension).
    Address,
    /// The id of a stack; negative for a missing stack.
    Stack,
    /// `.flags`: the names from the event's print format (extension).
    Flags(FieldTable),
    /// The owner of the cgroup with this id (extension).
    Owner(Identity),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueColumn {
    /// The kernel's name: `bytes_req`, `hitcount`.
    pub name: String,
    pub figure: Figure,
    pub show: ValueShow,
}

/// A number that is derived from a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Figure {
    /// The hit count.
    Hits,
    /// The value at this index of [`crate::program::Program::values`]: a sum, minimum or maximum.
    Kept(usize),
    /// The sum at this index divided by the hits, rounded towards zero.
    Average {
        /// Index of the sum.
        kept: usize,
        signed: bool,
    },
    /// A percentile of the buckets at this index.
    Percentile {
        /// Index of the buckets.
        kept: usize,
        /// The percentile in thousandths; 500 is the median.
        thousandths: u16,
        /// Whether the numbers are signed. Buckets of negative numbers are wide, so the result is
        /// -1 for all negative numbers.
        signed: bool,
    },
}

/// How a value is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueShow {
    /// An unsigned number; the kernel shows all sums this way.
    Number,
    /// A signed number (extension).
    Signed,
    /// `.hex`.
    Hex,
    /// `.percent`: the share of the sum of all rows.
    Percent,
    /// `.graph`: a bar; the row with the maximum has the longest one.
    Graph,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SortKey {
    pub column: SortColumn,
    /// Whether the largest value comes first.
    pub descending: bool,
}

/// The column by which rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SortColumn {
    /// A part of the key, by its index in [`Table::keys`].
    Key(usize),
    /// A value, by its index in [`Table::values`].
    Value(usize),
    /// The hit count.
    Hits,
}

/// The content of a table at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Snapshot<'a> {
    /// The rows, in any order.
    pub rows: &'a [Row],
    /// Hits that were dropped because the table was full.
    pub dropped: u64,
    /// Hits for which the kernel skipped the program, counted before the filter.
    pub skipped: u64,
    /// The fraction of time in which a hardware counter counted the event. `None` means all of the
    /// time.
    pub counted_part: Option<f64>,
    /// Whether the table is paused.
    pub paused: bool,
}

impl Snapshot<'_> {
    /// Returns the hits of all rows, which exclude dropped hits.
    pub fn hits(&self) -> u64 {
        let hits = self.rows.iter().map(|row| row.hits);
        hits.fold(0, u64::wrapping_add)
    }
}
