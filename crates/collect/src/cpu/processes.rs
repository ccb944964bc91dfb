//! Sums up threads by process.

use std::time::Duration;

use noctule_kernel::{TaskSample, sample_flag};
use noctule_model::{CgroupId, Comm, Counters, IdMap, IdSet, ProcessId, ProcessRow, Waiting};

use super::blocked::BlockedThreads;
use super::by_package::Parts;

/// Minimum number of batches for which a process is kept after it has disappeared. The exit record
/// of the process arrives late, and only has the usage that no batch has shown.
const MISSED: u32 = 3;

/// Maximum number of rows for ended processes in one batch. Each row takes about 1 KiB, so many
/// short processes must not make a batch arbitrarily large.
pub(super) const ENDED_ROWS: usize = 8192;

/// Name of the row that sums up the ended processes without their own row.
const OVERFLOW: &[u8] = b"_overflow";

/// Live processes, and ended processes whose exit has not been reported yet.
pub(super) struct Processes {
    /// Number of CPU packages of the machine.
    packages: usize,
    grace_ns: u64,
    /// Time of the previous batch.
    before_ns: u64,
    now_ns: u64,
    /// Boxed, because entries are large and up to half of the hash table is unused.
    living: IdMap<ProcessId, Box<Living>>,
    /// Values to add to the processes in this batch only.
    batch_extras: IdMap<(ProcessId, u32), Counters>,
    /// Processes that were reaped and whose exit was not reported before this batch.
    reaped: Vec<ProcessId>,
    /// Number of live followed processes.
    followed: u64,
    /// Usage of ended processes without their own row; `None` if there were none so far. The usage
    /// only grows.
    overflow: Option<ProcessRow>,
}

/// Kept small, because there are many processes and most of them sleep.
#[derive(Default)]
struct Living {
    row: ProcessRow,
    parts: Parts<Part>,
    /// Whether anything was added to the process's counters in this batch.
    changed: bool,
    /// If the process has disappeared, the time of the last batch in which it was alive. `missed`
    /// is the number of batches since then.
    gone_ns: Option<u64>,
    missed: u32,
    /// When one of the process's threads was last read.
    read_ns: u64,
}

/// Usage of a process on one package.
#[derive(Default)]
struct Part {
    shown: Counters,
    /// Usage of the process's threads, as far as it was read.
    reported: Counters,
    /// Usage of threads that have ended and usage in earlier cgroups, if any.
    carried: Option<Box<Counters>>,
}

impl Processes {
    pub(super) fn new(packages: usize, grace: Duration) -> Self {
        Self {
            packages,
            grace_ns: grace.as_nanos() as u64,
            before_ns: 0,
            now_ns: 0,
            living: IdMap::default(),
            batch_extras: IdMap::default(),
            reaped: Vec::new(),
            followed: 0,
            overflow: None,
        }
    }

    pub(super) fn begin(&mut self, now_ns: u64) {
        self.before_ns = std::mem::replace(&mut self.now_ns, now_ns);
        self.batch_extras.clear();
        self.batch_extras.shrink_to(self.living.len());
        for living in self.living.values_mut() {
            living.row.waiting = Waiting::default();
        }
    }

    /// Adds the usage of a thread since it was last read. `running` is how much of its current time
    /// slice will be read later.
    pub(super) fn add(&mut self, sample: &TaskSample, used: &Counters, running: &Counters) {
        let now = self.now_ns;
        if *running != Counters::default() {
            *self
                .batch_extras
                .entry((id(sample), sample.package))
                .or_default() += running;
        }
        let living = self.living(sample);
        living.parts.of(sample.package).reported += used;
        living.gone_ns = None;
        living.read_ns = now;
        living.row.waiting += &Waiting::thread(sample.waiting_ns);
        if sample.is(sample_flag::LEADER) {
            describe(&mut living.row, sample);
        }
    }

    /// Sets the usage of ended threads and the usage in earlier cgroups.
    pub(super) fn carry(&mut self, sample: &TaskSample) {
        let part = self.living(sample).parts.of(sample.package);
        part.carried = Some(Box::new(sample.values()));
        if sample.is(sample_flag::GONE) {
            self.reaped.push(id(sample));
        }
    }

    /// Adds the usage of a thread that was settled while the snapshot was taken.
    pub(super) fn add_late(&mut self, sample: &TaskSample) {
        let batch_extras = self.batch_extras.entry((id(sample), sample.package));
        *batch_extras.or_default() += &sample.values();
        let living = self.living(sample);
        if sample.is(sample_flag::LEADER) {
            describe(&mut living.row, sample);
        }
    }

