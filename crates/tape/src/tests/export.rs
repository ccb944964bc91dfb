//! Tests that exported Parquet and CSV files contain the recorded data.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray as _;
use arrow_array::types::{TimestampMicrosecondType, UInt64Type};
use arrow_array::{Array as _, RecordBatch};
use noctule_model::{Batch, Counter, Event, What};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{LogicalType, Type as Physical};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

use super::world::World;
use super::write;
use crate::export::{Exported, MOST_EVENTS, Partition, Sizes, TableFormat, export, export_with};
use crate::stretch::Stretch;
use crate::tape::Tape;

type Ticks = Vec<(Vec<Event>, Batch)>;

fn ticks(seed: u64, count: usize) -> Ticks {
    let mut world = World::new(seed);
    (0..count).map(|_| world.tick()).collect()
}

fn exported(tape: &Path, to: &Path, format: TableFormat, partition: Partition) -> Exported {
    let tape = Tape::open(tape).expect("a tape");
    let stretches: Vec<_> = tape.spans().into_iter().map(Stretch::whole).collect();
    let done = export(&tape, &stretches, to, format, partition).expect("room");
    assert_eq!(done.damages, []);
    done
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
    found.sort();
}

/// Reads the rows of a table from all its files.
fn rows(folder: &Path, table: &str) -> Vec<RecordBatch> {
    let mut found = Vec::new();
    files(&folder.join(table), &mut found);
    let read = |path: &PathBuf| {
        let file = File::open(path).expect("a file");
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("parquet");
        let batches = reader.build().expect("parquet");
        batches
            .map(|batch| batch.expect("rows"))
            .collect::<Vec<_>>()
    };
    found.iter().flat_map(read).collect()
}

fn numbers(batches: &[RecordBatch], column: &str) -> Vec<Option<u64>> {
    let values = |batch: &RecordBatch| {
        let column = batch.column_by_name(column).expect("a column");
        column
            .as_primitive::<UInt64Type>()
            .iter()
            .collect::<Vec<_>>()
    };
    batches.iter().flat_map(values).collect()
}

fn count(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

#[test]
fn parquet_has_the_figures_of_the_batches() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tape, out) = (folder.path().join("tape"), folder.path().join("out"));
    let all = ticks(7, 40);
    write(&tape, 11, &all);
    let done = exported(&tape, &out, TableFormat::Parquet, Partition::default());
    let node = rows(&out, "node");
    let idle: Vec<_> = all.iter().map(|tick| Some(tick.1.node.idle_ns)).collect();
    assert_eq!(numbers(&node, "idle_ns"), idle);
    let ended: usize = all.iter().map(|tick| tick.1.exited.len()).sum();
    assert!(ended > 0);
    assert_eq!(count(&rows(&out, "exited")), ended);
    let happened: usize = all.iter().map(|tick| tick.0.len()).sum();
    assert!(happened > 0);
    assert_eq!(count(&rows(&out, "events")), happened);
    // The last row of each process that was not removed equals the row in the last batch.
    let mut last = BTreeMap::new();
    for batch in rows(&out, "processes") {
        let cell = |name: &str| batch.column_by_name(name).expect("a column").clone();
        let (pids, starts) = (cell("pid"), cell("start_ns"));
        let (removed, cpu) = (cell("removed"), cell("cpu_ns"));
        for row in 0..batch.num_rows() {
            let pid = pids
                .as_primitive::<arrow_array::types::UInt32Type>()
                .value(row);
            let start = starts.as_primitive::<UInt64Type>().value(row);
            let cpu = cpu.as_primitive::<UInt64Type>();
            let value = (!cpu.is_null(row)).then(|| cpu.value(row));
            match removed.as_boolean().value(row) {
                true => drop(last.remove(&(pid, start))),
                false => drop(last.insert((pid, start), value)),
            }
        }
    }
    let batch = &all.last().expect("a batch").1;
    let measured = batch.measured.has(Counter::CpuTime);
    let expected = batch.processes.iter().map(|row| {
        let value = measured.then(|| row.counters[Counter::CpuTime]);
        ((row.id.pid, row.id.start_ns), value)
    });
    assert_eq!(last, expected.collect::<BTreeMap<_, _>>());
    // Each row has the time of its batch.
    let times: BTreeMap<u64, u64> = all
        .iter()
        .map(|it| (it.1.sequence, it.1.time_unix_ns))
        .collect();
    for batch in rows(&out, "groups") {
        let column = |name| batch.column_by_name(name).expect("a column").clone();
        let (time, tick) = (column("time"), column("tick"));
        for row in 0..batch.num_rows() {
            let time = time.as_primitive::<TimestampMicrosecondType>().value(row);
            let tick = tick.as_primitive::<UInt64Type>().value(row);
            assert_eq!(time.cast_unsigned(), times[&tick] / 1000);
        }
    }
    let mut found = Vec::new();
    files(&out, &mut found);
    assert_eq!(done.files, found.len() as u64);
}

