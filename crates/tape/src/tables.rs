//! The tables of a segment: one file each. A record has the columns of a row; beside them each row has
//! the number of its batch.

mod cpu;
mod energy;
mod event;
mod group;
mod node;
mod owner;
mod process;
mod quota;
mod status;
mod waits;

use std::hash::Hash;

use crate::column::Record;

pub(crate) use cpu::CpuRecord;
pub(crate) use energy::ZoneRecord;
pub(crate) use event::EventRecord;
pub(crate) use group::{DestinationRecord, GroupRecord};
pub(crate) use node::{NodeRecord, PackageRecord};
pub(crate) use owner::{OwnerNumber, OwnerRecord, Owners};
pub(crate) use process::ProcessRecord;
pub(crate) use quota::QuotaRecord;
pub(crate) use status::{FeatureRecord, LossRecord, MapRecord, ProgramRecord};
pub(crate) use waits::{Distribution, PairRecord, WaitRecord};

/// Rows that stay until they change: a row is written when something in it is another than before,
/// and once more, marked as removed, when it is no longer there.
pub(crate) trait Keyed: Record {
    /// What is one and the same row.
    type Key: Copy + Eq + Hash + Ord;

    /// The columns of the key: of rows that follow each other with the same values in them only the last counts
    /// where the batches between are not asked for. None: the table is small.
    const COLUMNS: &[&str] = &[];

    /// The key of this one.
    fn key(&self) -> Self::Key;

    /// Whether a part of what it counted is forgotten in the row of a later batch.
    fn ends_in(&self, _later: &Self) -> bool {
        false
    }
}