    fn living(&mut self, sample: &TaskSample) -> &mut Living {
        let id = id(sample);
        let living = self.living.entry(id).or_insert_with(|| {
            // Until the leader is read, this thread describes the process.
            let mut living = Box::<Living>::default();
            describe(&mut living.row, sample);
            living
        });
        living.row.id = id;
        living.changed = true;
        living
    }

    /// Updates the rows after all samples of a batch were added. `there` lists the live processes,
    /// if known.
    pub(super) fn settle(&mut self, there: Option<&IdSet<(u32, u64)>>) {
        // The exit record may arrive one batch after the process disappears. Batches may be further
        // apart than the grace period.
        let (now, before, grace) = (self.now_ns, self.before_ns, self.grace_ns);
        if let Some(there) = there {
            self.followed = 0;
            for (id, living) in &mut self.living {
                // The process may have started after the list of live processes was made.
                match there.contains(&(id.pid, id.start_ns)) || living.read_ns == now {
                    true => living.gone_ns = None,
                    false => _ = living.gone_ns.get_or_insert(before),
                }
                self.followed += u64::from(living.row.followed && living.gone_ns.is_none());
            }
        }
        for id in self.reaped.drain(..) {
            if let Some(living) = self.living.get_mut(&id) {
                living.gone_ns.get_or_insert(before);
            }
        }
        for living in self.living.values_mut() {
            living.missed = living.gone_ns.map_or(0, |_| living.missed + 1);
        }
        let over =
            |living: &Living, gone: u64| living.missed > MISSED && now.saturating_sub(gone) > grace;
        self.living
            .retain(|_, living| !living.gone_ns.is_some_and(|gone| over(living, gone)));
        self.living.shrink_to(2 * self.living.len());
        for (id, living) in &mut self.living {
            if !std::mem::take(&mut living.changed) {
                continue;
            }
            for (package, part) in living.parts.iter_mut().enumerate() {
                let mut sum = part.reported;
                let batch_extras = self.batch_extras.get(&(*id, package as u32));
                for more in part.carried.as_deref().into_iter().chain(batch_extras) {
                    sum += more;
                }
                // A thread that ended while the snapshot was taken is missing only from this sum.
                part.shown = part.shown.max(&sum);
            }
        }
    }

    /// Returns the number of live followed processes, as last known.
    pub(super) fn followed(&self) -> u64 {
        self.followed
    }

    /// Returns the rows of live and of ended processes.
    ///
    /// Ended processes are removed from the live ones first, so that no process is in both lists.
    /// Of the ended processes that never had a row, at most [`ENDED_ROWS`] get one. The remaining
    /// ones share the overflow row, which is listed among the live processes with PID 0.
    pub(super) fn rows(
        &mut self,
        ended: &[TaskSample],
        blocked: &BlockedThreads,
    ) -> (Vec<ProcessRow>, Vec<ProcessRow>) {
        let mut exited = Vec::with_capacity(ended.len().min(ENDED_ROWS));
        for sample in ended {
            let had_row = self.living.contains_key(&id(sample));
            let Some(row) = self.end(sample) else {
                continue;
            };
            // All processes of a followed command must be listed. A process that already had a row
            // must not be counted again in the overflow row.
            if exited.len() < ENDED_ROWS || row.followed || had_row {
                exited.push(row);
            } else {
                let overflow = self.overflow.get_or_insert_with(|| ProcessRow {
                    comm: Comm::new(OVERFLOW),
                    ..ProcessRow::default()
                });
                overflow.counters += &row.counters;
                overflow.packages += &row.packages;
            }
        }
        let row = |living: &Living| {
            let (counters, packages) = living.parts.shown(self.packages, |part| &part.shown);
            ProcessRow {
                gone: living.gone_ns.is_some(),
                counters,
                packages,
                blocked: blocked.of_process(living.row.id),
                ..living.row.clone()
            }
        };
        let living = self.living.values().map(|living| row(living));
        (living.chain(self.overflow.clone()).collect(), exited)
    }

