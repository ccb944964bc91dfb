//! The last minute of each CPU.

use std::collections::{BTreeSet, VecDeque};

use noctule_analysis::{CpuUse, CpuWindow};
use noctule_model::{Batch, Level};

use crate::data::history::{LENGTH, column};

/// The CPUs in each of the last [`LENGTH`] windows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cpus {
    /// Sequence number of the newest window.
    newest: u64,
    /// One entry per window, newest last. Holders are single cgroups, not groups of a level.
    windows: VecDeque<Vec<CpuUse>>,
}

impl Cpus {
    /// Adds the window between two batches.
    pub(crate) fn record(&mut self, first: &Batch, last: &Batch) {
        let mut window = CpuWindow::default();
        window.observe(first);
        window.observe(last);
        self.newest = last.sequence;
        self.windows.push_back(window.cpus(Level::Cgroup));
        let surplus = self.windows.len().saturating_sub(LENGTH);
        self.windows.drain(..surplus);
    }

    /// Returns the CPUs of the newest window, in ascending order.
    pub(crate) fn now(&self) -> &[CpuUse] {
        self.windows.back().map_or(&[], Vec::as_slice)
    }

    /// Returns every CPU that was online within the last minute.
    pub(crate) fn numbers(&self) -> BTreeSet<u32> {
        let all = self.windows.iter().flatten();
        all.map(|cpu| cpu.cpu).collect()
    }

    /// Returns every use of a CPU within the last minute. The newest ones come first, because names
    /// can arrive late.
    pub(crate) fn all(&self) -> impl Iterator<Item = &CpuUse> + Clone {
        self.windows.iter().rev().flatten()
    }

    /// Divides the last minute of a CPU into `columns` columns, oldest first. Each column contains
    /// its windows.
    pub(crate) fn minute(&self, cpu: u32, columns: usize) -> Vec<Vec<&CpuUse>> {
        let mut cells = vec![Vec::new(); columns];
        let missing = LENGTH - self.windows.len();
        for (at, window) in self.windows.iter().enumerate() {
            let cell = column(self.newest, missing + at, columns);
            let found = window.binary_search_by_key(&cpu, |it| it.cpu);
            if let (Some(cell), Ok(found)) = (cell, found) {
                cells[cell].push(&window[found]);
            }
        }
        cells
    }
}
