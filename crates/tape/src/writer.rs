//! Writes batches and events into segments.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, MetadataVersion};
use noctule_model::{Batch, Event};

use crate::error::Error;
use crate::folder::{self, Folder, Limits};
use crate::index::{self, Chunk, Flush, Line, table_file};
use crate::pending::Tables;
use crate::private::OpenFolder;
use crate::segment::{self, Meta};
use crate::tables::Owners;
use crate::tally::Tally;

/// Maximum age of unwritten rows. A crash loses no more than this time, and at most half of a young
/// recording.
const FLUSH_NS: u64 = 10_000_000_000;

/// Interval between full rewrites of all rows. To reconstruct one moment, a reader goes back at
/// most this far. Full rewrites make recordings 3% larger.
const WHOLE_NS: u64 = 60_000_000_000;

/// Maximum number of unwritten rows, which bounds memory.
const MOST_ROWS: usize = 200_000;

/// A segment is closed when its size reaches the size limit divided by this number. The oldest
/// segment is removed as a whole, and most of the permitted amount should remain.
const PARTS: u64 = 4;

/// Level of zstd compression. Level 3 makes recordings 8% larger, and level 9 makes them 2%
/// smaller.
const LEVEL: i32 = 7;

/// Alignment of buffers. A table has dozens of columns, most of which compress to less than the
/// default of 64 bytes.
const ALIGNMENT: usize = 8;

/// Settings of a recording.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory of the segments, which is created if necessary.
    pub folder: PathBuf,
    /// Duration of a segment, nanoseconds.
    pub segment_ns: u64,
    /// How much of the recording is kept.
    pub limits: Limits,
    /// The origin of the recording.
    pub meta: Meta,
    /// Called on the writing thread before anything else, to drop privileges that the thread does
    /// not need.
    pub on_thread: fn(),
}

/// Writes a recording. The calls wait for the disk.
pub(crate) struct Writer {
    folder: Folder,
    options: Options,
    tables: Tables,
    owners: Owners,
    /// The next flush. The chunks of a flush are added when the flush is written.
    flush: Flush,
    /// `CLOCK_MONOTONIC` of the first unwritten batch.
    since_ns: Option<u64>,
    /// `CLOCK_MONOTONIC` of the last batch that was written in full in this segment.
    whole_ns: Option<u64>,
    /// `CLOCK_MONOTONIC` of the very first batch, and of the newest batch at the time of the last
    /// write.
    first_ns: Option<u64>,
    written_ns: u64,
    /// Number of the last batch.
    tick: u64,
    open: Option<Open>,
}

/// Data that could not be written.
#[derive(Debug)]
pub(crate) struct Unwritten {
    pub(crate) error: Error,
    pub(crate) batches: u64,
    pub(crate) events: Tally,
    /// Number of processes that exited in these batches.
    pub(crate) processes: u64,
}

impl Writer {
    /// Locks the directory. Fails if another writer has locked it.
    pub(crate) fn open(options: Options) -> Result<Self, Error> {
        Ok(Self {
            folder: Folder::lock(&options.folder)?,
            options,
            tables: Tables::of_differences(),
            owners: Owners::default(),
            flush: Flush::default(),
            since_ns: None,
            whole_ns: None,
            first_ns: None,
            written_ns: 0,
            tick: 0,
            open: None,
        })
    }

    /// Adds a batch, and writes the rows when they are due.
    pub(crate) fn batch(&mut self, batch: &Batch) -> Result<(), Unwritten> {
        self.folder.ages.observe(batch.taken_ns, batch.time_unix_ns);
        let over = |open: &Open| {
            let since = open
                .since_ns
                .map(|since| batch.taken_ns.saturating_sub(since));
            since.is_some_and(|length| length >= self.options.segment_ns)
        };
        let mut written = Ok(());
        if self.open.as_ref().is_some_and(over) {
            written = self.end_segment();
        } else if self.flush.ticks > 0 && batch.time_unix_ns < self.flush.to_unix_ns {
            // The clock was set back. Times must increase within a flush, because readers search by
            // the times of its first and last batch.
            written = self.flush();
        }
        let is_first = self.flush.ticks == 0;
        if is_first {
            self.flush.whole = self.begin_whole(batch.taken_ns);
        }
        let kept = self.tables.step(batch, &mut self.owners);
        self.tick = batch.sequence;
        let flush = &mut self.flush;
        flush.kept = kept && (is_first || flush.kept);
        if is_first {
            flush.first = batch.sequence;
            flush.from_unix_ns = batch.time_unix_ns;
        }
        flush.ticks += 1;
        flush.last = batch.sequence;
        flush.to_unix_ns = batch.time_unix_ns;
        if self.is_due(batch.taken_ns) || self.tables.rows() >= MOST_ROWS {
            self.written_ns = batch.taken_ns;
            return written.and(self.flush());
        }
        written
    }