    fn end(&mut self, sample: &TaskSample) -> Option<ProcessRow> {
        // The sample of an ended process includes its carried usage.
        let end =
            |part: &mut Part| part.shown = part.shown.max(&(part.reported + &sample.values()));
        if sample.is(sample_flag::ELSEWHERE) {
            end(self.living(sample).parts.of(sample.package));
            return None;
        }
        let living = self.living.remove(&id(sample)).unwrap_or_default();
        let Living {
            mut row, mut parts, ..
        } = *living;
        // A carried sample describes the process as of the exit of its first thread.
        if row.id != id(sample) || !sample.is(sample_flag::CARRIED) {
            describe(&mut row, sample);
        }
        row.id = id(sample);
        row.exited = true;
        row.waiting = Waiting::default();
        end(parts.of(sample.package));
        (row.counters, row.packages) = parts.shown(self.packages, |part| &part.shown);
        Some(row)
    }
}

fn id(sample: &TaskSample) -> ProcessId {
    ProcessId {
        pid: sample.tgid,
        start_ns: sample.process_start,
    }
}

fn describe(row: &mut ProcessRow, sample: &TaskSample) {
    row.parent_pid = sample.parent;
    row.comm = Comm::new(&sample.comm_bytes());
    row.cgroup = CgroupId(sample.cgroup);
    row.kernel_thread = sample.is(sample_flag::KERNEL);
    row.followed = sample.is(sample_flag::FOLLOWED);
}

#[cfg(test)]
mod tests {
    use noctule_model::Counter;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Returns a process with one thread, as the kernel lists it.
    fn sample(pid: u32, cgroup: u64) -> TaskSample {
        TaskSample {
            pid,
            tgid: pid,
            cgroup,
            flags: sample_flag::LEADER,
            ..TaskSample::default()
        }
    }

    /// Takes one batch. For each process, returns the reported PID, its cgroup, and whether it has
    /// ended.
    fn step(
        processes: &mut Processes,
        seconds: u64,
        listed: &[TaskSample],
        ended: &[TaskSample],
    ) -> [Vec<(u32, u64, bool)>; 2] {
        processes.begin(seconds * SECOND);
        let none = Counters::default();
        for sample in listed {
            processes.add(sample, &none, &none);
        }
        let there = listed
            .iter()
            .map(|sample| (sample.tgid, sample.process_start));
        processes.settle(Some(&there.collect()));
        let (living, exited) = processes.rows(ended, &BlockedThreads::default());
        [living, exited].map(|rows| {
            let reported = rows.iter().map(|row| (row.id.pid, row.cgroup.0, row.gone));
            reported.collect()
        })
    }

    #[test]
    fn a_process_that_moved_and_ended_is_reported_only_where_it_ended() {
        let mut processes = Processes::new(1, Duration::from_secs(5));
        let before = step(&mut processes, 1, &[sample(7, 1)], &[]);
        assert_eq!(before, [vec![(7, 1, false)], vec![]]);
        let after = step(&mut processes, 2, &[], &[sample(7, 2)]);
        assert_eq!(after, [vec![], vec![(7, 2, false)]]);
    }

    #[test]
    fn inferred_exit_keeps_the_known_group() {
        let mut processes = Processes::new(1, Duration::from_secs(5));
        step(&mut processes, 1, &[sample(7, 2)], &[]);
        let carried = |pid| TaskSample {
            flags: sample_flag::LEADER | sample_flag::EXITED | sample_flag::CARRIED,
            ..sample(pid, 1)
        };
        let after = step(&mut processes, 5, &[], &[carried(7), carried(8)]);
        assert_eq!(after, [vec![], vec![(7, 2, false), (8, 1, false)]]);
    }

    #[test]
    fn an_unlisted_process_is_gone_until_its_exit_is_reported() {
        let mut processes = Processes::new(1, Duration::from_secs(5));
        step(&mut processes, 1, &[sample(7, 1)], &[]);
        let after = step(&mut processes, 2, &[], &[]);
        assert_eq!(after, [vec![(7, 1, true)], vec![]]);
        // However far apart batches are, the process is kept for some of them.
        for seconds in [12, 22] {
            let after = step(&mut processes, seconds, &[], &[]);
            assert_eq!(after, [vec![(7, 1, true)], vec![]]);
        }
        let after = step(&mut processes, 32, &[], &[]);
        assert_eq!(after, [vec![], vec![]], "longer than the grace");
    }

