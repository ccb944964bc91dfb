//! A segment: a directory with a file per table, which can be read without other segments.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use rustix::fs::OFlags;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::changes::Entry;
use crate::column::{ColumnResult, Record};
use crate::error::{Damage, Error};
use crate::index::{self, Chunk, Flush, Line, table_file};
use crate::message;
use crate::unnamed::{self, Rows};

/// The file that describes the origin of the segment.
pub(crate) const META: &str = "meta.json";

/// Name of [`META`] while it is being written.
pub(crate) const META_BEGUN: &str = "meta.json.begun";

/// The format version that this program writes.
pub(crate) const FORMAT: u32 = 3;

/// Maximum size of a chunk. 200,000 rows, or one batch, have about 100 MB before compression.
const LONGEST: u64 = 1 << 30;

/// Maximum length of an index line. A line needs about 40 bytes per table.
const LONGEST_LINE: u64 = 64 << 10;

/// Maximum size of an index. An index grows by less than 10 MB per day.
const LONGEST_INDEX: u64 = 256 << 20;

/// Maximum size of the description. A command's arguments have at most 2 MiB, and JSON can take six
/// characters for one byte.
const LONGEST_META: u64 = 16 << 20;

/// Maximum length of a name in the description. Exports repeat the name in each row.
const LONGEST_NAME: usize = 256;

/// Separates the description from the checksum of the text before this separator.
const CHECKSUM: &str = ",\"checksum\":\"";

/// Damage of an index that is no longer being written.
const NO_END: &str =
    "the last line is incomplete: the file was truncated, or its last write was interrupted";
const NO_LINE: &str = "the line for the last write is missing: the program or the machine stopped before \
                       writing it, or the file was truncated";

const NO_FILE: &str = "not a regular file";

/// The origin of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// Version of the recording format.
    pub format: u32,
    /// Version of noctule that wrote the recording.
    pub version: String,
    /// Id of one run of the agent. Counters of different runs are not comparable.
    pub run: String,
    /// Name of the host.
    pub host: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Hardware name, as printed by `uname -m`.
    pub machine: String,
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot_id: String,
    /// The followed command; empty if everything was recorded.
    pub command: Vec<String>,
}

impl Meta {
    fn names(&self) -> impl Iterator<Item = &str> {
        let Self {
            format: _,
            version,
            run,
            host,
            kernel,
            machine,
            boot_id,
            command: _,
        } = self;
        let names: [&str; 6] = [version, run, host, kernel, machine, boot_id];
        names.into_iter()
    }

    /// Returns the content of the file: JSON that ends with its checksum.
    pub(crate) fn text(&self) -> String {
        let text = serde_json::to_string(self).unwrap_or_default();
        let text = text.strip_suffix('}').unwrap_or(&text);
        let checksum = crc32fast::hash(text.as_bytes());
        format!("{text}{CHECKSUM}{checksum:08x}\"}}\n")
    }

    /// Parses the file. Earlier versions wrote no checksum.
    fn parse(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Seal {
            checksum: Option<IgnoredAny>,
        }
        let seal: Seal = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let sealed = text.trim_end().strip_suffix("\"}");
        let sealed = sealed.and_then(|text| text.rsplit_once(CHECKSUM));
        let is_whole = sealed.is_some_and(|(text, checksum)| {
            u32::from_str_radix(checksum, 16) == Ok(crc32fast::hash(text.as_bytes()))
        });
        match seal.checksum.is_none() || is_whole {
            true => serde_json::from_str(text).map_err(|error| error.to_string()),
            false => Err("checksum mismatch".to_owned()),
        }
    }
}

/// Opens a file of a segment without blocking, because opening a pipe would block until it has a
/// writer. Returns `None` if the file is not a regular file.
fn open_regular(path: &Path) -> io::Result<Option<File>> {
    let file = File::options()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)?;
    Ok(file.metadata()?.is_file().then_some(file))
}

/// Reads a text file of at most `most` bytes.
fn read_at_most(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    let file = open_regular(path)?.ok_or_else(|| io::Error::other(NO_FILE))?;
    file.take(most + 1).read_to_string(&mut text)?;
    match text.len() as u64 > most {
        true => Err(io::Error::other(format!(
            "larger than the limit of {most} bytes"
        ))),
        false => Ok(text),
    }
}

