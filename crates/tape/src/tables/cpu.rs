//! The table of individual CPUs.

use noctule_model::CpuRow;

use super::Keyed;
use super::waits::{group, kind};
use crate::column::{List, Word, record};

record! {
    /// A group that used a CPU since the batch before, with its time.
    pub(crate) struct HolderRecord {
        holder_kind: Word,
        holder: u64,
        ns: u64,
    }
}

record! {
    /// A CPU.
    pub(crate) struct CpuRecord {
        cpu: u32,
        elapsed_ns: u64,
        idle_ns: u64,
        interrupt_ns: Option<u64>,
        steal_ns: Option<u64>,
        /// Sorted by time, longest first.
        holders: List<HolderRecord>,
    }
}

impl Keyed for CpuRecord {
    type Key = u32;

    fn key(&self) -> u32 {
        self.cpu
    }
}

impl CpuRecord {
    pub(crate) fn new(row: &CpuRow) -> Self {
        let CpuRow {
            cpu,
            elapsed_ns,
            idle_ns,
            interrupt_ns,
            steal_ns,
            holders,
        } = row;
        let holders = holders.iter().map(|&(group, ns)| {
            let (holder_kind, holder) = kind(group);
            HolderRecord {
                holder_kind,
                holder,
                ns,
            }
        });
        Self {
            cpu: *cpu,
            elapsed_ns: *elapsed_ns,
            idle_ns: *idle_ns,
            interrupt_ns: *interrupt_ns,
            steal_ns: *steal_ns,
            holders: List(holders.collect()),
        }
    }

    pub(crate) fn row(&self) -> CpuRow {
        let holders = self.holders.0.iter();
        CpuRow {
            cpu: self.cpu,
            elapsed_ns: self.elapsed_ns,
            idle_ns: self.idle_ns,
            interrupt_ns: self.interrupt_ns,
            steal_ns: self.steal_ns,
            holders: holders
                .map(|it| (group(it.holder_kind, it.holder), it.ns))
                .collect(),
        }
    }
}
