//! Exports the tables of a recording to Parquet or CSV for other programs.
//!
//! Batches are read and converted to rows again. Each file therefore starts with all rows, even if
//! its part of the recording starts within a segment. Exports of older recordings have the current
//! columns.

mod csv;
mod parquet;
mod place;
mod rows;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::PrimitiveBuilder;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{TimestampNanosecondType, UInt64Type};
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};
use noctule_model::Event;

use crate::changes::Pending;
use crate::error::{Damage, Error};
use crate::pending::Tables;
use crate::stretch::Stretch;
use crate::tables::Owners;
use crate::tape::Tape;
use place::{Place, Places};

/// Limits of buffered data. Tests use smaller limits, to get many row groups with few rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Maximum number of buffered rows. The rows are written in the order of their keys, which
    /// compresses well.
    pub(crate) rows: usize,
    /// Size in memory at which a Parquet row group is written. In the file a row group takes a
    /// tenth of that.
    pub(crate) group_bytes: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            rows: 200_000,
            group_bytes: 64 << 20,
        }
    }
}

/// Maximum number of events that are converted at a time. There can be any number of events between
/// two batches.
pub(crate) const MOST_EVENTS: usize = 10_000;

const DAY_NS: u64 = 86_400_000_000_000;

/// A file format of exported tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// Apache Parquet, compressed with zstd.
    Parquet,
    /// Comma-separated values with a header.
    Csv,
}

/// How files are partitioned into directories named `NAME=VALUE`, which DuckDB, Polars and Spark
/// read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// One directory per day (UTC).
    pub date: bool,
    /// One directory per host.
    pub host: bool,
}

/// The result of an export.
#[derive(Clone, Debug, Default)]
pub struct Exported {
    /// The number of files written.
    pub files: u64,
    /// The number of rows written.
    pub rows: u64,
    /// The bytes written.
    pub bytes: u64,
    /// The damage found while reading.
    pub damages: Vec<Damage>,
}

/// Writes all tables of some stretches into a directory, which must be empty or not exist.
///
/// # Errors
///
/// Fails if the directory is not empty or a write fails.
pub fn export(
    tape: &Tape,
    stretches: &[Stretch],
    folder: &Path,
    format: TableFormat,
    partition: Partition,
) -> Result<Exported, Error> {
    export_with(tape, stretches, folder, format, partition, Sizes::default())
}

pub(crate) fn export_with(
    tape: &Tape,
    stretches: &[Stretch],
    folder: &Path,
    format: TableFormat,
    partition: Partition,
    sizes: Sizes,
) -> Result<Exported, Error> {
    let places = Places::open(folder, format, sizes.group_bytes)?;
    let mut export = Export {
        partition,
        most_rows: sizes.rows,
        places,
        place: None,
        tables: Tables::default(),
        owners: Owners::default(),
        times: BTreeMap::new(),
        damages: Vec::new(),
    };
    for stretch in stretches {
        export.stretch(tape, stretch)?;
    }
    export.write_empty()?;
    let mut exported = export.places.close()?;
    exported.damages = export.damages;
    Ok(exported)
}

struct Export {
    partition: Partition,
    most_rows: usize,
    places: Places,
    /// The directory to which rows were last written.
    place: Option<Place>,
    tables: Tables,
    owners: Owners,
    /// Wall-clock time of each batch that is not written yet, by its number.
    times: BTreeMap<u64, u64>,
    damages: Vec<Damage>,
}

impl Export {
    fn stretch(&mut self, tape: &Tape, stretch: &Stretch) -> Result<(), Error> {
        let mut batches = stretch.batches(tape);
        let mut recorded = stretch.events(tape);
        let mut events = std::iter::from_fn(|| recorded.next_seen()).peekable();
        let first_ns = batches.next_unix_ns();
        let first_ns = first_ns.unwrap_or(stretch.span.from_unix_ns);
        let place_of = self.places_of(tape, stretch);
        let mut place = place_of(first_ns);
        let mut tick = 0;
        self.times.insert(tick, first_ns);
        while let Some(time_ns) = batches.next_unix_ns()
            && let Some(batch) = batches.next()
        {
            let next = place_of(time_ns);
            if next != place {
                let same = |(seen, it): &(u64, Event)| {
                    *seen < batch.sequence && place_of(it.time_unix_ns) == place
                };
                self.take(tick, &mut || events.next_if(same), &place)?;
                self.write(&place)?;
                self.restart();
                self.times.insert(tick, time_ns);
                place = next;
            }
            let before = |(seen, _): &(u64, Event)| *seen < batch.sequence;
            self.take(tick, &mut || events.next_if(before), &place)?;
            self.tables.step(&batch, &mut self.owners);
            tick = batch.sequence;
            self.times.insert(tick, time_ns);
            if self.tables.rows() >= self.most_rows {
                self.write(&place)?;
            }
        }
        self.take(tick, &mut || events.next(), &place)?;
        self.write(&place)?;
        self.restart();
        self.damages.extend_from_slice(batches.damages());
        self.damages.extend_from_slice(recorded.damages());
        Ok(())
    }

