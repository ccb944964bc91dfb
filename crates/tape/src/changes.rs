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
        Self::read_from(&Columns::of(batch))
    }

    fn read_from(from: &Columns<'_>) -> ColumnResult<Vec<Self>> {
        let ticks = u64::read(from, "tick")?;
        let removed = bool::read(from, "removed")?;
        let rows = R::read(from)?.into_iter();
        let entries = ticks.into_iter().zip(removed).zip(rows);
        Ok(entries
            .map(|((tick, removed), row)| Self { tick, removed, row })
            .collect())
    }
}

impl<R: Keyed> Entry<R> {
    /// The last entry of each row of a record batch, which is a small part of them.
    pub(crate) fn read_last(batch: &RecordBatch) -> ColumnResult<Vec<Self>> {
        let last = Columns::of(batch).ends_of_runs(R::COLUMNS);
        Self::read_from(&Columns::of(batch).pick(&last))
    }

    /// The entries of a record batch that end a row.
    pub(crate) fn read_removed(batch: &RecordBatch) -> ColumnResult<Vec<Self>> {
        let removed = bool::read(&Columns::of(batch), "removed")?;
        let removed = removed
            .into_iter()
            .enumerate()
            .filter(|(_, removed)| *removed);
        let rows: Vec<usize> = removed.map(|(row, _)| row).collect();
        Self::read_from(&Columns::of(batch).pick(&rows))
    }
}

/// A table that is being written.
pub(crate) trait Pending: Send {
    /// The rows that were not written yet, if there are any.
    fn take(&mut self) -> Result<Option<RecordBatch>, ArrowError>;
    /// How many they are.
    fn rows(&self) -> usize;
    /// The next batch is written whole, beside what ended in it.
    fn rewrite(&mut self);
    /// Forgets what was written: the next batch is written whole.
    fn restart(&mut self);
}

/// A table whose rows stay until they change.
///
/// The rows of a batch come nearly in the order of the batch before, so each is expected behind the last one:
/// with tens of thousands of pairs, looking up each by its key was 40% of what a tape costs.
#[derive(Debug)]
pub(crate) struct Changes<R: Keyed> {
    /// The last state of each row; `None`: the place is free.
    rows: Vec<Option<Last<R>>>,
    places: HashMap<R::Key, usize>,
    free: Vec<usize>,
    /// Places of the rows of the last batch, in its order.
    order: Vec<usize>,
    /// Rows of the next batch are written although nothing in them changed.
    whole: bool,
    pending: Vec<Entry<R>>,
}

#[derive(Debug)]
struct Last<R: Keyed> {
    key: R::Key,
    row: R,
    /// The batch that had it last.
    tick: u64,
    /// Where it stood in that batch.
    rank: usize,
}

impl<R: Keyed> Default for Changes<R> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            places: HashMap::new(),
            free: Vec::new(),
            order: Vec::new(),
            whole: false,
            pending: Vec::new(),
        }
    }
}

impl<R: Keyed> Changes<R> {
    /// Notes what the rows of a batch changed. The keys of the rows that ended: those that are no longer there, and
    /// those that [`Keyed::ends_in`] names.
    pub(crate) fn step(&mut self, tick: u64, rows: impl Iterator<Item = R>) -> Vec<R::Key> {
        let whole = std::mem::take(&mut self.whole);
        let mut ended = Vec::new();
        let before = std::mem::take(&mut self.order);
        let mut order = Vec::with_capacity(before.len());
        let mut next = 0;
        for row in rows {
            let key = row.key();
            let place = self.find(key, before.get(next).copied());
            let known = place.and_then(|place| self.rows.get_mut(place)?.as_mut());
            if known.as_ref().is_some_and(|last| last.row.ends_in(&row)) {
                ended.push(key);
            }
            if whole || known.as_ref().is_none_or(|last| last.row != row) {
                self.pending.push(Entry {
                    tick,
                    removed: false,
                    row: row.clone(),
                });
            }
            let rank = order.len();
            match (place, known) {
                (Some(place), Some(last)) => {
                    next = last.rank + 1;
                    (last.row, last.tick, last.rank) = (row, tick, rank);
                    order.push(place);
                }
                _ => order.push(self.add(Last {
                    key,
                    row,
                    tick,
                    rank,
                })),
            }
        }
        for place in before {
            ended.extend(self.remove_unless_of(tick, place));
        }
        self.order = order;
        ended
    }

    /// The place of a row, which may be the expected one.
    fn find(&self, key: R::Key, expected: Option<usize>) -> Option<usize> {
        let is_it = |place: &usize| {
            let last = self.rows.get(*place).and_then(Option::as_ref);
            last.is_some_and(|last| last.key == key)
        };
        expected
            .filter(is_it)
            .or_else(|| self.places.get(&key).copied())
    }

    fn add(&mut self, last: Last<R>) -> usize {
        let key = last.key;
        let place = match self.free.pop() {
            Some(place) => {
                self.rows[place] = Some(last);
                place
            }
            None => {
                self.rows.push(Some(last));
                self.rows.len() - 1
            }
        };
        self.places.insert(key, place);
        place
    }

    /// Notes that a row is gone, if the batch has not had it. Its key then.
    fn remove_unless_of(&mut self, tick: u64, place: usize) -> Option<R::Key> {
        let last = self.rows[place].take_if(|last| last.tick != tick)?;
        self.places.remove(&last.key);
        self.free.push(place);
        self.pending.push(Entry {
            tick,
            removed: true,
            row: last.row,
        });
        Some(last.key)
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

    fn rewrite(&mut self) {
        self.whole = true;
    }

    fn restart(&mut self) {
        *self = Self::default();
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

    fn rewrite(&mut self) {}

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
