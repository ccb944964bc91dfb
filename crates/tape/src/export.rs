//! The tables of a recording as files that others read: Parquet or CSV.
//!
//! The batches of each stretch are read and turned into rows anew, so that each file begins with every
//! row, whatever the segments began with, and a file of an older version has the columns of today.

mod csv;
mod parquet;
mod place;

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

/// How much waits in memory. Tests take less, to have many row groups of few rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Rows that wait to be written, at most: they are written in the order of their keys, which compresses.
    pub(crate) rows: usize,
    /// Bytes of Arrow at which a row group of Parquet is written; in the file it has a tenth of that.
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

/// Events that are made rows at once, at most: between two batches there can be any number.
pub(crate) const MOST_EVENTS: usize = 10_000;

const DAY_NS: u64 = 86_400_000_000_000;

/// A format of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// Apache Parquet, compressed with zstd.
    Parquet,
    /// Comma-separated values with a header.
    Csv,
}

/// Into which folders the files go, in the form `NAME=VALUE` that DuckDB, Polars and Spark read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// One for each day (UTC).
    pub date: bool,
    /// One for each host.
    pub host: bool,
}

/// The files that were written.
#[derive(Clone, Debug, Default)]
pub struct Exported {
    /// How many files.
    pub files: u64,
    /// How many rows.
    pub rows: u64,
    /// How many bytes.
    pub bytes: u64,
    /// What is damaged, as far as it was read.
    pub damages: Vec<Damage>,
}

/// Writes all tables of some stretches of a tape into a folder, which must be empty or not exist.
///
/// # Errors
///
/// The folder has files already, or the disk does not take them.
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
    /// Where rows were written last.
    place: Option<Place>,
    tables: Tables,
    owners: Owners,
    /// Wall-clock time of the batches that are not written yet.
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

    /// Makes rows of the events that there are, and writes them as often as there are enough.
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

    /// Where the rows of a moment go.
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

    /// Queries name tables, which must be there: one that never had a row is written with its columns alone.
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
        // Owners of the next events are written with the tick before them.
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

/// Puts the host, the run and the time before the columns of a table.
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
