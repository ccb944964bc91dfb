//! The unwritten rows of a table, and their representation as an Arrow record batch.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, Field, Schema};

use crate::column::{Column as _, ColumnResult, Columns, Record, schema};
use crate::tables::Keyed;

/// Name of the extra column in tables whose counts are written as differences.
const COUNTED_FROM: &str = "counted_from";

/// The schema metadata of such a table, which explains the differences to other readers.
const COUNTS: (&str, &str) = (
    "counts",
    "add up the rows with the same key and the same counted_from, in the order of tick",
);

/// A row and its batch number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry<R> {
    /// [`noctule_model::Batch::sequence`].
    pub(crate) tick: u64,
    /// The batch of the entry from which the counts are summed. If this batch is `tick`, the counts
    /// are complete.
    pub(crate) counted_from: u64,
    /// The row was removed in this batch; `row` holds its last state.
    pub(crate) removed: bool,
    pub(crate) row: R,
}

impl<R> Entry<R> {
    /// Returns an entry with complete counts.
    fn whole(tick: u64, row: R) -> Self {
        Self {
            tick,
            counted_from: tick,
            removed: false,
            row,
        }
    }
}

impl<R: Record> Entry<R> {
    pub(crate) fn read(batch: &RecordBatch) -> ColumnResult<Vec<Self>> {
        Self::read_from(&Columns::of(batch))
    }

    fn read_from(from: &Columns<'_>) -> ColumnResult<Vec<Self>> {
        let ticks = u64::read(from, "tick")?;
        let counted_from = Option::<u64>::read(from, COUNTED_FROM)?;
        let removed = bool::read(from, "removed")?;
        let rows = R::read(from)?.into_iter();
        let entries = ticks.into_iter().zip(counted_from).zip(removed).zip(rows);
        let entries = entries.map(|(((tick, counted_from), removed), row)| Self {
            tick,
            // Formats 1 and 2 had complete counts only.
            counted_from: counted_from.unwrap_or(tick),
            removed,
            row,
        });
        Ok(entries.collect())
    }
}

impl<R: Keyed> Entry<R> {
    /// Returns the row with complete counts, given the previous entry of the row.
    pub(crate) fn row_after(self, before: Option<&R>) -> R {
        let mut row = self.row;
        if self.counted_from != self.tick
            && let Some(before) = before
        {
            row.add(before);
        }
        row
    }

    /// Reads only the last entry of each row, with the counts of its earlier entries added. Last
    /// entries are a small fraction of all entries.
    pub(crate) fn read_last(batch: &RecordBatch) -> ColumnResult<Vec<Self>> {
        let columns = Columns::of(batch);
        let ticks = u64::read(&columns, "tick")?;
        let counted_from = Option::<u64>::read(&columns, COUNTED_FROM)?;
        let is_whole = |row: usize| counted_from[row].is_none_or(|from| from == ticks[row]);
        let mut runs: Vec<Range<usize>> = Vec::new();
        let mut begin = 0;
        for (row, is_end) in columns.ends_of_runs(R::COLUMNS).into_iter().enumerate() {
            if is_whole(row) {
                begin = row;
            }
            if is_end {
                runs.push(begin..row + 1);
                begin = row + 1;
            }
        }
        let mut last = Self::read_from(&columns.pick(&runs))?;
        for (entry, run) in last.iter_mut().zip(&runs) {
            if is_whole(run.start) {
                entry.counted_from = entry.tick;
            }
        }
        Ok(last)
    }

    /// Reads only the entries that remove a row.
    pub(crate) fn read_removed(batch: &RecordBatch) -> ColumnResult<Vec<Self>> {
        let removed = bool::read(&Columns::of(batch), "removed")?;
        let removed = removed
            .into_iter()
            .enumerate()
            .filter(|(_, removed)| *removed);
        let rows: Vec<_> = removed.map(|(row, _)| row..row + 1).collect();
        Self::read_from(&Columns::of(batch).pick(&rows))
    }
}

