//! The tables of one flush, decompressed.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use arrow_array::RecordBatch;

use crate::changes::Entry;
use crate::column::Record;
use crate::error::Damage;
use crate::index::{Chunk, Flush};
use crate::segment::Segment;
use crate::tables::{Keyed, PairRecord, ProcessRecord, QuotaRecord, WaitRecord};

/// The tables from which batches are built.
pub(crate) const ALL: &[&str] = &[
    "owners",
    "node",
    "exited",
    "packages",
    "cpus",
    "processes",
    "groups",
    "quotas",
    "memory",
    "waits",
    "pairs",
    "destinations",
    "zones",
    "features",
    "losses",
    "programs",
    "maps",
];

/// The tables for reports about groups: quotas, memory, waits and their causes. These tables
/// contain half of a recording's bytes.
pub(crate) const OF_GROUPS: &[&str] = &[
    "owners", "node", "groups", "quotas", "memory", "waits", "pairs", "features", "losses",
];

/// Decompressed tables.
pub(crate) struct Parts<'a> {
    segment: &'a Segment,
    tables: BTreeMap<&'static str, Part<'a>>,
}

type Part<'a> = (RecordBatch, &'a Chunk);

/// A table that has rows in a flush.
struct Found<'a> {
    table: &'static str,
    bytes: u64,
    flush: &'a Flush,
}

impl<'a> Parts<'a> {
    /// Decompresses these tables on two threads.
    pub(crate) fn read(
        segment: &'a Segment,
        flush: &'a Flush,
        tables: &[&'static str],
    ) -> Result<Self, Damage> {
        let found = tables.iter().map(|table| Found {
            table,
            bytes: flush.bytes(table),
            flush,
        });
        let [mine, others] = halves(found.filter(|found| found.bytes > 0).collect());
        let (mine, others) = thread::scope(|scope| {
            let others = scope.spawn(|| decode(segment, &others));
            (decode(segment, &mine), others.join())
        });
        let mut tables = mine?;
        // Panics caused by forged bytes are caught during decoding, so this panic is a bug.
        tables.extend(others.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        Ok(Self { segment, tables })
    }

    /// Reads every entry of a table.
    pub(crate) fn all<R: Record>(&self, table: &str) -> Result<Vec<Entry<R>>, Damage> {
        self.entries(table, Entry::read)
    }

    /// Reads the entries of a table, or only the last entry of each row.
    pub(crate) fn rows<R: Keyed>(&self, table: &str, last: bool) -> Result<Vec<Entry<R>>, Damage> {
        match last {
            false => self.all(table),
            true => self.entries(table, Entry::read_last),
        }
    }

    fn entries<E>(
        &self,
        table: &str,
        read: impl FnOnce(&RecordBatch) -> Result<Vec<E>, String>,
    ) -> Result<Vec<E>, Damage> {
        let part = self.tables.get(table);
        part.map_or(Ok(Vec::new()), |part| self.segment.entries(part, read))
    }

    /// Returns the numbers of batches that lack a process, quota, pair or bucket of the previous
    /// batch. A process whose exit is reported in the same batch is not included.
    pub(crate) fn removals(&self) -> Result<BTreeSet<u64>, Damage> {
        let exited = self.all::<ProcessRecord>("exited")?;
        let exited: BTreeSet<_> = exited.iter().map(|it| (it.tick, it.row.key())).collect();
        let removed = self.entries("processes", Entry::<ProcessRecord>::read_removed)?;
        let removed = removed.iter().map(|it| (it.tick, it.row.key()));
        let unreported = removed.filter(|it| !exited.contains(it));
        let mut ticks: BTreeSet<u64> = unreported.map(|(tick, _)| tick).collect();
        let quotas = self.entries("quotas", Entry::<QuotaRecord>::read_removed)?;
        ticks.extend(quotas.iter().map(|it| it.tick));
        let pairs = self.entries("pairs", Entry::<PairRecord>::read_removed)?;
        ticks.extend(pairs.iter().map(|it| it.tick));
        let waits = self.entries("waits", Entry::<WaitRecord>::read_removed)?;
        ticks.extend(waits.iter().map(|it| it.tick));
        Ok(ticks)
    }
}

fn decode<'a>(
    segment: &Segment,
    found: &[Found<'a>],
) -> Result<BTreeMap<&'static str, Part<'a>>, Damage> {
    let mut parts = BTreeMap::new();
    for found in found {
        if let Some(part) = segment.record_batch(found.flush, found.table)? {
            parts.insert(found.table, part);
        }
    }
    Ok(parts)
}

/// Splits tables into two lists of about equal size in bytes.
fn halves(mut found: Vec<Found<'_>>) -> [Vec<Found<'_>>; 2] {
    found.sort_by_key(|found| std::cmp::Reverse(found.bytes));
    let mut halves = [Vec::new(), Vec::new()];
    let mut sums = [0_u64; 2];
    for found in found {
        let lighter = usize::from(sums[1] < sums[0]);
        sums[lighter] = sums[lighter].saturating_add(found.bytes);
        halves[lighter].push(found);
    }
    halves
}