    /// Returns whether rows must be written after a batch taken at `taken_ns`. The first batch is
    /// written immediately. Later rows are written when writing them would double the recording.
    fn is_due(&mut self, taken_ns: u64) -> bool {
        let since = *self.since_ns.get_or_insert(taken_ns);
        let Some(first) = self.first_ns else {
            self.first_ns = Some(taken_ns);
            return true;
        };
        let written = self.written_ns.saturating_sub(first);
        let unwritten = taken_ns.saturating_sub(self.written_ns);
        unwritten >= written || taken_ns.saturating_sub(since) >= FLUSH_NS
    }

    /// Returns whether the next batch must be written in full, together with its owners.
    fn begin_whole(&mut self, taken_ns: u64) -> bool {
        let since = self.whole_ns.map(|whole| taken_ns.saturating_sub(whole));
        if since.is_some_and(|since| since < WHOLE_NS) {
            return false;
        }
        self.whole_ns = Some(taken_ns);
        self.tables.rewrite();
        self.owners.restart();
        true
    }

    /// Adds events, which are written with the next batches.
    pub(crate) fn events(&mut self, events: &[Event]) {
        for event in events {
            let at = event.time_unix_ns;
            let flush = &mut self.flush;
            if flush.events == 0 {
                flush.events_from_unix_ns = at;
                flush.events_to_unix_ns = at;
            }
            flush.events += 1;
            flush.events_from_unix_ns = flush.events_from_unix_ns.min(at);
            flush.events_to_unix_ns = flush.events_to_unix_ns.max(at);
        }
        self.tables.events(self.tick, events, &mut self.owners);
    }

    /// Returns whether the maximum number of unwritten rows is reached.
    pub(crate) fn is_full(&mut self) -> bool {
        self.tables.rows() >= MOST_ROWS
    }

    /// Writes everything and closes the segment.
    pub(crate) fn close(mut self) -> Result<(), Unwritten> {
        self.end_segment()
    }

    pub(crate) fn end_segment(&mut self) -> Result<(), Unwritten> {
        let written = self.flush();
        let closed = self.close_segment();
        written.and(closed)
    }

    /// Closes the open segment, after all rows were written.
    fn close_segment(&mut self) -> Result<(), Unwritten> {
        let closed = self.open.take().map_or(Ok(()), Open::close);
        self.restart();
        closed.map_err(|error| Unwritten {
            error,
            batches: 0,
            events: Tally::default(),
            processes: 0,
        })
    }

    /// Makes the next batch start a segment.
    fn restart(&mut self) {
        self.tables.restart();
        self.owners = Owners::default();
        self.flush = Flush::default();
        self.since_ns = None;
        self.whole_ns = None;
    }

    /// Writes the pending rows, and closes the segment if it is large enough. If the write fails,
    /// the segment ends before these rows. The next batch then starts another segment, because its
    /// changes would refer to rows that were lost.
    pub(crate) fn flush(&mut self) -> Result<(), Unwritten> {
        let flush = std::mem::take(&mut self.flush);
        let since = self.since_ns.take();
        if flush.ticks == 0 && flush.events == 0 {
            return Ok(());
        }
        let mut events = Tally::default();
        self.tables
            .pending_events()
            .for_each(|name| events.add(name, 1));
        let (batches, processes) = (flush.ticks, self.tables.pending_ends());
        let written = self.write(&flush, since);
        written.map_err(|error| {
            self.open = None;
            self.restart();
            Unwritten {
                error,
                batches,
                events,
                processes,
            }
        })?;
        match self.is_large() {
            true => self.close_segment(),
            false => Ok(()),
        }
    }

