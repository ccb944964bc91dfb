//! Tables whose text is known.

mod order;
mod rows;

use super::{Figure, KeyColumn, KeyShow, Merged, Row, Table, ValueColumn};
use super::{SortColumn, SortKey, ValueShow};

/// xorshift64*: random numbers that are the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number of any length.
    fn number(&mut self) -> u64 {
        let shift = self.next() >> 58;
        self.next() >> shift
    }
}

fn key(name: &str, show: KeyShow) -> KeyColumn {
    let size = if show == KeyShow::Text { 16 } else { 8 };
    KeyColumn {
        name: name.to_owned(),
        signed: show == KeyShow::Signed,
        show,
        size,
    }
}

fn value(name: &str, figure: Figure, show: ValueShow) -> ValueColumn {
    ValueColumn {
        name: name.to_owned(),
        figure,
        show,
    }
}

fn sort(column: SortColumn, descending: bool) -> SortKey {
    SortKey { column, descending }
}

/// A key of numbers, the hits, and numbers that were kept.
fn row(key: &[u64], hits: u64, kept: &[u64]) -> Row {
    Row {
        key: key.iter().flat_map(|number| number.to_ne_bytes()).collect(),
        hits,
        kept: kept.iter().copied().map(Merged::Number).collect(),
    }
}

/// Text of 16 bytes as a key.
fn text(text: &[u8]) -> Vec<u8> {
    let mut key = text.to_vec();
    key.resize(16, 0);
    key
}
