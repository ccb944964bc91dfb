//! The tables of a segment, each in its own file. A row consists of its record and the number of
//! its batch.

mod cpu;
mod energy;
mod event;
mod group;
pub(crate) mod kept;
mod memory;
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
pub(crate) use memory::MemoryRecord;
pub(crate) use node::{NodeRecord, PackageRecord};
pub(crate) use owner::{OwnerNumber, OwnerRecord, Owners};
pub(crate) use process::ProcessRecord;
pub(crate) use quota::QuotaRecord;
pub(crate) use status::{FeatureRecord, LossRecord, MapRecord, ProgramRecord};
pub(crate) use waits::{Distribution, PairRecord, WaitRecord};

/// A row that is written only when it changes. When it disappears, it is written once more and
/// marked as removed.
pub(crate) trait Keyed: Record {
    /// Identifies a row across batches.
    type Key: Copy + Eq + Hash + Ord;

    /// The columns of the key. If successive rows have equal values in these columns, only the last
    /// row is read when earlier batches are not needed. Empty for small tables.
    const COLUMNS: &[&str] = &[];

    fn key(&self) -> Self::Key;

    /// Returns whether some of this row's counters were reset in the row of a later batch.
    fn ends_in(&self, _later: &Self) -> bool {
        false
    }
}