/// A query fails if a table that it uses does not exist.
#[test]
fn empty_table_has_its_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let batch = Batch {
        sequence: 1,
        ..Batch::default()
    };
    write(&at("tape"), 300, &[(Vec::new(), batch)]);
    write(&at("full"), 300, &ticks(7, 40));
    let by_host = Partition {
        host: true,
        ..Partition::default()
    };
    for (tape, partition) in [
        ("tape", Partition::default()),
        ("full", Partition::default()),
        ("tape", by_host),
    ] {
        let out = at(&format!("{tape}-{}", partition.host));
        exported(&at(tape), &out, TableFormat::Parquet, partition);
    }
    let table_names = |folder: &Path| {
        let tables = fs::read_dir(folder).expect("a folder");
        let tables = tables.map(|it| it.expect("a folder").file_name());
        tables.collect::<BTreeSet<_>>()
    };
    let tables = table_names(&at("full-false"));
    assert_eq!(tables.len(), 18);
    for folder in ["tape-false", "tape-true"] {
        assert_eq!(table_names(&at(folder)), tables, "{folder}");
    }
    for table in tables.iter().filter_map(|name| name.to_str()) {
        let [empty, full] = ["tape-false", "full-false"].map(|tape| columns(&at(tape), table));
        assert_eq!(empty, full, "{table}");
    }
    let csv = at("csv");
    exported(&at("tape"), &csv, TableFormat::Csv, Partition::default());
    let events = fs::read_to_string(csv.join("events/part-0.csv")).expect("a file");
    assert!(events.starts_with("host,run,time,tick") || events.starts_with("host,run,tick"));
    assert_eq!(events.lines().count(), 1);
}

/// Returns the names and types of a table's columns, and how the table is written.
fn columns(folder: &Path, table: &str) -> String {
    let mut found = Vec::new();
    files(&folder.join(table), &mut found);
    let file = File::open(&found[0]).expect("a file");
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("parquet");
    format!("{:?}", reader.schema())
}

#[test]
fn csv_has_the_rows_and_columns_of_parquet() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tape, lake, out) = (
        folder.path().join("tape"),
        folder.path().join("lake"),
        folder.path().join("csv"),
    );
    write(&tape, 11, &ticks(3, 30));
    let lake_done = exported(&tape, &lake, TableFormat::Parquet, Partition::default());
    let done = exported(&tape, &out, TableFormat::Csv, Partition::default());
    assert_eq!((done.files, done.rows), (lake_done.files, lake_done.rows));
    let mut found = Vec::new();
    files(&out, &mut found);
    for path in found {
        let table = path.parent().and_then(Path::file_name).expect("a table");
        let table = table.to_str().expect("text");
        let mut reader = csv::Reader::from_path(&path).expect("a file");
        let header = reader.headers().expect("a header").clone();
        let parquet = rows(&lake, table);
        let schema = parquet[0].schema();
        let names: Vec<&str> = schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        assert_eq!(header.iter().collect::<Vec<_>>(), names, "{table}");
        // The reader rejects rows with a different number of cells.
        let rows: Vec<_> = reader.records().map(|row| row.expect("a row")).collect();
        assert_eq!(rows.len(), count(&parquet), "{table}");
    }
}

