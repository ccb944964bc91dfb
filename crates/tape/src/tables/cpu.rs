//! The table of individual CPUs.

use noctule_model::{CpuRow, Group};

use super::kept::{Keeps, Writing, record_of};
use super::waits::Place;
use super::{Keyed, Owners};
use crate::column::{List, record};

record! {
    /// A group that used a CPU since the previous batch, with its time.
    pub(crate) struct HolderRecord {
        holder: Place,
        ns: u64,
    }
}

impl Keeps<Vec<(Group, u64)>> for List<HolderRecord> {
    fn keep(holders: &Vec<(Group, u64)>, to: &mut Writing<'_>) -> Self {
        let record = |(group, ns): &(Group, u64)| HolderRecord {
            holder: Keeps::keep(group, to),
            ns: *ns,
        };
        Self(holders.iter().map(record).collect())
    }

    fn value(&self, owners: &Owners) -> Vec<(Group, u64)> {
        let holder = |it: &HolderRecord| (it.holder.value(owners), it.ns);
        self.0.iter().map(holder).collect()
    }
}

record_of! {
    pub(crate) struct CpuRecord of CpuRow {
        cpu: u32,
        elapsed_ns: u64,
        idle_ns: u64,
        interrupt_ns: Option<u64>,
        steal_ns: Option<u64>,
        /// Holders in descending order of time.
        holders: List<HolderRecord>,
    }
}

impl Keyed for CpuRecord {
    type Key = u32;

    fn key(&self) -> u32 {
        self.cpu
    }
}
