//! The table of individual CPUs.

use noctule_model::{CpuRow, Group};

use super::Keyed;
use super::waits::{group, kind};
use crate::column::{Keeps, List, Word, record};

record! {
    /// A group that used a CPU since the previous batch, with its time.
    pub(crate) struct HolderRecord {
        holder_kind: Word,
        holder: u64,
        ns: u64,
    }
}

impl Keeps<Vec<(Group, u64)>> for List<HolderRecord> {
    fn keep(holders: &Vec<(Group, u64)>) -> Self {
        let record = |&(group, ns): &(Group, u64)| {
            let (holder_kind, holder) = kind(group);
            HolderRecord {
                holder_kind,
                holder,
                ns,
            }
        };
        Self(holders.iter().map(record).collect())
    }

    fn value(&self) -> Vec<(Group, u64)> {
        let holder = |it: &HolderRecord| (group(it.holder_kind, it.holder), it.ns);
        self.0.iter().map(holder).collect()
    }
}

record! {
    /// A CPU.
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