/// A table that is being written.
pub(crate) trait Pending: Send {
    /// Takes the unwritten rows. Without unwritten rows, the result still has the table's columns.
    fn take(&mut self) -> Result<RecordBatch, ArrowError>;
    /// The number of unwritten rows.
    fn rows(&self) -> usize;
    /// Writes every row of the next batch, even if it did not change.
    fn rewrite(&mut self);
    /// Drops the last states of rows, so that the next batch is written in full.
    fn restart(&mut self);
}

/// A table that writes a row only when it changes.
///
/// Rows are in nearly the same order in each batch, so the search for a row starts after the
/// previous row. With tens of thousands of pairs, hash lookups took 40% of the cost of recording.
#[derive(Debug)]
pub(crate) struct Changes<R: Keyed> {
    /// The last state of each row; `None` for a free slot.
    rows: Vec<Option<Last<R>>>,
    places: HashMap<R::Key, usize>,
    free: Vec<usize>,
    /// Slots of the rows of the last batch, in the order of that batch.
    order: Vec<usize>,
    /// Whether the next batch also writes unchanged rows.
    whole: bool,
    differences: bool,
    pending: Vec<Entry<R>>,
}

#[derive(Debug)]
struct Last<R: Keyed> {
    key: R::Key,
    row: R,
    /// The last batch that contained the row.
    tick: u64,
    /// The batch in which the row was last written with complete counts.
    counted_from: u64,
    /// Position of the row in the batch `tick`.
    rank: usize,
}

impl<R: Keyed> Last<R> {
    /// Returns the entry for a later state of this row: the growth of its counts, or complete
    /// counts if one of them decreased.
    fn grown_to(&self, tick: u64, row: &R) -> Entry<R> {
        match row.since(&self.row) {
            None => Entry::whole(tick, row.clone()),
            Some(row) => Entry {
                tick,
                counted_from: self.counted_from,
                removed: false,
                row,
            },
        }
    }
}

impl<R: Keyed> Default for Changes<R> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            places: HashMap::new(),
            free: Vec::new(),
            order: Vec::new(),
            whole: false,
            differences: false,
            pending: Vec::new(),
        }
    }
}

impl<R: Keyed> Changes<R> {
    /// Makes the table write counts as differences from the previous entry.
    pub(crate) fn write_differences(&mut self) {
        self.differences = true;
    }