    /// Converts the available events to rows, and writes the tables whenever they are full.
    fn take(
        &mut self,
        tick: u64,
        next: &mut dyn FnMut() -> Option<(u64, Event)>,
        place: &Place,
    ) -> Result<(), Error> {
        loop {
            let some = std::iter::from_fn(&mut *next).take(MOST_EVENTS);
            let some: Vec<Event> = some.map(|(_, event)| event).collect();
            if some.is_empty() {
                return Ok(());
            }
            self.tables.events(tick, &some, &mut self.owners);
            if self.tables.rows() >= self.most_rows {
                self.write(place)?;
            }
        }
    }

    /// Returns a function that maps a wall-clock time to the directory of its rows.
    fn places_of(&self, tape: &Tape, stretch: &Stretch) -> impl Fn(u64) -> Place + use<> {
        let meta = tape.segments()[stretch.span.segments.0].meta();
        let (host, run) = (meta.host.clone(), meta.run.clone());
        let Partition {
            date,
            host: in_host,
        } = self.partition;
        move |time_ns| Place {
            day: date.then_some(time_ns / DAY_NS),
            in_host,
            host: host.clone(),
            run: run.clone(),
        }
    }

    /// For each table without any rows, writes a file without rows, because queries mention all
    /// tables.
    fn write_empty(&mut self) -> Result<(), Error> {
        let Some(place) = &self.place else {
            return Ok(());
        };
        for (name, table) in self.tables.each() {
            if !self.places.has(name) {
                write_table(name, table, place, &self.times, &mut self.places)?;
            }
        }
        Ok(())
    }

    fn restart(&mut self) {
        self.tables.restart();
        self.owners.restart();
        self.times.clear();
    }

    fn write(&mut self, place: &Place) -> Result<(), Error> {
        for (name, table) in self.tables.each() {
            if table.rows() > 0 {
                write_table(name, table, place, &self.times, &mut self.places)?;
            }
        }
        self.place = Some(place.clone());
        // Keeps the time of the last batch: the owners of the next events refer to that batch.
        let last = self.times.pop_last();
        self.times.clear();
        self.times.extend(last);
        Ok(())
    }
}

fn write_table(
    name: &'static str,
    table: &mut dyn Pending,
    place: &Place,
    times: &BTreeMap<u64, u64>,
    places: &mut Places,
) -> Result<(), Error> {
    let rows = Pending::take(table).and_then(|rows| complete(&rows, place, times));
    let rows = rows.map_err(|error| Error::new(format!("the table {name}: {error}")))?;
    places.write(name, place, &rows)
}

/// Prepends the host, the run and the time to the columns of a table.
fn complete(
    batch: &RecordBatch,
    place: &Place,
    times: &BTreeMap<u64, u64>,
) -> Result<RecordBatch, ArrowError> {
    let mut fields = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    let mut constant = |name: &str, value: &str| {
        let values = std::iter::repeat_n(value, batch.num_rows());
        fields.push(Field::new(name, DataType::Utf8, false));
        columns.push(Arc::new(StringArray::from_iter_values(values)));
    };
    if !place.in_host {
        constant("host", &place.host);
    }
    constant("run", &place.run);
    let schema = batch.schema_ref();
    if schema.index_of("time").is_err() {
        let zone: Arc<str> = "UTC".into();
        let kind = DataType::Timestamp(TimeUnit::Nanosecond, Some(zone.clone()));
        fields.push(Field::new("time", kind, true));
        let ticks = batch.column(schema.index_of("tick")?);
        let mut builder = PrimitiveBuilder::<TimestampNanosecondType>::new();
        for tick in ticks.as_primitive::<UInt64Type>().values() {
            builder.append_option(times.get(tick).map(|time| time.cast_signed()));
        }
        columns.push(Arc::new(builder.finish().with_timezone(zone)));
    }
    fields.extend(schema.fields().iter().map(|field| field.as_ref().clone()));
    columns.extend(batch.columns().iter().cloned());
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}
