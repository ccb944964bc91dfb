//! What of a table is still to be written, and its form as a record batch of Arrow.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, Field, Schema};

use crate::column::{Column as _, ColumnResult, Columns, Record, schema};
use crate::tables::Keyed;

/// A row, and the batch that it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry<R> {
    /// [`noctule_model::Batch::sequence`].
    pub(crate) tick: u64,
    /// It is no longer there; the row is that of the batch before.
    pub(crate) removed: bool,
    pub(crate) row: R,
}

impl<R: Record> Entry<R> {
    /// Every entry of a record batch.
    pub(crate) fn read(batch: &RecordBatch) -> ColumnResult<Vec<Self>> {
        let from = Columns::of(batch);
        let ticks = u64::read(&from, "tick")?;
        let removed = bool::read(&from, "removed")?;
        let rows = R::read(&from)?.into_iter();
        let entries = ticks.into_iter().zip(removed).zip(rows);
        Ok(entries
            .map(|((tick, removed), row)| Self { tick, removed, row })
            .collect())
    }
}

/// A table that is being written.
pub(crate) trait Pending: Send {
    /// The rows that were not written yet, if there are any.
    fn take(&mut self) -> Result<Option<RecordBatch>, ArrowError>;
    /// How many they are.
    fn rows(&self) -> usize;
    /// Forgets what was written: the next batch is written whole.
    fn restart(&mut self);
}

/// A table whose rows stay until they change.
#[derive(Debug)]
pub(crate) struct Changes<R: Keyed> {
    /// The last state of each row, and the batch that had it last.
    last: HashMap<R::Key, (u64, R)>,
    pending: Vec<Entry<R>>,
}

impl<R: Keyed> Default for Changes<R> {
    fn default() -> Self {
        Self {
            last: HashMap::new(),
            pending: Vec::new(),
        }
    }
}

impl<R: Keyed> Changes<R> {
    /// Notes what the rows of a batch changed.
    pub(crate) fn step(&mut self, tick: u64, rows: impl Iterator<Item = R>) {
        for row in rows {
            let key = row.key();
            match self.last.get_mut(&key) {
                Some((seen, last)) if *last == row => *seen = tick,
                _ => {
                    self.pending.push(Entry {
                        tick,
                        removed: false,
                        row: row.clone(),
                    });
                    self.last.insert(key, (tick, row));
                }
            }
        }
        let pending = &mut self.pending;
        self.last.retain(|_, (seen, last)| {
            let stays = *seen == tick;
            if !stays {
                pending.push(Entry {
                    tick,
                    removed: true,
                    row: last.clone(),
                });
            }
            stays
        });
    }
}

impl<R: Keyed + Send> Pending for Changes<R>
where
    R::Key: Send,
{
    fn take(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        if self.pending.is_empty() {
            return Ok(None);
        }
        let mut entries = std::mem::take(&mut self.pending);
        // The states of a row stand below each other, which compresses well: only the low bytes of
        // its counters differ.
        entries.sort_by_key(|entry| (entry.row.key(), entry.tick));
        let removed: Vec<&bool> = entries.iter().map(|entry| &entry.removed).collect();
        let mut columns = Vec::new();
        bool::arrays(&removed, &mut columns);
        record_batch(keyed_schema::<R>(), &entries, columns).map(Some)
    }

    fn rows(&self) -> usize {
        self.pending.len()
    }

    fn restart(&mut self) {
        self.last.clear();
        self.pending.clear();
    }
}

/// A table whose rows are of one batch each.
#[derive(Debug)]
pub(crate) struct Log<R> {
    pending: Vec<Entry<R>>,
}

impl<R> Default for Log<R> {
    fn default() -> Self {
        Self {
            pending: Vec::new(),
        }
    }
}

impl<R> Log<R> {
    pub(crate) fn push(&mut self, tick: u64, rows: impl IntoIterator<Item = R>) {
        self.pending.extend(rows.into_iter().map(|row| Entry {
            tick,
            removed: false,
            row,
        }));
    }

    pub(crate) fn pending(&self) -> impl Iterator<Item = &R> {
        self.pending.iter().map(|entry| &entry.row)
    }
}

impl<R: Record + Send> Pending for Log<R> {
    fn take(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        if self.pending.is_empty() {
            return Ok(None);
        }
        let entries = std::mem::take(&mut self.pending);
        record_batch(log_schema::<R>(), &entries, Vec::new()).map(Some)
    }

    fn rows(&self) -> usize {
        self.pending.len()
    }

    fn restart(&mut self) {
        self.pending.clear();
    }
}

fn log_schema<R: Record>() -> Arc<Schema> {
    let mut first = Vec::new();
    u64::fields("tick", &mut first);
    schema::<R>(first)
}

fn keyed_schema<R: Record>() -> Arc<Schema> {
    let mut first: Vec<Field> = Vec::new();
    u64::fields("tick", &mut first);
    bool::fields("removed", &mut first);
    schema::<R>(first)
}

/// `columns` stand between the number of the batch and the columns of the record.
fn record_batch<R: Record>(
    schema: Arc<Schema>,
    entries: &[Entry<R>],
    columns: Vec<ArrayRef>,
) -> Result<RecordBatch, ArrowError> {
    let ticks: Vec<&u64> = entries.iter().map(|entry| &entry.tick).collect();
    let mut all = Vec::with_capacity(schema.fields().len());
    u64::arrays(&ticks, &mut all);
    all.extend(columns);
    let rows: Vec<&R> = entries.iter().map(|entry| &entry.row).collect();
    R::arrays(&rows, &mut all);
    RecordBatch::try_new(schema, all)
}