    /// Records the changes that a batch made. Returns the keys of the rows that ended, because they
    /// are missing from the batch or because [`Keyed::ends_in`] reports that.
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
            let entry = match &known {
                Some(last) if !whole && last.row == row => None,
                Some(last) if !whole && self.differences => Some(last.grown_to(tick, &row)),
                _ => Some(Entry::whole(tick, row.clone())),
            };
            let counted_from = entry.as_ref().map(|entry| entry.counted_from);
            self.pending.extend(entry);
            let rank = order.len();
            match (place, known) {
                (Some(place), Some(last)) => {
                    next = last.rank + 1;
                    (last.row, last.tick, last.rank) = (row, tick, rank);
                    last.counted_from = counted_from.unwrap_or(last.counted_from);
                    order.push(place);
                }
                _ => order.push(self.add(Last {
                    key,
                    row,
                    tick,
                    counted_from: tick,
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

    /// Finds the slot of a row, trying the expected slot first.
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

    /// Removes a row that the batch does not contain, and returns its key.
    fn remove_unless_of(&mut self, tick: u64, place: usize) -> Option<R::Key> {
        let last = self.rows[place].take_if(|last| last.tick != tick)?;
        self.places.remove(&last.key);
        self.free.push(place);
        self.pending.push(Entry {
            removed: true,
            ..Entry::whole(tick, last.row)
        });
        Some(last.key)
    }
}

impl<R: Keyed + Send> Pending for Changes<R>
where
    R::Key: Send,
{
    fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let mut entries = std::mem::take(&mut self.pending);
        // Successive states of a row become adjacent. Such states compress well, because only the
        // low bytes of the counters differ.
        entries.sort_by_key(|entry| (entry.row.key(), entry.tick));
        let removed: Vec<&bool> = entries.iter().map(|entry| &entry.removed).collect();
        let mut columns = Vec::new();
        if self.differences {
            let counted_from: Vec<&u64> = entries.iter().map(|entry| &entry.counted_from).collect();
            u64::arrays(&counted_from, &mut columns);
        }
        bool::arrays(&removed, &mut columns);
        record_batch(keyed_schema::<R>(self.differences), &entries, columns)
    }

    fn rows(&self) -> usize {
        self.pending.len()
    }

    fn rewrite(&mut self) {
        self.whole = true;
    }

    fn restart(&mut self) {
        *self = Self {
            differences: self.differences,
            ..Self::default()
        };
    }
}

/// A table whose rows each belong to a single batch.
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
        let entries = rows.into_iter().map(|row| Entry::whole(tick, row));
        self.pending.extend(entries);
    }

    pub(crate) fn pending(&self) -> impl Iterator<Item = &R> {
        self.pending.iter().map(|entry| &entry.row)
    }
}

impl<R: Record + Send> Pending for Log<R> {
    fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let entries = std::mem::take(&mut self.pending);
        record_batch(log_schema::<R>(), &entries, Vec::new())
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

fn keyed_schema<R: Record>(differences: bool) -> Arc<Schema> {
    let mut first: Vec<Field> = Vec::new();
    u64::fields("tick", &mut first);
    if differences {
        u64::fields(COUNTED_FROM, &mut first);
    }
    bool::fields("removed", &mut first);
    let schema = schema::<R>(first);
    if !differences {
        return schema;
    }
    let (name, meaning) = COUNTS;
    let words = HashMap::from([(name.to_owned(), meaning.to_owned())]);
    Arc::new(schema.as_ref().clone().with_metadata(words))
}

/// Puts `columns` between the batch number and the columns of the record.
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

#[cfg(test)]
mod tests {
    use noctule_model::{Blame, BlameRow, Group, Measured};

    use super::*;
    use crate::tables::kept::{RecordOf as _, Writing};
    use crate::tables::{Owners, PairRecord};

    /// Writes one pair with the given wait after each batch; `None` means that the batch lacks the
    /// pair.
    fn written(waits: &[Option<u64>], whole: usize) -> RecordBatch {
        let mut changes = Changes::default();
        changes.write_differences();
        let to = &mut Writing {
            owners: &mut Owners::default(),
            measured: Measured::NONE,
            metered: false,
        };
        for (place, wait_ns) in waits.iter().enumerate() {
            if place == whole {
                changes.rewrite();
            }
            let row = wait_ns.map(|wait_ns| BlameRow {
                victim: Group::Kernel,
                culprit: Group::Unnamed,
                blame: Blame {
                    wait_ns,
                    preemptions: 3,
                },
            });
            let row = row.iter().map(|row| PairRecord::new(row, to));
            changes.step(place as u64, row);
        }
        changes.take().expect("columns of their schema")
    }

    #[test]
    fn counts_are_increments_or_whole_after_a_reset() {
        let waits = [Some(5), Some(7), Some(7), Some(9), Some(4), Some(6)];
        let gone = [None, Some(8), Some(9)];
        let batch = written(&[&waits[..], &gone].concat(), 3);
        let entries = Entry::<PairRecord>::read(&batch).expect("its columns");
        let of = |entry: &Entry<PairRecord>| {
            let row = entry.row.row(&Owners::default()).blame;
            (entry.tick, entry.counted_from, row.wait_ns, row.preemptions)
        };
        assert_eq!(
            entries.iter().map(of).collect::<Vec<_>>(),
            [
                (0, 0, 5, 3),
                (1, 0, 2, 0),
                // A full rewrite was requested.
                (3, 3, 9, 3),
                (4, 4, 4, 3),
                (5, 4, 2, 0),
                // The entry that removes the row.
                (6, 6, 6, 3),
                (7, 7, 8, 3),
                (8, 7, 1, 0),
            ]
        );
        let last = Entry::<PairRecord>::read_last(&batch).expect("its columns");
        assert_eq!(last.iter().map(of).collect::<Vec<_>>(), [(8, 8, 9, 3)]);
    }
}
