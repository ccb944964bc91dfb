//! Wait histograms and the blame matrix, read from the BPF maps.

use libbpf_rs::{MapCore, MapFlags};
use noctule_model::{Blame, Group, Histogram};

use crate::abi::{self, BlameKey, WaitRow};
use crate::error::{Context, Error};
use crate::skel::switch::{SwitchSkel, types};
use crate::table;

/// The wait histogram of one group.
#[derive(Clone)]
pub struct WaitCounts {
    /// The group that waited; [`Group::Unnamed`] for groups without a row of their own.
    pub group: Group,
    /// Number of waits in each bucket of [`noctule_model::Histogram`] that has any, modulo 2^32.
    /// Most groups have waits in few buckets.
    buckets: Box<[(u16, u32)]>,
    /// Sum over the culprits that did not fit into the matrix.
    pub unnamed: Blame,
}

impl std::fmt::Debug for WaitCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let waits: u64 = self.buckets.iter().map(|(_, n)| u64::from(*n)).sum();
        let mut debug = f.debug_struct("WaitCounts");
        debug.field("group", &self.group).field("waits", &waits);
        debug.field("unnamed", &self.unnamed).finish()
    }
}

impl WaitCounts {
    /// Creates the histogram from the number of waits in each bucket.
    pub fn new(group: Group, buckets: &[u32; Histogram::BUCKETS], unnamed: Blame) -> Self {
        let used = (0..).zip(buckets).filter(|(_, waits)| **waits > 0);
        Self {
            group,
            buckets: used.map(|(bucket, waits)| (bucket, *waits)).collect(),
            unnamed,
        }
    }

    fn of(group: Group, row: &WaitRow) -> Self {
        Self::new(group, &row.buckets, abi::blame(&row.unnamed))
    }

    /// Returns the number of waits in each bucket, modulo 2^32.
    pub fn buckets(&self) -> [u32; Histogram::BUCKETS] {
        let mut buckets = [0; Histogram::BUCKETS];
        for &(bucket, waits) in &self.buckets {
            buckets[usize::from(bucket)] = waits;
        }
        buckets
    }
}

/// Rows are read one by one if the last used row number is at least `SPARSE_ROWS`, and at most one
/// of `SPARSE` rows is used.
const SPARSE_ROWS: u32 = 1024;
const SPARSE: u32 = 4;

/// Number of rows to read at a time. All rows together take 10 MiB.
const PORTION: u32 = 256;

/// Marks the rows of the histograms as free. Only kernels without atomic operations need this; on
/// other kernels, the BPF program allocates unused rows with a counter. Row 0 is the overflow row.
pub(super) fn free_rows(switch: &SwitchSkel<'static>, rows: u32) -> Result<(), Error> {
    for number in (1..=rows).rev() {
        free_row(switch, number).context("adding a free row to the table of waits")?;
    }
    Ok(())
}

fn free_row(switch: &SwitchSkel<'static>, number: u32) -> Result<(), libbpf_rs::Error> {
    let free = &switch.maps.free_rows;
    free.update(&[], &number.to_ne_bytes(), MapFlags::ANY)
}

/// Returns the histograms, including the overflow row.
pub(super) fn counts(switch: &SwitchSkel<'static>) -> Result<Vec<WaitCounts>, Error> {
    let numbers = table::entries(&switch.maps.wait_rows, "reading the table of waits")?;
    let named = numbers.iter().filter_map(|(key, number)| {
        let group = abi::group(u64::from_ne_bytes(key.try_into().ok()?))?;
        Some((group, u32::from_ne_bytes(number.try_into().ok()?)))
    });
    let named: Vec<(Group, u32)> = named.collect();
    let last = named.iter().map(|(_, number)| *number).max().unwrap_or(0);
    let overflow = (Group::Unnamed, 0);
    let count = named.len() as u32 + 1;
    let named = named.into_iter().chain([overflow]);
    if last >= SPARSE_ROWS && last / SPARSE > count {
        return one_by_one(switch, named);
    }
    let mut named: Vec<(Group, u32)> = named.collect();
    named.sort_unstable_by_key(|(_, number)| *number);
    let mut counts = Vec::with_capacity(named.len());
    for named in named.chunk_by(|a, b| a.1 / PORTION == b.1 / PORTION) {
        let from = named[0].1 / PORTION * PORTION;
        let what = "reading the rows of the table of waits";
        let rows = table::portion(&switch.maps.waits, from, PORTION, what)?;
        counts.extend(named.iter().filter_map(|(group, number)| {
            let row = abi::plain::<WaitRow>(rows.value((number - from) as usize)?)?;
            Some(WaitCounts::of(*group, &row))
        }));
    }
    Ok(counts)
}