    /// Returns whether the open segment has reached its share of the size limit.
    fn is_large(&self) -> bool {
        let most = self.options.limits.bytes;
        let open = most.zip(self.open.as_ref());
        open.is_some_and(|(most, open)| folder::size(open.folder.path()) >= most / PARTS)
    }

    fn write(&mut self, flush: &Flush, since_ns: Option<u64>) -> Result<(), Error> {
        let mut parts = Vec::new();
        for (name, table) in self.tables.each() {
            let failed = |error| Error::new(format!("the table {name}: {error}"));
            if table.rows() > 0 {
                parts.push((name, table.take().map_err(failed)?));
            }
        }
        let current = self.open.as_ref().map(|open| open.folder.path());
        self.folder.enforce_limits(&self.options.limits, current)?;
        let mut encoded = None;
        loop {
            let written = self.append(flush, &parts, since_ns, &mut encoded);
            // On a full disk the oldest segment is removed, as when the limit is reached. Without a
            // limit, old segments must be kept.
            match written {
                Err(error) if error.is_full() && self.options.limits.is_some() => {
                    let current = self.open.as_ref().map(|open| open.folder.path());
                    if !self.folder.remove_oldest(current)? {
                        return Err(error);
                    }
                }
                written => return written,
            }
        }
    }

