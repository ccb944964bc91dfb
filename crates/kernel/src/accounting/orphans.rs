//! Finds processes whose end was missed because the kernel skipped a program.
//!
//! A multithreaded process has a row in the table `carried`, which is deleted with its last record.
//! If the row remains although the process no longer exists, the row is used as that record.

use libbpf_rs::MapCore as _;
use noctule_model::IdSet;

use crate::abi::{self, TaskSample, sample_flag};
use crate::error::Error;
use crate::skel::switch::SwitchSkel;
use crate::table;

use super::walk::Process;

/// Interval between two checks. The record of a process can arrive some 100 ms after the process
/// left the task list. A process that is missing in two checks therefore has no record.
const STEP_NS: u64 = 2_000_000_000;

/// Processes that were missing at the last check.
#[derive(Default)]
pub(super) struct Orphans {
    looked_ns: u64,
    /// Number of rows at the last check.
    rows: usize,
    missing: IdSet<Process>,
    /// Followed processes whose row was removed here before their record arrived.
    followed: IdSet<Process>,
}

fn process(sample: &TaskSample) -> Process {
    (sample.tgid, sample.process_start)
}

impl Orphans {
    /// Removes and returns the rows of processes that were missing in this check and the previous
    /// one.
    pub(super) fn take(
        &mut self,
        switch: &SwitchSkel<'static>,
        living: Option<&IdSet<Process>>,
        now_ns: u64,
    ) -> Result<Vec<TaskSample>, Error> {
        let due = now_ns.saturating_sub(self.looked_ns) >= STEP_NS;
        let Some(living) = living.filter(|_| due) else {
            return Ok(Vec::new());
        };
        self.looked_ns = now_ns;
        let rows = table::entries(&switch.maps.carried, "reading the table of processes")?;
        self.rows = rows.iter().count();
        let mut missing = IdSet::default();
        let mut ended = Vec::new();
        for (key, row) in rows.iter() {
            let Some(mut row) = abi::plain::<TaskSample>(row) else {
                continue;
            };
            if living.contains(&process(&row)) {
                continue;
            }
            missing.insert(process(&row));
            // If the row no longer exists, the process was reported.
            if self.missing.contains(&process(&row)) && switch.maps.carried.delete(key).is_ok() {
                row.flags |= sample_flag::EXITED | sample_flag::CARRIED;
                ended.push(row);
            }
        }
        self.missing = missing;
        // A process that used several packages has a row for each. The last row reports its end.
        let mut reported = IdSet::default();
        for row in ended.iter_mut().rev() {
            if !reported.insert(process(row)) {
                row.flags = sample_flag::ELSEWHERE;
            }
        }
        let followed = ended.iter().filter(|row| row.is(sample_flag::FOLLOWED));
        self.followed.extend(followed.map(process));
        Ok(ended)
    }

    /// Returns whether processes were missing at the last check, so that another check must follow.
    pub(super) fn has_missing(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Returns the number of rows at the last check.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Handles a record that arrived late. The BPF program has counted this end itself.
    pub(super) fn reported(&mut self, ended: &TaskSample) {
        self.followed.remove(&process(ended));
    }

    /// Returns the number of followed processes whose end the BPF programs did not count.
    pub(super) fn followed(&self) -> u64 {
        self.followed.len() as u64
    }
}
