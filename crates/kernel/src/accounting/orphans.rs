//! Processes whose end was not seen, because a program was kept from running.
//!
//! A process of several threads leaves a row in the table `carried`, which goes with its last
//! record. A row that stays although nothing is left of the process is that record.

use libbpf_rs::MapCore as _;
use noctule_model::IdSet;

use crate::abi::{self, TaskSample, sample_flag};
use crate::error::Error;
use crate::skel::switch::SwitchSkel;
use crate::table;

use super::walk::Process;

/// Between two looks. The record of a process comes up to some 100 ms after it is gone from the
/// list of tasks, so who is missing at two looks has none.
const STEP_NS: u64 = 2_000_000_000;

/// Who was missing at the last look.
#[derive(Default)]
pub(super) struct Orphans {
    looked_ns: u64,
    /// How many rows there were.
    rows: usize,
    missing: IdSet<Process>,
    /// Those that were taken and followed, of which no record has come.
    followed: IdSet<Process>,
}

fn process(sample: &TaskSample) -> Process {
    (sample.tgid, sample.process_start)
}

impl Orphans {
    /// Takes out the rows of processes that were missing at this look and at the one before.
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
        let rows = table::entries(&switch.maps.carried, "the table of processes")?;
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
            // A row that is gone by now was reported.
            if self.missing.contains(&process(&row)) && switch.maps.carried.delete(key).is_ok() {
                row.flags |= sample_flag::EXITED | sample_flag::CARRIED;
                ended.push(row);
            }
        }
        self.missing = missing;
        // One that used several packages has a row for each: the last reports its end.
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

    /// Whether some were missing at the last look: another one is to follow.
    pub(super) fn has_missing(&self) -> bool {
        !self.missing.is_empty()
    }

    /// How many rows there were at the last look.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The record of an end has come, however late: the kernel side has counted it.
    pub(super) fn reported(&mut self, ended: &TaskSample) {
        self.followed.remove(&process(ended));
    }

    /// How many followed processes have ended of which the kernel side does not know.
    pub(super) fn followed(&self) -> u64 {
        self.followed.len() as u64
    }
}