/// Reads used rows one by one. If most rows are free, as after a burst of groups, this transfers
/// less data.
fn one_by_one(
    switch: &SwitchSkel<'static>,
    named: impl Iterator<Item = (Group, u32)>,
) -> Result<Vec<WaitCounts>, Error> {
    let mut counts = Vec::new();
    for (group, number) in named {
        let row = switch
            .maps
            .waits
            .lookup(&number.to_ne_bytes(), MapFlags::ANY);
        let row = row.context("reading a row of the table of waits")?;
        let row = row.and_then(|bytes| abi::plain::<WaitRow>(&bytes));
        counts.extend(row.map(|row| WaitCounts::of(group, &row)));
    }
    Ok(counts)
}

/// Returns the cells of the matrix: victim, culprit.
pub(super) fn blames(switch: &SwitchSkel<'static>) -> Result<Vec<(Group, Group, Blame)>, Error> {
    let rows = table::entries(
        &switch.maps.blames,
        "reading the table of victims and culprits",
    )?;
    let row = |(key, value): (&[u8], &[u8])| {
        let key = abi::plain::<BlameKey>(key)?;
        let blame = abi::plain::<types::blame>(value)?;
        let (victim, culprit) = (abi::group(key.victim)?, abi::group(key.culprit)?);
        Some((victim, culprit, abi::blame(&blame)))
    };
    Ok(rows.iter().filter_map(row).collect())
}

/// Deletes a histogram and frees its row. No thread may wait in the group any more.
pub(super) fn forget_waits(switch: &SwitchSkel<'static>, group: Group) {
    let Some(key) = abi::group_number(group).map(u64::to_ne_bytes) else {
        return;
    };
    let (rows, waits) = (&switch.maps.wait_rows, &switch.maps.waits);
    let Ok(Some(number)) = rows.lookup(&key, MapFlags::ANY) else {
        return;
    };
    // The order matters: the row is first removed from the index, then cleared, then freed. A
    // failure loses a row.
    let empty = vec![0; waits.value_size() as usize];
    let freed = rows
        .delete(&key)
        .and_then(|()| waits.update(&number, &empty, MapFlags::ANY))
        .and_then(|()| switch.maps.free_rows.update(&[], &number, MapFlags::ANY));
    if let Err(error) = freed {
        tracing::debug!(?group, %error, "cannot free a row in the table of waits");
    }
}

/// Deletes a cell and returns its value.
pub(super) fn forget_blame(
    switch: &SwitchSkel<'static>,
    victim: Group,
    culprit: Group,
) -> Option<Blame> {
    let numbers = (abi::group_number(victim)?, abi::group_number(culprit)?);
    let key = [numbers.0.to_ne_bytes(), numbers.1.to_ne_bytes()].concat();
    let cells = &switch.maps.blames;
    let last = match cells.lookup_and_delete(&key) {
        Ok(last) => last?,
        // Before v5.14, reading and deleting a cell of a hash map takes two calls, and a change
        // between the two is lost.
        Err(_) => {
            let last = cells.lookup(&key, MapFlags::ANY).ok()??;
            // If the cell were kept, it would be read again and counted twice.
            cells.delete(&key).ok()?;
            last
        }
    };
    Some(abi::blame(&abi::plain::<types::blame>(&last)?))
}