    #[test]
    fn a_late_exit_contains_all_earlier_counts_of_the_process() {
        let mut processes = Processes::new(1, Duration::from_secs(5));
        let mut used = Counters::default();
        used[Counter::CpuTime] = 3600 * SECOND;
        processes.begin(10 * SECOND);
        processes.add(&sample(7, 1), &used, &Counters::default());
        processes.settle(None);
        // The process disappears, and its exit record arrives two batches later.
        step(&mut processes, 20, &[], &[]);
        step(&mut processes, 30, &[], &[]);
        processes.begin(40 * SECOND);
        processes.settle(Some(&IdSet::default()));
        let mut end = sample(7, 1);
        end.counters.v[0] = SECOND;
        let (_, exited) = processes.rows(&[end], &BlockedThreads::default());
        assert_eq!(exited[0].counters[Counter::CpuTime], 3601 * SECOND);
    }

    #[test]
    fn flood_of_exits_shares_a_row_without_losing_time() {
        let mut processes = Processes::new(1, Duration::from_secs(5));
        let flood: Vec<TaskSample> = (1..=ENDED_ROWS as u32 + 5)
            .map(|pid| {
                let mut end = sample(pid, 1);
                end.counters.v[0] = 7;
                end
            })
            .collect();
        for batch in 1..=2 {
            processes.begin(batch * SECOND);
            processes.settle(Some(&IdSet::default()));
            let (living, exited) = processes.rows(&flood, &BlockedThreads::default());
            assert_eq!((living.len(), exited.len()), (1, ENDED_ROWS));
            let [overflow] = &living[..] else {
                panic!("one row");
            };
            assert_eq!((overflow.id.pid, &*overflow.comm.text()), (0, "_overflow"));
            assert_eq!(overflow.counters[Counter::CpuTime], batch * 5 * 7);
        }
    }

    #[test]
    fn the_shared_row_does_not_repeat_counts_of_a_shown_row() {
        let mut processes = Processes::new(1, Duration::from_secs(5));
        let used = |pid, ns| {
            let mut sample = sample(pid, 1);
            sample.counters.v[0] = ns;
            sample
        };
        let old = used(1, 3600 * SECOND);
        processes.begin(SECOND);
        processes.add(&old, &old.values(), &Counters::default());
        processes.settle(None);
        let (living, _) = processes.rows(&[], &BlockedThreads::default());
        assert_eq!(living[0].counters[Counter::CpuTime], 3600 * SECOND);
        // In a flood of processes, this process ends last.
        let mut flood: Vec<TaskSample> = (2..=ENDED_ROWS as u32 + 2)
            .map(|pid| used(pid, 7))
            .collect();
        flood.push(used(1, 5));
        processes.begin(2 * SECOND);
        processes.settle(Some(&IdSet::default()));
        let (living, exited) = processes.rows(&flood, &BlockedThreads::default());
        assert_eq!(living.len(), 1, "the shared one");
        assert_eq!(living[0].counters[Counter::CpuTime], 7);
        let last = exited.last().expect("there are some");
        assert_eq!(
            (last.id.pid, last.counters[Counter::CpuTime]),
            (1, 3600 * SECOND + 5)
        );
    }

    #[test]
    fn reaped_process_is_complete_before_its_exit_record() {
        let mut processes = Processes::new(1, Duration::from_secs(5));
        let sums = |flags, ns| {
            let mut sums = TaskSample {
                flags,
                comm: b"burner\0\0\0\0\0\0\0\0\0\0".map(|byte| byte as _),
                ..sample(7, 3)
            };
            sums.counters.v[0] = ns;
            sums
        };
        processes.begin(SECOND);
        processes.carry(&sums(sample_flag::CARRIED | sample_flag::GONE, 40));
        // The task iterator saw the process before it was reaped.
        processes.settle(Some(&IdSet::from_iter([(7, 0)])));
        let (living, _) = processes.rows(&[], &BlockedThreads::default());
        let row = &living[0];
        assert_eq!((&*row.comm.text(), row.cgroup), ("burner", CgroupId(3)));
        assert_eq!((row.counters[Counter::CpuTime], row.gone), (40, true));
        processes.begin(2 * SECOND);
        processes.settle(Some(&IdSet::default()));
        let (living, exited) =
            processes.rows(&[sums(sample_flag::EXITED, 40)], &BlockedThreads::default());
        assert_eq!(
            (living.len(), exited[0].counters[Counter::CpuTime]),
            (0, 40)
        );
    }

    #[test]
    fn a_process_that_started_after_the_listing_is_not_gone() {
        let mut processes = Processes::new(1, Duration::from_secs(5));
        processes.begin(SECOND);
        let none = Counters::default();
        processes.add(&sample(7, 1), &none, &none);
        processes.settle(Some(&IdSet::default()));
        let (living, _) = processes.rows(&[], &BlockedThreads::default());
        assert!(!living[0].gone);
    }
}
