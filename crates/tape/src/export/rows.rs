//! The rows of one file.

use std::io;

use arrow_array::RecordBatch;

/// A file that accepts record batches of one schema.
pub(super) trait Rows {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()>;
    fn close(self: Box<Self>) -> io::Result<()>;
}