#[test]
fn each_partition_folder_begins_with_every_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tape, out) = (folder.path().join("tape"), folder.path().join("out"));
    let mut all = ticks(5, 12);
    // Midnight is between the sixth and the seventh batch.
    let midnight = 86_400_000_000_000 * 20_000;
    for (at, (events, batch)) in all.iter_mut().enumerate() {
        events.clear();
        batch.time_unix_ns = midnight + (at as u64) * 1_000_000_000 - 6_000_000_000;
    }
    write(&tape, 600, &all);
    let both = Partition {
        date: true,
        host: true,
    };
    exported(&tape, &out, TableFormat::Parquet, both);
    let days: Vec<_> = ["2024-10-03", "2024-10-04"]
        .map(|day| {
            let folder = out.join("groups").join(format!("date={day}"));
            folder.join("host=h%C3%A9")
        })
        .to_vec();
    let groups = all[6].1.cgroups.len();
    assert!(groups > 0);
    for day in &days {
        let path = day.join("part-0.parquet");
        let file = File::open(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("parquet");
        let batches: Vec<_> = reader
            .build()
            .expect("parquet")
            .map(|it| it.expect("rows"))
            .collect();
        assert!(
            batches[0].column_by_name("host").is_none(),
            "the folder has it"
        );
        let ticks = numbers(&batches, "tick");
        let first = ticks.iter().min().expect("rows");
        if day == &days[1] {
            assert_eq!(*first, Some(all[6].1.sequence));
            let begun = ticks.iter().filter(|tick| *tick == first).count();
            assert_eq!(begun, groups, "all rows");
        }
    }
}

#[test]
fn a_folder_with_files_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let tape = folder.path().join("tape");
    write(&tape, 9, &ticks(1, 2));
    let opened = Tape::open(&tape).expect("a tape");
    let done = export(&opened, &[], &tape, TableFormat::Csv, Partition::default());
    let error = done.expect_err("it has files").to_string();
    assert!(error.contains("is not empty"), "{error}");
}

#[test]
fn any_number_of_events_between_two_batches_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tape, out) = (folder.path().join("tape"), folder.path().join("out"));
    let mut all = ticks(3, 5);
    let event = all
        .iter()
        .flat_map(|(events, _)| events)
        .next()
        .expect("an event");
    let mut event = event.clone();
    event.time_unix_ns = all[3].1.time_unix_ns - 1;
    all[3].0 = vec![event; 2 * MOST_EVENTS + 1];
    let events: usize = all.iter().map(|(events, _)| events.len()).sum();
    write(&tape, 60, &all);
    exported(&tape, &out, TableFormat::Parquet, Partition::default());
    assert_eq!(count(&rows(&out, "events")), events);
}

/// A value of column statistics, with the ordering of its type.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum Value {
    Integer(i128),
    Float(f64),
    Bytes(Vec<u8>),
}

fn value(column: &ColumnChunkMetaData, bytes: &[u8]) -> Value {
    let signed = match column.column_descr().logical_type_ref() {
        Some(LogicalType::Integer(kind)) => kind.is_signed,
        _ => true,
    };
    match (column.column_type(), signed) {
        (Physical::INT32, true) => {
            Value::Integer(i32::from_le_bytes(bytes.try_into().expect("4")).into())
        }
        (Physical::INT32, false) => {
            Value::Integer(u32::from_le_bytes(bytes.try_into().expect("4")).into())
        }
        (Physical::INT64, true) => {
            Value::Integer(i64::from_le_bytes(bytes.try_into().expect("8")).into())
        }
        (Physical::INT64, false) => {
            Value::Integer(u64::from_le_bytes(bytes.try_into().expect("8")).into())
        }
        (Physical::DOUBLE, _) => Value::Float(f64::from_le_bytes(bytes.try_into().expect("8"))),
        _ => Value::Bytes(bytes.to_vec()),
    }
}

/// The statistics of a column, combined over all row groups.
#[derive(Debug, Default, PartialEq)]
struct ColumnStatistics {
    slots: i64,
    nulls: u64,
    least: Option<Value>,
    greatest: Option<Value>,
}

fn statistics_of(groups: &[RowGroupMetaData], column: usize) -> ColumnStatistics {
    let mut said = ColumnStatistics::default();
    for group in groups {
        let column = group.column(column);
        let statistics = column.statistics().expect("statistics");
        said.slots += column.num_values();
        said.nulls += statistics.null_count_opt().expect("a number of nulls");
        let least = statistics.min_bytes_opt().map(|it| value(column, it));
        if said.least.is_none()
            || least
                .as_ref()
                .is_some_and(|it| Some(it) < said.least.as_ref())
        {
            said.least = least;
        }
        let greatest = statistics.max_bytes_opt().map(|it| value(column, it));
        if greatest > said.greatest {
            said.greatest = greatest;
        }
    }
    said
}

