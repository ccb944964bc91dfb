//! A table as a file of Parquet.

use std::fs::File;
use std::io;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::place::Rows;

/// Encoded bytes in memory at which a row group is written.
const GROUP_BYTES: usize = 16 << 20;

struct Table(ArrowWriter<File>);

/// Begins a file.
pub(super) fn begin(file: File, schema: SchemaRef) -> io::Result<Box<dyn Rows>> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    // The types of Parquet alone: with Arrow's schema beside them readers ask for string views and
    // others of its types that some do not have.
    let options = ArrowWriterOptions::new()
        .with_properties(properties)
        .with_skip_arrow_metadata(true);
    let writer = ArrowWriter::try_new_with_options(file, schema, options)?;
    Ok(Box::new(Table(writer)))
}

impl Rows for Table {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        self.0.write(batch)?;
        if self.0.in_progress_size() >= GROUP_BYTES {
            self.0.flush()?;
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        self.0.close()?;
        Ok(())
    }
}