    fn append(
        &mut self,
        flush: &Flush,
        parts: &[(&'static str, RecordBatch)],
        since_ns: Option<u64>,
        encoded: &mut Option<Vec<Encoded>>,
    ) -> Result<(), Error> {
        let open = match &mut self.open {
            Some(open) => open,
            none => {
                let started = flush.from_unix_ns.max(flush.events_from_unix_ns);
                let folder = self.folder.add(started)?;
                none.insert(Open::begin(folder, &self.options.meta)?)
            }
        };
        let encoded = match encoded {
            Some(encoded) => encoded,
            none => none.insert(open.encode(parts)?),
        };
        open.append(flush.clone(), encoded)?;
        open.since_ns = open.since_ns.or(since_ns);
        self.folder.ages.wrote(open.folder.path());
        Ok(())
    }
}

/// The segment that is being written.
struct Open {
    folder: OpenFolder,
    /// `CLOCK_MONOTONIC` of the first batch; `None` while there are only events.
    since_ns: Option<u64>,
    index: File,
    index_length: u64,
    tables: Vec<TableFile>,
}

/// The file of a table, which is created with the table's first rows.
struct TableFile {
    name: &'static str,
    path: PathBuf,
    file: Option<File>,
    length: u64,
    stream: StreamWriter<Vec<u8>>,
}

/// Encoded rows to append to the file of a table.
#[derive(Debug)]
struct Encoded {
    /// Index of the table in [`Open::tables`].
    place: usize,
    bytes: Vec<u8>,
    /// Length of the schema at the start of `bytes`; 0 except in the first write.
    schema: usize,
}

impl Open {
    fn begin(folder: OpenFolder, meta: &Meta) -> Result<Self, Error> {
        let begun = Self::begin_index(&folder, meta);
        if begun.is_err() {
            // The directory contains no data.
            let _ = fs::remove_dir_all(folder.path());
        }
        Ok(Self {
            index: begun?,
            folder,
            since_ns: None,
            index_length: 0,
            tables: Vec::new(),
        })
    }

    fn begin_index(folder: &OpenFolder, meta: &Meta) -> Result<File, Error> {
        let meta = Meta {
            format: segment::FORMAT,
            ..meta.clone()
        };
        // The index is created first, so that a segment that has other files but no index can be
        // recognized as damaged.
        let index = folder.new_file(index::FILE)?;
        // The rename makes the file appear complete or not at all, even if the process is killed.
        let mut begun = folder.new_file(segment::META_BEGUN)?;
        let written = begun.write_all(meta.text().as_bytes());
        written.map_err(Error::at(&folder.path().join(segment::META_BEGUN)))?;
        folder.rename(segment::META_BEGUN, segment::META)?;
        Ok(index)
    }

    fn encode(&mut self, parts: &[(&'static str, RecordBatch)]) -> Result<Vec<Encoded>, Error> {
        let mut all = Vec::with_capacity(parts.len());
        for (name, batch) in parts {
            let known = self.tables.iter().position(|table| table.name == *name);
            let place = known.unwrap_or(self.tables.len());
            if known.is_none() {
                self.tables
                    .push(TableFile::new(self.folder.path(), name, batch)?);
            }
            let table = &mut self.tables[place];
            let schema = table.stream.get_ref().len();
            let written = table.stream.write(batch).map_err(io::Error::other);
            written.map_err(Error::at(&table.path))?;
            all.push(Encoded {
                place,
                bytes: std::mem::take(table.stream.get_mut()),
                schema,
            });
        }
        Ok(all)
    }

    /// Appends to the tables and then to the index. If a write fails, truncates all files to their
    /// previous lengths.
    fn append(&mut self, mut flush: Flush, parts: &[Encoded]) -> Result<(), Error> {
        let written = self.append_all(&mut flush, parts);
        if written.is_err() {
            // Truncating is best effort, because the index does not list the excess bytes.
            for table in &self.tables {
                if let Some(file) = &table.file {
                    let _ = file.set_len(table.length);
                }
            }
            let _ = self.index.set_len(self.index_length);
            return written;
        }
        for part in parts {
            self.tables[part.place].length += part.bytes.len() as u64;
        }
        written
    }

    fn append_all(&mut self, flush: &mut Flush, parts: &[Encoded]) -> Result<(), Error> {
        for part in parts {
            let table = &mut self.tables[part.place];
            table.write(&self.folder, &part.bytes)?;
            let (schema, rows) = part.bytes.split_at(part.schema);
            let chunks = [
                (true, table.length, schema),
                (false, table.length + part.schema as u64, rows),
            ];
            let chunks = chunks.into_iter().filter(|(_, _, bytes)| !bytes.is_empty());
            flush
                .chunks
                .extend(chunks.map(|(schema, offset, bytes)| Chunk {
                    table: table.name.to_owned(),
                    schema,
                    offset,
                    length: bytes.len() as u64,
                    checksum: crc32fast::hash(bytes),
                }));
        }
        self.line(&Line::Flush(flush.clone()))
    }

    fn line(&mut self, line: &Line) -> Result<(), Error> {
        let text = line.text();
        let written = self.index.write_all_at(text.as_bytes(), self.index_length);
        written.map_err(Error::at(&self.folder.path().join(index::FILE)))?;
        self.index_length += text.len() as u64;
        Ok(())
    }

    /// Ends the streams and waits until the disk has stored everything.
    fn close(mut self) -> Result<(), Error> {
        for table in &mut self.tables {
            let ended = table.stream.finish().map_err(io::Error::other);
            ended.map_err(Error::at(&table.path))?;
            let bytes = std::mem::take(table.stream.get_mut());
            table.write(&self.folder, &bytes)?;
            let synced = table.file.as_ref().map_or(Ok(()), File::sync_data);
            synced.map_err(Error::at(&table.path))?;
        }
        self.line(&Line::Closed)?;
        let path = self.folder.path().join(index::FILE);
        self.index.sync_data().map_err(Error::at(&path))
    }
}

impl TableFile {
    /// Starts a stream, which begins with the schema.
    fn new(segment: &Path, name: &'static str, batch: &RecordBatch) -> Result<Self, Error> {
        let path = segment.join(table_file(name));
        let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)
            .and_then(|options| options.try_with_compression(Some(CompressionType::ZSTD)))
            .and_then(|options| options.try_with_compression_level(Some(LEVEL)));
        let stream = options.and_then(|options| {
            StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options)
        });
        Ok(Self {
            name,
            stream: stream.map_err(io::Error::other).map_err(Error::at(&path))?,
            path,
            file: None,
            length: 0,
        })
    }

    /// Appends bytes to the file.
    fn write(&mut self, segment: &OpenFolder, bytes: &[u8]) -> Result<(), Error> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(segment.new_file(&table_file(self.name))?),
        };
        let written = file.write_all_at(bytes, self.length);
        written.map_err(Error::at(&self.path))
    }
}
