//! Checks that Parquet's own reader returns what was written, for any division into row groups.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, UInt32Builder};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Float64Array, Int32Array, ListArray, StringArray,
    StructArray, TimestampNanosecondArray, UInt8Array, UInt32Array, UInt64Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::RowGroupMetaData;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

/// Writes rows in batches of `of` rows and reads them back. Returns the rows and the size of each
/// row group.
fn through(rows: &RecordBatch, of: usize, group_bytes: usize) -> (RecordBatch, Vec<i64>) {
    let file = tempfile::tempfile().expect("a file");
    let to = file.try_clone().expect("a file");
    let mut table = begin(to, rows.schema_ref(), group_bytes).expect("types that are known");
    for from in (0..rows.num_rows()).step_by(of) {
        let batch = rows.slice(from, of.min(rows.num_rows() - from));
        table.write(&batch).expect("room");
    }
    table.close().expect("room");
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("parquet");
    let groups = reader.metadata().row_groups().iter();
    let groups = groups.map(RowGroupMetaData::num_rows).collect();
    let reader = reader.with_batch_size(rows.num_rows() + 1);
    let mut batches = reader.build().expect("parquet");
    let read = batches.next().expect("rows").expect("rows");
    assert!(batches.next().is_none());
    (read, groups)
}

fn table(columns: Vec<(&str, bool, ArrayRef)>) -> RecordBatch {
    let fields = columns
        .iter()
        .map(|(name, nullable, column)| Field::new(*name, column.data_type().clone(), *nullable));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    let columns = columns.into_iter().map(|(_, _, column)| column).collect();
    RecordBatch::try_new(Arc::new(schema), columns).expect("columns of one length")
}

/// Seven rows with each type used in recordings, including nulls and the extreme values.
fn plain(times: ArrayRef) -> RecordBatch {
    let (yes, no) = (Some(true), Some(false));
    let boolean = [yes, None, no, None, None, yes, None];
    let u8s = [Some(0), None, Some(u8::MAX), Some(128), None, None, None];
    let u32s = [0, 1, u32::MAX, 1 << 31, 4, 5, 6];
    let u64s = [
        Some(0),
        None,
        Some(u64::MAX),
        Some(1 << 63),
        None,
        None,
        None,
    ];
    let i32s = [
        None,
        Some(i32::MIN),
        None,
        Some(i32::MAX),
        Some(-1),
        None,
        None,
    ];
    let f64s = [
        None,
        Some(f64::MIN),
        Some(f64::MAX),
        Some(1e-300),
        None,
        None,
        None,
    ];
    let words = [
        Some(""),
        None,
        Some("\u{e9}"),
        Some("b"),
        None,
        Some("c"),
        None,
    ];
    let bytes = [
        Some(&[0, 255][..]),
        None,
        Some(b""),
        None,
        None,
        Some(b"a"),
        None,
    ];
    table(vec![
        (
            "boolean",
            true,
            Arc::new(BooleanArray::from(boolean.to_vec())),
        ),
        ("u8", true, Arc::new(UInt8Array::from(u8s.to_vec()))),
        ("u32", false, Arc::new(UInt32Array::from(u32s.to_vec()))),
        ("u64", true, Arc::new(UInt64Array::from(u64s.to_vec()))),
        ("i32", true, Arc::new(Int32Array::from(i32s.to_vec()))),
        ("f64", true, Arc::new(Float64Array::from(f64s.to_vec()))),
        ("words", true, Arc::new(StringArray::from(words.to_vec()))),
        ("bytes", true, Arc::new(BinaryArray::from(bytes.to_vec()))),
        ("time", true, times),
    ])
}

