//! Writes a table as a Parquet file.
//!
//! Parquet's Arrow writer supports every Arrow type and would add a megabyte to the binary.
//! Recordings use few types, so their columns are written here with the low-level column writers.
//!
//! Times are in microseconds. DuckDB maps nanoseconds to another type, whose values cannot be
//! subtracted, and Spark rejects nanoseconds.

mod levels;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types as arrow;
use arrow_schema::{DataType, Field, Fields, Schema};
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::data_type::{self as typed, ByteArray};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use super::rows::Rows;
use levels::Leaf;

struct Table {
    file: SerializedFileWriter<File>,
    /// Buffered rows of the next row group.
    rows: Vec<RecordBatch>,
    bytes: usize,
    /// Size of the buffered rows in bytes at which a row group is written.
    group_bytes: usize,
}

/// Starts a file. A row group is written when its buffered rows reach `group_bytes`.
pub(super) fn begin(file: File, schema: &Schema, group_bytes: usize) -> io::Result<Box<dyn Rows>> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .build();
    let columns = Type::group_type_builder("schema").with_fields(types(schema.fields())?);
    let columns = Arc::new(columns.build()?);
    Ok(Box::new(Table {
        file: SerializedFileWriter::new(file, columns, Arc::new(properties))?,
        rows: Vec::new(),
        bytes: 0,
        group_bytes,
    }))
}

impl Rows for Table {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        self.bytes += batch.get_array_memory_size();
        self.rows.push(batch.clone());
        if self.bytes >= self.group_bytes {
            self.write_group()?;
        }
        Ok(())
    }

    fn close(mut self: Box<Self>) -> io::Result<()> {
        self.write_group()?;
        self.file.close()?;
        Ok(())
    }
}

impl Table {
    /// Writes the buffered rows as a row group, leaf column by leaf column.
    fn write_group(&mut self) -> Result<()> {
        self.bytes = 0;
        let rows = std::mem::take(&mut self.rows);
        let Some(first) = rows.first() else {
            return Ok(());
        };
        let mut group = self.file.next_row_group()?;
        for (at, field) in first.schema_ref().fields().iter().enumerate() {
            let of_batches = rows
                .iter()
                .map(|rows| levels::leaves(field, rows.column(at)));
            let mut of_batches: Vec<_> = of_batches.map(Vec::into_iter).collect();
            // All batches have the same number of leaves, because a file has one schema.
            loop {
                let leaf: Vec<Leaf> = of_batches.iter_mut().filter_map(Iterator::next).collect();
                if leaf.is_empty() {
                    break;
                }
                let column = group.next_column()?;
                let mut column = column.ok_or_else(|| unknown(field.data_type()))?;
                leaf.iter().try_for_each(|part| write(part, &mut column))?;
                column.close()?;
            }
        }
        group.close()?;
        Ok(())
    }
}

fn types(fields: &Fields) -> Result<Vec<TypePtr>> {
    fields.iter().map(|field| type_of(field)).collect()
}

/// Returns the Parquet type of a column. Recordings contain only these Arrow types.
fn type_of(field: &Field) -> Result<TypePtr> {
    let name = field.name();
    let repetition = match field.is_nullable() {
        true => Repetition::OPTIONAL,
        false => Repetition::REQUIRED,
    };
    let group = |fields| Type::group_type_builder(name).with_fields(fields);
    let leaf = |kind, logical| {
        let leaf = Type::primitive_type_builder(name, kind).with_logical_type(logical);
        leaf.with_repetition(repetition).build()
    };
    let unsigned = |bits| Some(LogicalType::integer(bits, false));
    let built = match field.data_type() {
        DataType::Boolean => leaf(Physical::BOOLEAN, None),
        DataType::UInt8 => leaf(Physical::INT32, unsigned(8)),
        DataType::UInt32 => leaf(Physical::INT32, unsigned(32)),
        DataType::UInt64 => leaf(Physical::INT64, unsigned(64)),
        DataType::Int32 => leaf(Physical::INT32, None),
        DataType::Float64 => leaf(Physical::DOUBLE, None),
        DataType::Utf8 | DataType::Utf8View => {
            leaf(Physical::BYTE_ARRAY, Some(LogicalType::String))
        }
        DataType::Binary => leaf(Physical::BYTE_ARRAY, None),
        DataType::Timestamp(..) => {
            let kind = LogicalType::timestamp(true, TimeUnit::MICROS);
            leaf(Physical::INT64, Some(kind))
        }
        DataType::List(item) => {
            let list = Type::group_type_builder("list").with_repetition(Repetition::REPEATED);
            let list = list.with_fields(vec![type_of(item)?]).build()?;
            let list = group(vec![Arc::new(list)]).with_logical_type(Some(LogicalType::List));
            list.with_repetition(repetition).build()
        }
        DataType::Struct(fields) => group(types(fields)?).with_repetition(repetition).build(),
        other => Err(unknown(other)),
    };
    built.map(Arc::new)
}

/// Appends values to a leaf column.
fn write(leaf: &Leaf, to: &mut SerializedColumnWriter<'_>) -> Result<()> {
    /// Converts the values of an array to a Parquet type and writes them.
    macro_rules! put {
        ($array:expr, $kind:ty, $convert:expr) => {{
            let array = $array;
            let values = leaf.places.iter().map(|place| array.value(*place));
            let values: Vec<_> = values.map($convert).collect();
            let levels = (Some(&*leaf.defined), Some(&*leaf.repeated));
            to.typed::<$kind>().write_batch(&values, levels.0, levels.1)
        }};
    }
    let from = leaf.array;
    let written = match from.data_type() {
        DataType::Boolean => put!(from.as_boolean(), typed::BoolType, |value| value),
        DataType::UInt8 => {
            put!(
                from.as_primitive::<arrow::UInt8Type>(),
                typed::Int32Type,
                i32::from
            )
        }
        DataType::UInt32 => {
            put!(
                from.as_primitive::<arrow::UInt32Type>(),
                typed::Int32Type,
                u32::cast_signed
            )
        }
        DataType::UInt64 => {
            put!(
                from.as_primitive::<arrow::UInt64Type>(),
                typed::Int64Type,
                u64::cast_signed
            )
        }
        DataType::Int32 => {
            put!(
                from.as_primitive::<arrow::Int32Type>(),
                typed::Int32Type,
                |value| value
            )
        }
        DataType::Float64 => {
            put!(
                from.as_primitive::<arrow::Float64Type>(),
                typed::DoubleType,
                |value| value
            )
        }
        DataType::Utf8 => put!(
            from.as_string::<i32>(),
            typed::ByteArrayType,
            ByteArray::from
        ),
        DataType::Utf8View => put!(from.as_string_view(), typed::ByteArrayType, ByteArray::from),
        DataType::Binary => put!(
            from.as_binary::<i32>(),
            typed::ByteArrayType,
            ByteArray::from
        ),
        DataType::Timestamp(..) => {
            let times = from.as_primitive::<arrow::TimestampNanosecondType>();
            put!(times, typed::Int64Type, |ns| ns.div_euclid(1000))
        }
        other => return Err(unknown(other)),
    };
    written.map(drop)
}

fn unknown(kind: &DataType) -> ParquetError {
    ParquetError::NYI(format!("a column of the type {kind}"))
}