/// Reads a Parquet file. Returns its row groups and all its rows.
fn lake(folder: &Path, table: &str) -> (Vec<RowGroupMetaData>, RecordBatch) {
    let path = folder.join(table).join("part-0.parquet");
    let file = File::open(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("parquet");
    let groups = reader.metadata().row_groups().to_vec();
    let mut batches = reader.with_batch_size(1 << 20).build().expect("parquet");
    let rows = batches.next().expect("rows").expect("rows");
    assert!(batches.next().is_none(), "{table}");
    (groups, rows)
}

/// Reads the same rows from the CSV file, one string per row, sorted.
fn lines(folder: &Path, table: &str) -> Vec<String> {
    let path = folder.join(table).join("part-0.csv");
    let mut reader = csv::Reader::from_path(path).expect("a file");
    let line = |row: csv::Result<csv::StringRecord>| format!("{:?}", row.expect("a row"));
    let mut lines: Vec<_> = reader.records().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn row_groups_do_not_change_rows_or_statistics() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    write(&at("tape"), 600, &ticks(7, 60));
    let tape = Tape::open(&at("tape")).expect("a tape");
    let stretches: Vec<_> = tape.spans().into_iter().map(Stretch::whole).collect();
    let export = |name: &str, format, rows, group_bytes| {
        let sizes = Sizes { rows, group_bytes };
        let whole = Partition::default();
        export_with(&tape, &stretches, &at(name), format, whole, sizes).expect("room");
    };
    export("one", TableFormat::Parquet, 300, usize::MAX);
    export("some", TableFormat::Parquet, 300, 1_000_000);
    export("many", TableFormat::Parquet, 300, 1);
    export("csv", TableFormat::Csv, 300, 1);
    export("whole", TableFormat::Csv, usize::MAX, 1);
    let mut between = 0;
    for table in [
        "node",
        "processes",
        "exited",
        "groups",
        "waits",
        "pairs",
        "events",
    ] {
        let (one, rows) = lake(&at("one"), table);
        assert_eq!(one.len(), 1, "{table}");
        let (some, of_some) = lake(&at("some"), table);
        let (many, of_many) = lake(&at("many"), table);
        assert!(many.len() > 5, "{table}: {} row groups", many.len());
        between += usize::from(some.len() > 1 && some.len() < many.len());
        for (groups, of_groups) in [(some, of_some), (many, of_many)] {
            assert_eq!(of_groups, rows, "{table}");
            let counted: i64 = groups.iter().map(RowGroupMetaData::num_rows).sum();
            assert_eq!(counted, rows.num_rows() as i64, "{table}");
            for column in 0..one[0].num_columns() {
                let path = one[0].column(column).column_path();
                assert_eq!(
                    statistics_of(&groups, column),
                    statistics_of(&one, column),
                    "{table}: {path}"
                );
            }
        }
        // The size of the row buffer does not change the rows.
        assert_eq!(
            lines(&at("csv"), table),
            lines(&at("whole"), table),
            "{table}"
        );
        assert_eq!(lines(&at("csv"), table).len(), rows.num_rows(), "{table}");
    }
    assert!(between > 2, "row groups of several batches: {between}");
}

/// Two events of each name, before the second batch.
fn samples() -> Ticks {
    let mut all = ticks(7, 2);
    all[0].0.clear();
    all[1].0 = World::events(7, 600);
    let mut kept = BTreeMap::new();
    all[1].0.retain(|event| {
        let count = kept.entry(event.what.name()).or_insert(0);
        *count += 1;
        *count <= 2
    });
    assert_eq!(kept.len(), What::NAMES.len());
    all
}

/// The golden file is written by `NOCTULE_BLESS=1`.
#[test]
fn csv_of_events_keeps_its_columns_and_values() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tape, out) = (folder.path().join("tape"), folder.path().join("out"));
    write(&tape, 300, &samples());
    exported(&tape, &out, TableFormat::Csv, Partition::default());
    let mut found = Vec::new();
    files(&out.join("events"), &mut found);
    let parts = found
        .iter()
        .map(|path| fs::read_to_string(path).expect("text"));
    let written: String = parts.collect();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/events.csv");
    if std::env::var_os("NOCTULE_BLESS").is_some() {
        fs::write(&golden, &written).expect("room");
    }
    assert_eq!(
        written,
        fs::read_to_string(golden).expect("it is committed")
    );
}

#[test]
fn events_stay_with_their_batch_despite_clock_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (tape, out) = (folder.path().join("tape"), folder.path().join("out"));
    let all = super::stretches::ticks();
    write(&tape, 300, &all);
    exported(&tape, &out, TableFormat::Parquet, Partition::default());
    let ticks = numbers(&rows(&out, "events"), "tick");
    // Each event happened between two batches.
    let before = (0..all.len() as u64).map(Some);
    assert_eq!(ticks, before.collect::<Vec<_>>());
}
