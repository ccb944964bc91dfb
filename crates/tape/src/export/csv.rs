//! Writes a table as CSV. Lists are written as JSON, bytes as hexadecimal digits, and times in
//! microseconds. Text that a spreadsheet would interpret as a formula has an apostrophe in front.

use std::fs::File;
use std::io;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Float64Type, Int32Type, TimestampNanosecondType, UInt8Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema};
use chrono::{DateTime, SecondsFormat};
use serde_json::{Map, Value};

use super::rows::Rows;

struct Table(csv::Writer<File>);

/// Starts a file with a header of column names.
pub(super) fn begin(file: File, schema: &Schema) -> io::Result<Box<dyn Rows>> {
    let mut writer = csv::Writer::from_writer(file);
    writer.write_record(schema.fields().iter().map(|field| field.name()))?;
    Ok(Box::new(Table(writer)))
}

impl Rows for Table {
    fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        for row in 0..batch.num_rows() {
            for column in batch.columns() {
                match value(column, row) {
                    Value::Null => self.0.write_field("")?,
                    Value::String(text) => self.0.write_field(without_formula(text))?,
                    other => self.0.write_field(other.to_string())?,
                }
            }
            self.0.write_record(None::<&[u8]>)?;
        }
        Ok(())
    }

    fn close(mut self: Box<Self>) -> io::Result<()> {
        self.0.flush()
    }
}

/// Returns the text with an apostrophe in front if a spreadsheet would interpret it as a formula.
/// Text with a leading apostrophe also gets one, so that readers can undo this.
fn without_formula(text: String) -> String {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r', '\'']) {
        true => format!("'{text}"),
        false => text,
    }
}

/// Returns the value of a cell. Supports the types that occur in the tables.
fn value(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(row).into(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).into(),
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::Utf8View => array.as_string_view().value(row).into(),
        DataType::Binary => {
            let bytes = array.as_binary::<i32>().value(row).iter();
            bytes.map(|byte| format!("{byte:02x}")).collect()
        }
        DataType::Timestamp(..) => {
            let time = array.as_primitive::<TimestampNanosecondType>().value(row);
            let time = DateTime::from_timestamp_nanos(time);
            time.to_rfc3339_opts(SecondsFormat::Micros, true).into()
        }
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            (0..items.len()).map(|item| value(&items, item)).collect()
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter();
            let pairs = fields.iter().zip(columns);
            let pairs = pairs.map(|(field, column)| (field.name().clone(), value(column, row)));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
        other => format!("({other})").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_a_spreadsheet_formula() {
        let cases = [
            ("=1+1", "'=1+1"),
            ("-bash", "'-bash"),
            ("@sum", "'@sum"),
            ("\t=1", "'\t=1"),
            ("'quoted'", "''quoted'"),
            ("/usr/bin/a=b", "/usr/bin/a=b"),
            ("", ""),
        ];
        for (text, written) in cases {
            assert_eq!(without_formula(text.to_owned()), written);
        }
    }
}