/// The times of these rows, as recorded and as written.
fn times() -> [ArrayRef; 2] {
    let (greatest, least) = (Some(i64::MAX), Some(i64::MIN));
    let times = [Some(0), None, greatest, least, Some(-1), None, Some(1999)];
    let times = TimestampNanosecondArray::from(times.to_vec()).with_timezone("UTC");
    let written = times.unary::<_, arrow::TimestampMicrosecondType>(|ns| ns.div_euclid(1000));
    [Arc::new(times), Arc::new(written.with_timezone("UTC"))]
}

#[test]
fn every_type_round_trips_in_any_row_groups() {
    let [rows, expected] = times().map(plain);
    // The reported memory size of a slice includes its whole array.
    let size = rows.get_array_memory_size();
    let cases = [
        (7, 1, vec![7]),
        (2, usize::MAX, vec![7]),
        (2, 1, vec![2, 2, 2, 1]),
        (2, 2 * size, vec![4, 3]),
        (1, 3 * size, vec![3, 3, 1]),
        (1, 7 * size, vec![7]),
    ];
    for (of, group_bytes, groups) in cases {
        assert_eq!(
            through(&rows, of, group_bytes),
            (expected.clone(), groups),
            "{of}"
        );
    }
}

type Numbers = Option<Vec<Option<u32>>>;

fn lists(rows: &[Numbers]) -> ListArray {
    let mut lists = ListBuilder::new(UInt32Builder::new());
    for row in rows {
        match row {
            Some(items) => lists.append_value(items.clone()),
            None => lists.append_null(),
        }
    }
    lists.finish()
}

/// Wraps items in lists that are as long as the given rows, with null where a row is `None`.
fn around(items: ArrayRef, rows: &[Option<Vec<Numbers>>]) -> ArrayRef {
    let item = Arc::new(Field::new("item", items.data_type().clone(), true));
    let lengths = rows.iter().map(|row| row.as_ref().map_or(0, Vec::len));
    let nulls: NullBuffer = rows.iter().map(Option::is_some).collect();
    let offsets = OffsetBuffer::from_lengths(lengths);
    Arc::new(ListArray::new(item, offsets, items, Some(nulls)))
}

/// Columns with lists of lists, lists of structs with lists, and structs with lists.
fn nested(rows: &[Option<Vec<Numbers>>]) -> RecordBatch {
    let structs = |of: &[Numbers]| -> ArrayRef {
        let present: NullBuffer = of.iter().map(Option::is_some).collect();
        let size = of
            .iter()
            .map(|it| it.as_ref().map_or(0, |it| it.len() as u32));
        let size = UInt32Array::from_iter_values(size);
        let parts: Vec<ArrayRef> = vec![Arc::new(size), Arc::new(lists(of))];
        let fields = vec![
            Field::new("size", DataType::UInt32, false),
            Field::new("numbers", parts[1].data_type().clone(), true),
        ];
        Arc::new(StructArray::new(fields.into(), parts, Some(present)))
    };
    let flat: Vec<Numbers> = rows.iter().flatten().flatten().cloned().collect();
    let first = |row: &Option<Vec<Numbers>>| row.as_ref()?.first()?.clone();
    let first: Vec<Numbers> = rows.iter().map(first).collect();
    table(vec![
        ("lists", true, around(Arc::new(lists(&flat)), rows)),
        ("structs", true, around(structs(&flat), rows)),
        ("struct", true, structs(&first)),
    ])
}

proptest! {
    #[test]
    fn random_lists_round_trip_in_any_row_groups(
        rows in vec(option::of(vec(option::of(vec(option::of(any::<u32>()), 0..4)), 0..4)), 1..40),
        of in 1_usize..12,
        batches in 1_usize..4,
    ) {
        let rows = nested(&rows);
        let group_bytes = batches * rows.get_array_memory_size();
        let (read, groups) = through(&rows, of, group_bytes);
        prop_assert_eq!(groups.len(), rows.num_rows().div_ceil(of).div_ceil(batches));
        prop_assert_eq!(groups.iter().sum::<i64>(), rows.num_rows() as i64);
        prop_assert_eq!(read, rows);
    }
}