/// A segment whose index was read.
#[derive(Clone, Debug)]
pub struct Segment {
    path: PathBuf,
    meta: Meta,
    flushes: Vec<Flush>,
    closed: bool,
    /// Offset and description of an incomplete or missing last line. This is damage only if the
    /// segment is no longer being written.
    unfinished: Option<(u64, &'static str)>,
    damages: Vec<Damage>,
}

impl Segment {
    /// Reads the index. Damage in the index is recorded, and is not an error.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let index = path.join(index::FILE);
        let mut this = Self {
            path: path.to_owned(),
            meta: Meta::default(),
            flushes: Vec::new(),
            closed: false,
            unfinished: None,
            damages: Vec::new(),
        };
        match open_regular(&index) {
            Ok(Some(file)) => this.read_lines(file).map_err(Error::at(&index))?,
            Ok(None) => this.damage_of_index(0, NO_FILE),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // The index is the first file of a segment. Without any file, the segment was just
                // created.
                if this.has_more() || this.is_removed() {
                    this.damage_of_index(0, "the file is missing, so the segment cannot be read");
                }
            }
            Err(error) => return Err(Error::at(&index)(error)),
        }
        this.read_meta();
        if !this.damages.is_empty() && this.is_removed() {
            this.flushes.clear();
            this.damages = vec![Damage::removed(path)];
        }
        Ok(this)
    }

    /// Returns whether the segment was removed. A recorder removes a segment as a whole.
    fn is_removed(&self) -> bool {
        let found = fs::symlink_metadata(&self.path);
        found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Returns whether the segment contains files other than the index.
    fn has_more(&self) -> bool {
        let files = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let mut names = files.map(|file| file.file_name());
        names.any(|name| name == META || Path::new(&name).extension() == Some("arrows".as_ref()))
    }

    fn damage_of_index(&mut self, offset: u64, reason: impl Into<String>) {
        self.damages.push(Damage {
            path: self.path.join(index::FILE),
            offset: Some(offset),
            reason: reason.into(),
        });
    }

    /// Reads the index, and checks whether the tables contain rows that the index does not list.
    fn read_lines(&mut self, index: File) -> io::Result<()> {
        // The recorder may be writing now. Lengths are read before the index, so that the index
        // lists at least those rows.
        let lengths = unnamed::lengths(&self.path);
        let end = self.read_index(&mut BufReader::new(index))?;
        if self.closed || !self.damages.is_empty() {
            return Ok(());
        }
        match unnamed::find(&self.path, &self.flushes, &lengths) {
            Ok(Some((table, at, Rows::Lost))) => {
                let words = "lines are missing at the end: none describes the data in";
                let file = table_file(&table);
                self.damage_of_index(end, format!("{words} {file} from byte {at} on"));
                self.unfinished = None;
            }
            Ok(Some((.., Rows::Last))) if self.unfinished.is_none() => {
                self.unfinished = Some((end, NO_LINE));
            }
            Ok(_) => {}
            Err(error) => {
                let words = "cannot check for table data after the last line";
                self.damage_of_index(end, format!("{words}: {error}"));
            }
        }
        Ok(())
    }

    /// Reads up to the first damaged line or the end, and returns that offset. An incomplete last
    /// line may still be written.
    fn read_index(&mut self, index: &mut impl BufRead) -> io::Result<u64> {
        let (mut offset, mut line) = (0, Vec::new());
        loop {
            line.clear();
            let length = index
                .by_ref()
                .take(LONGEST_LINE)
                .read_until(b'\n', &mut line)? as u64;
            if length == 0 {
                return Ok(offset);
            }
            let parsed = match line.strip_suffix(b"\n") {
                _ if offset + length > LONGEST_INDEX => Err(format!(
                    "the index is larger than {LONGEST_INDEX} bytes, which noctule never writes"
                )),
                Some(line) => Line::parse(&String::from_utf8_lossy(line)),
                None if length < LONGEST_LINE && !line.contains(&0) => {
                    self.unfinished = Some((offset, NO_END));
                    return Ok(offset);
                }
                None => Err("not a valid line of the index".to_owned()),
            };
            match parsed {
                Ok(Line::Flush(flush)) => self.flushes.push(flush),
                Ok(Line::Closed) => self.closed = true,
                Err(reason) => {
                    self.damage_of_index(offset, reason);
                    return Ok(offset);
                }
            }
            offset += length;
        }
    }

    /// Called when a newer segment exists. This segment is no longer being written, so an
    /// incomplete last line is damage.
    pub(crate) fn is_followed(&mut self) {
        if let Some((offset, reason)) = self.unfinished.take() {
            self.damage_of_index(offset, reason);
        }
    }

    fn read_meta(&mut self) {
        let path = self.path.join(META);
        let text = read_at_most(&path, LONGEST_META);
        if let Err(error) = &text
            && error.kind() == io::ErrorKind::NotFound
            && self.flushes.is_empty()
        {
            // The segment was created, and nothing was written yet.
            return;
        }
        let text = text.map_err(|error| error.to_string());
        match text.and_then(|text| Meta::parse(&text)) {
            Ok(meta) if meta.names().any(|name| name.len() > LONGEST_NAME) => {
                self.damages.push(Damage {
                    path,
                    offset: Some(0),
                    reason: format!(
                        "a name is longer than {LONGEST_NAME} bytes, which noctule never writes"
                    ),
                });
            }
            Ok(meta) if meta.format > FORMAT => self.damages.push(Damage {
                path,
                offset: Some(0),
                reason: format!(
                    "unknown format {}, written by a later version of noctule ({})",
                    meta.format, meta.version
                ),
            }),
            Ok(meta) => self.meta = meta,
            Err(reason) => self.damages.push(Damage {
                path,
                offset: Some(0),
                reason,
            }),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Returns whether the segment is complete and will not grow.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The smallest and largest wall-clock time of the batches, nanoseconds since 1970; `None`
    /// without batches.
    pub fn span(&self) -> Option<(u64, u64)> {
        let filled = self.flushes.iter().filter(|flush| flush.ticks > 0);
        let times = filled.flat_map(|flush| [flush.from_unix_ns, flush.to_unix_ns]);
        Some((times.clone().min()?, times.max()?))
    }

    /// Like [`Self::span`], but for events.
    pub(crate) fn events_span(&self) -> Option<(u64, u64)> {
        let filled = self.flushes.iter().filter(|flush| flush.events > 0);
        let times = filled.flat_map(|flush| [flush.events_from_unix_ns, flush.events_to_unix_ns]);
        Some((times.clone().min()?, times.max()?))
    }

    /// Wall-clock time of the last batch, nanoseconds since 1970.
    pub(crate) fn end_unix_ns(&self) -> Option<u64> {
        let last = self.flushes.iter().rfind(|flush| flush.ticks > 0);
        last.map(|flush| flush.to_unix_ns)
    }

    /// Numbers of the first and the last batch.
    pub(crate) fn ticks(&self) -> Option<(u64, u64)> {
        let mut filled = self.flushes.iter().filter(|flush| flush.ticks > 0);
        let first = filled.next()?;
        let last = filled.next_back().unwrap_or(first);
        Some((first.first, last.last))
    }

    /// The number of batches.
    pub fn batches(&self) -> u64 {
        sum(self.flushes.iter().map(|flush| flush.ticks))
    }

    /// The number of events.
    pub fn events(&self) -> u64 {
        sum(self.flushes.iter().map(|flush| flush.events))
    }

    /// Each table with the size of its rows and schema in bytes, sorted by name.
    pub fn tables(&self) -> Vec<(String, u64)> {
        let mut sums: std::collections::BTreeMap<&str, u64> = Default::default();
        for chunk in self.flushes.iter().flat_map(|flush| &flush.chunks) {
            let bytes = sums.entry(&chunk.table).or_default();
            *bytes = bytes.saturating_add(chunk.length);
        }
        let sums = sums.into_iter();
        sums.map(|(table, bytes)| (table.to_owned(), bytes))
            .collect()
    }

    /// The size of all tables in bytes.
    pub fn bytes(&self) -> u64 {
        sum(self.tables().iter().map(|(_, bytes)| *bytes))
    }

    /// Verifies the checksum of each chunk. Returns all damage, including damage of the index.
    pub(crate) fn check(&self) -> Vec<Damage> {
        let chunks = self.flushes.iter().flat_map(|flush| &flush.chunks);
        let bad = chunks.filter_map(|chunk| self.bytes_of(chunk).err());
        let mut all: Vec<_> = self.damages.iter().cloned().chain(bad).collect();
        // A removed segment reports the same damage for each chunk.
        all.dedup();
        all
    }

    /// The damage found in the index and the description.
    pub fn damages(&self) -> &[Damage] {
        &self.damages
    }

    pub(crate) fn flushes(&self) -> &[Flush] {
        &self.flushes
    }

    /// Reads the rows that a flush wrote to a table.
    pub(crate) fn read<R: Record>(
        &self,
        flush: &Flush,
        table: &str,
    ) -> Result<Vec<Entry<R>>, Damage> {
        match self.record_batch(flush, table)? {
            None => Ok(Vec::new()),
            Some(part) => self.entries(&part, Entry::read),
        }
    }

    /// Converts a record batch with `read`, and reports a failure as damage.
    pub(crate) fn entries<E>(
        &self,
        (batch, chunk): &(RecordBatch, &Chunk),
        read: impl FnOnce(&RecordBatch) -> ColumnResult<Vec<E>>,
    ) -> Result<Vec<E>, Damage> {
        read(batch).map_err(|reason| self.damage(chunk, reason))
    }

    /// Reads the rows that a flush wrote to a table as a record batch, or `None` if it wrote none.
    pub(crate) fn record_batch<'a>(
        &self,
        flush: &'a Flush,
        table: &str,
    ) -> Result<Option<(RecordBatch, &'a Chunk)>, Damage> {
        let is_rows = |chunk: &&Chunk| chunk.table == table && !chunk.schema;
        let Some(chunk) = flush.chunks.iter().find(is_rows) else {
            return Ok(None);
        };
        let mut all = self.flushes.iter().flat_map(|flush| &flush.chunks);
        let schema = all.find(|chunk| chunk.table == table && chunk.schema);
        let schema = schema.ok_or_else(|| self.damage(chunk, "the schema is missing".into()))?;
        let bytes = self.bytes_of(schema)?;
        let rows = self.bytes_of(chunk)?;
        message::check(&rows).map_err(|reason| self.damage(chunk, reason))?;
        let decode = || -> Result<RecordBatch, (&Chunk, String)> {
            let types = message::schema(&bytes).map_err(|reason| (schema, reason))?;
            message::record_batch(&rows, types).map_err(|reason| (chunk, reason))
        };
        // Forged bytes can violate assertions of the decoder.
        match catch_unwind(AssertUnwindSafe(decode)) {
            Ok(Ok(batch)) => Ok(Some((batch, chunk))),
            Ok(Err((chunk, reason))) => Err(self.damage(chunk, reason)),
            Err(_) => Err(self.damage(chunk, "the data cannot be decoded".into())),
        }
    }

    /// Reads the bytes of a chunk and verifies their checksum.
    fn bytes_of(&self, chunk: &Chunk) -> Result<Vec<u8>, Damage> {
        let damage = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound if self.is_removed() => Damage::removed(&self.path),
            _ => self.damage(chunk, error.to_string()),
        };
        let file = open_regular(&self.path.join(table_file(&chunk.table))).map_err(damage)?;
        let file = file.ok_or_else(|| self.damage(chunk, NO_FILE.to_owned()))?;
        let size = file.metadata().map_err(damage)?.len();
        let end = chunk.offset.checked_add(chunk.length);
        if end.is_none_or(|end| end > size) {
            return Err(self.damage(chunk, format!("the file ends at byte {size}")));
        }
        if chunk.length > LONGEST {
            let words = format!(
                "a chunk of {} bytes is larger than noctule writes",
                chunk.length
            );
            return Err(self.damage(chunk, words));
        }
        let mut bytes = vec![0; usize::try_from(chunk.length).unwrap_or(0)];
        file.read_exact_at(&mut bytes, chunk.offset)
            .map_err(damage)?;
        match crc32fast::hash(&bytes) == chunk.checksum {
            true => Ok(bytes),
            false => Err(self.damage(chunk, "checksum mismatch".into())),
        }
    }

    fn damage(&self, chunk: &Chunk, reason: String) -> Damage {
        Damage {
            path: self.path.join(table_file(&chunk.table)),
            offset: Some(chunk.offset),
            reason,
        }
    }
}

/// Adds numbers of an index. The numbers can be forged, so they can have any size.
fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}
