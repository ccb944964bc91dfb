//! Threads and processes that no walk finds any more.
//!
//! The kernel releases a thread, so that nothing finds it by its number, before the thread leaves its CPU
//! for the last time. It reaps a process, and frees its leader a grace period later, which is when the
//! kernel side reports the end of a process of several threads. A snapshot in between has to look for
//! both, or what they used is missing from it.

use std::thread;
use std::time::Duration;

use noctule_model::IdSet;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::abi::{self, CpuSlot, TaskSample, sample_flag};
use crate::error::Error;
use crate::skel::switch::SwitchSkel;
use crate::table;

/// How often a snapshot looks for released threads that still run, with a pause after each look. They
/// take some microseconds, and longer where the host took the CPU.
const LOOKS: u32 = 50;
const PAUSE: Duration = Duration::from_micros(100);

/// Looks for them.
#[derive(Clone, Copy)]
pub(super) struct Reaped {
    /// The numbers of the kernel side are those that the agent's system calls take.
    pub(super) same_pids: bool,
    pub(super) possible_cpus: u32,
}

impl Reaped {
    /// Waits until no released thread runs. The kernel side has settled each by then, for it settles a
    /// released thread whenever it leaves its CPU.
    pub(super) fn await_last_switches(self, switch: &SwitchSkel<'static>) -> Result<(), Error> {
        for _ in 0..LOOKS {
            let run = self.released_thread_runs(switch)?;
            // At a switch the slot names the next thread before the one that leaves is settled.
            thread::sleep(PAUSE);
            if !run {
                break;
            }
        }
        Ok(())
    }

    fn released_thread_runs(self, switch: &SwitchSkel<'static>) -> Result<bool, Error> {
        let slots = table::first(&switch.maps.cpus, self.possible_cpus, "the slots of CPUs")?;
        let mut slots = slots
            .iter()
            .filter_map(|(_, slot)| abi::plain::<CpuSlot>(slot));
        Ok(slots.any(|slot| slot.pid != 0 && self.is_released(slot.pid)))
    }

    /// Whether nothing has this number, of a thread or a process.
    fn is_released(self, number: u32) -> bool {
        let pid = Pid::from_raw(number.cast_signed());
        self.same_pids && pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
    }

    /// What is carried for processes that were reaped, where something was carried since the last
    /// snapshot. `rows`: what this one has read so far.
    pub(super) fn sums(
        self,
        switch: &mut SwitchSkel<'static>,
        rows: &[TaskSample],
        taken_ns: u64,
    ) -> Result<Vec<TaskSample>, Error> {
        let unread = switch.maps.bss_data.as_deref_mut();
        let unread = unread.map_or(0, |bss| std::mem::take(&mut bss.carried_unread));
        if unread == 0 {
            return Ok(Vec::new());
        }
        let key = |row: &TaskSample| (row.tgid, row.process_start, row.package);
        let read = rows.iter().filter(|row| row.is(sample_flag::CARRIED));
        let read: IdSet<_> = read.map(key).collect();
        let carried = table::entries(&switch.maps.carried, "the table of processes")?;
        let carried = carried.iter().filter_map(|(_, row)| abi::plain(row));
        let gone = carried.filter(|row| !read.contains(&key(row)) && self.is_released(row.tgid));
        let mut sums: Vec<TaskSample> = gone.collect();
        for row in &mut sums {
            row.flags |= sample_flag::CARRIED;
            // At the moment it was still there, and the next snapshot has all of it.
            match (
                row.grew_after(taken_ns),
                switch.maps.bss_data.as_deref_mut(),
            ) {
                (true, Some(bss)) => bss.carried_unread = 1,
                _ => row.flags |= sample_flag::GONE,
            }
        }
        Ok(sums)
    }
}
