//! Finds the usage of threads and processes that a walk no longer finds.
//!
//! The kernel releases a thread, after which no pid lookup finds it, before the thread leaves its
//! CPU for the last time. When the kernel reaps a process, it frees the leader one RCU grace period
//! later. Only then does the BPF program report the end of a multithreaded process. A snapshot
//! during that period must look for such threads and processes. Otherwise their usage would be
//! missing from the snapshot.

use std::thread;
use std::time::Duration;

use libbpf_rs::{MapCore as _, MapFlags};
use noctule_model::IdSet;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::Snapshot;
use crate::abi::{self, CpuSlot, TaskSample, sample_flag};
use crate::error::Error;
use crate::skel::switch::SwitchSkel;
use crate::table;

/// Maximum number of checks for released threads that still run, and the pause after each check.
/// Such a thread runs for some microseconds, or longer if the host takes its CPU.
const LOOKS: u32 = 50;
const PAUSE: Duration = Duration::from_micros(100);

/// Finds threads and processes that a walk no longer finds.
#[derive(Clone, Copy)]
pub(super) struct Reaped {
    /// Whether pids in BPF programs equal the pids in the agent's system calls.
    pub(super) same_pids: bool,
    pub(super) possible_cpus: u32,
}

impl Reaped {
    /// Waits until no released thread runs. By then the usage of each is settled, because the BPF
    /// program settles a released thread whenever it leaves its CPU.
    pub(super) fn await_last_switches(self, switch: &SwitchSkel<'static>) -> Result<(), Error> {
        for _ in 0..LOOKS {
            let run = self.released_thread_runs(switch)?;
            // During a switch the slot already names the next thread, before the previous one is
            // settled.
            thread::sleep(PAUSE);
            if !run {
                break;
            }
        }
        Ok(())
    }

    fn released_thread_runs(self, switch: &SwitchSkel<'static>) -> Result<bool, Error> {
        let slots = table::first(
            &switch.maps.cpus,
            self.possible_cpus,
            "reading the state of CPUs",
        )?;
        let mut slots = slots
            .iter()
            .filter_map(|(_, slot)| abi::plain::<CpuSlot>(slot));
        Ok(slots.any(|slot| slot.pid != 0 && self.is_released(slot.pid)))
    }

    /// Returns whether no thread or process has this id.
    fn is_released(self, number: u32) -> bool {
        let pid = Pid::from_raw(number.cast_signed());
        self.same_pids && pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
    }

    /// Returns the carried sums of reaped processes, if sums were carried since the last snapshot.
    /// `rows` contains the rows that this snapshot has read so far.
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
        let read = rows.iter().filter(|row| row.is(sample_flag::CARRIED));
        let read: IdSet<_> = read.map(key).collect();
        let carried = table::entries(&switch.maps.carried, "reading the table of processes")?;
        let carried = carried.iter().filter_map(|(_, row)| abi::plain(row));
        let gone = carried.filter(|row| !read.contains(&key(row)) && self.is_released(row.tgid));
        let mut sums: Vec<TaskSample> = gone.collect();
        for row in &mut sums {
            row.flags |= sample_flag::CARRIED;
            // The process still existed at the moment of this snapshot. The next one reports all of
            // it.
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

/// Adds to the records of ended processes the sums that threads carried after the record, and
/// deletes these sums from the table. This snapshot has read them, and the next one would report
/// them as the usage of another process.
pub(super) fn take_rest(switch: &SwitchSkel<'static>, snapshot: &mut Snapshot) {
    let table = &switch.maps.carried;
    let read = |place: &[u8]| {
        let row = table.lookup(place, MapFlags::ANY).ok().flatten();
        row.and_then(|row| abi::plain(&row))
    };
    add_rest(snapshot, read, |place| table.delete(place).is_ok());
}

/// `read` returns a row of the table, and `delete` returns whether it deleted the row.
fn add_rest(
    snapshot: &mut Snapshot,
    read: impl Fn(&[u8]) -> Option<TaskSample>,
    mut delete: impl FnMut(&[u8]) -> bool,
) {
    let gone = snapshot.tasks.iter();
    let gone = gone.filter(|row| row.is(sample_flag::GONE));
    let gone: IdSet<_> = gone.map(key).collect();
    let ended = snapshot.ended.iter_mut();
    for ended in ended.filter(|row| gone.contains(&key(row))) {
        let place = place(ended);
        // If the sums grew after the moment, the next snapshot takes them.
        let rest = read(&place).filter(|rest| !rest.grew_after(snapshot.taken_ns));
        if let Some(rest) = rest.filter(|_| delete(&place)) {
            ended.add(&rest);
        }
    }
}

/// Returns the key of the row in the table, as the BPF programs write it.
fn place(row: &TaskSample) -> Vec<u8> {
    let (tgid, start, package) = key(row);
    let place = [tgid, package].map(u32::to_ne_bytes);
    [place.as_flattened(), &start.to_ne_bytes()].concat()
}

/// Returns the process and the package of a row.
fn key(row: &TaskSample) -> (u32, u64, u32) {
    (row.tgid, row.process_start, row.package)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use noctule_model::Counter;

    use super::*;

    const MOMENT: u64 = 1 << 40 | 7;

    fn sample(tgid: u32, cpu_ns: u64, flags: u32) -> TaskSample {
        let mut sample = TaskSample {
            tgid,
            process_start: 3,
            flags,
            ..TaskSample::default()
        };
        sample.counters.v[Counter::CpuTime.index()] = cpu_ns;
        sample
    }

    #[test]
    fn sums_after_the_record_are_added_to_it_and_not_read_again() {
        let gone = sample_flag::CARRIED | sample_flag::GONE;
        let growing = TaskSample {
            later_than: MOMENT as u32,
            ..sample(9, 4, 0)
        };
        let rows = [sample(7, 40, 0), sample(8, 5, 0), growing];
        let mut table: HashMap<Vec<u8>, TaskSample> =
            rows.iter().map(|row| (place(row), *row)).collect();
        let exited = |tgid| sample(tgid, 100, sample_flag::EXITED);
        let mut snapshot = Snapshot {
            taken_ns: MOMENT,
            // Process 8 was not found reaped, so this snapshot has not read its row.
            tasks: vec![sample(7, 40, gone), sample(9, 4, gone), sample(6, 2, gone)],
            ended: vec![exited(6), exited(7), exited(8), exited(9)],
            ..Snapshot::default()
        };
        let mut taken = Vec::new();
        let read = |place: &[u8]| table.get(place).copied();
        add_rest(&mut snapshot, read, |place| {
            taken.push(place.to_vec());
            true
        });
        table.retain(|place, _| !taken.contains(place));
        let used = snapshot.ended.iter().map(TaskSample::values);
        let used: Vec<u64> = used.map(|it| it[Counter::CpuTime]).collect();
        assert_eq!(used, [100, 140, 100, 100]);
        let mut left: Vec<u32> = table.values().map(|row| row.tgid).collect();
        left.sort_unstable();
        assert_eq!(left, [8, 9]);
        // A row that another reader deleted in between belongs to its snapshot.
        let mut again = Snapshot {
            tasks: vec![sample(7, 40, gone)],
            ended: vec![exited(7)],
            ..snapshot
        };
        add_rest(&mut again, |_| Some(sample(7, 40, 0)), |_| false);
        assert_eq!(again.ended[0].values()[Counter::CpuTime], 100);
    }
}
