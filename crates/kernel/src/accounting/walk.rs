//! Reads the threads for a snapshot: those that have run since the previous one, or have other data
//! to read. The BPF programs list them (`bpf/switch/listed.bpf.h`), so a sleeping thread costs
//! nothing.
//!
//! Occasionally a walk visits all threads. Such a walk reports the living processes, and lists
//! threads that no program has listed. The kernel needs about 0.4 us per thread. With few threads,
//! every snapshot includes a walk. With more threads, walks are less frequent, so that they use
//! only a small fraction of a CPU. Before Linux 6.2 threads cannot be looked up by pid, so every
//! snapshot walks over all threads and reads each.

use std::os::fd::AsFd as _;

use libbpf_rs::Link;
use noctule_model::IdSet;
use rustix::time::{ClockId, clock_gettime};

use crate::abi::{self, LivingRecord, TaskSample, sample_flag};
use crate::cost::ProgramHandle;
use crate::error::{Context as _, Error};
use crate::facts::Facts;
use crate::iterator;
use crate::skel::switch::{SwitchSkel, types};

/// Walks may use one CPU for 1/PART of the time.
const PART: u64 = 2000;

/// The longest interval between two walks, and the shortest one if a loss requires another walk.
const MOST_NS: u64 = 60_000_000_000;
const LEAST_NS: u64 = 2_000_000_000;

/// Thread group id and start time, which identify a process uniquely.
pub(super) type Process = (u32, u64);

/// Returns whether threads are listed (since Linux 6.2).
pub(super) fn lists_threads(facts: &Facts) -> bool {
    // The kernel looks pids up in the initial namespace, but the walk visits the agent's own.
    facts.task_storage && !facts.pid_namespace && facts.hooks.contains("bpf_task_from_pid()")
}

/// Reads the accounts of threads for a snapshot.
pub(super) struct Walk {
    /// The iterator over all threads. If threads are not listed, this iterator reads each of them.
    all: Link,
    /// The iterator that reads listed threads.
    listed: Option<Link>,
    /// The iterator that lists threads queued on a CPU.
    waiting: Option<Link>,
    /// When the next walk is due, when the last one took place, and whether every snapshot includes
    /// one.
    due_ns: u64,
    walked_ns: u64,
    always: bool,
    /// Number of lost exit records and accounts. If this number grows, a process may have ended
    /// unreported.
    lost: u64,
    bytes: Vec<u8>,
    rows: Vec<TaskSample>,
    programs: Vec<ProgramHandle>,
}

/// The result of reading the threads.
#[derive(Default)]
pub(super) struct Read {
    pub(super) rows: Vec<TaskSample>,
    /// Result of a walk over all threads, if there was one.
    pub(super) living: Option<Living>,
    /// Threads that were blocked when last read, and no longer exist.
    pub(super) gone: Vec<u32>,
}

/// Result of a walk over all threads.
#[derive(Debug, Default)]
pub(super) struct Living {
    pub(super) processes: IdSet<Process>,
    /// Live threads, including those that were blocked when last read. Empty if every snapshot
    /// reads every thread.
    pub(super) threads: IdSet<u32>,
}

impl Walk {
    /// Attaches the loaded iterators. The object of the iterators is not needed afterwards.
    pub(super) fn attach(
        iterators: &SwitchSkel<'static>,
        lists_threads: bool,
    ) -> Result<Self, Error> {
        let (progs, maps) = (&iterators.progs, &iterators.maps);
        let (all, listed, waiting) = match lists_threads {
            true => {
                let listed = progs.sample_listed.attach_iter(maps.turns.as_fd());
                let waiting = progs.list_waiting.attach_iter(maps.cpus.as_fd());
                (
                    &progs.walk_tasks,
                    Some(listed.context("attaching the iterator over listed threads")?),
                    Some(waiting.context("attaching the iterator over queued threads")?),
                )
            }
            false => (&progs.sample_tasks_older, None, None),
        };
        let programs = [
            ProgramHandle::of("walk_tasks", &progs.walk_tasks),
            ProgramHandle::of("sample_tasks_older", &progs.sample_tasks_older),
            ProgramHandle::of("sample_listed", &progs.sample_listed),
            ProgramHandle::of("list_waiting", &progs.list_waiting),
        ];
        Ok(Self {
            all: all.attach().context("attaching the task iterator")?,
            listed,
            waiting,
            due_ns: 0,
            walked_ns: 0,
            always: false,
            lost: 0,
            bytes: Vec::new(),
            rows: Vec::new(),
            programs: programs.into_iter().flatten().collect(),
        })
    }

    /// Returns the programs, for measuring their cost.
    pub(super) fn programs(&self) -> impl Iterator<Item = ProgramHandle> {
        self.programs.iter().filter_map(ProgramHandle::again)
    }

    /// Makes every later snapshot list the living processes.
    pub(super) fn always(&mut self) {
        self.always = true;
    }

    /// Walks over all threads without reading them. The program creates or initializes their
    /// accounts.
    pub(super) fn begin(&mut self) -> Result<(), Error> {
        iterator::read(&self.all, "iterating over tasks", &mut self.bytes)
    }

    /// Makes the next snapshot include a walk.
    pub(super) fn now(&mut self) {
        self.due_ns = 0;
    }

    /// Brings the next walk forward, because a process may have ended.
    pub(super) fn hurry(&mut self) {
        self.due_ns = self.due_ns.min(self.walked_ns + LEAST_NS);
    }

    /// Keeps the rows of a failed snapshot for the next one. Threads that were running then may
    /// have stopped.
    pub(super) fn keep_rows_for_next(&mut self, rows: Vec<TaskSample>) {
        self.rows = rows;
        for row in &mut self.rows {
            row.flags &= !sample_flag::RUNNING;
        }
        self.hurry();
    }

    /// Reads the threads for this moment. After a failure, the next snapshot includes the rows that
    /// were already read, because the BPF program has settled them.
    pub(super) fn read(
        &mut self,
        switch: &mut SwitchSkel<'static>,
        now_ns: u64,
        empty_ring: &dyn Fn() -> Result<(), Error>,
    ) -> Result<Read, Error> {
        let living = match self.listed.is_some() {
            true => self.read_listed(switch, now_ns, empty_ring)?,
            false => Some(self.read_all()?),
        };
        let mut rows = std::mem::take(&mut self.rows);
        let gone = rows.extract_if(.., |row| row.is(sample_flag::THREAD_GONE));
        let gone = gone.map(|row| row.pid).collect();
        Ok(Read { rows, living, gone })
    }

    fn read_all(&mut self) -> Result<Living, Error> {
        let read = self.begin();
        take_rows(&self.bytes, &mut self.rows);
        read?;
        let threads = self.rows.iter().filter(|r| !r.is(sample_flag::CARRIED));
        Ok(Living {
            processes: threads.map(|row| (row.tgid, row.process_start)).collect(),
            threads: IdSet::default(),
        })
    }

    fn read_listed(
        &mut self,
        switch: &mut SwitchSkel<'static>,
        now_ns: u64,
        empty_ring: &dyn Fn() -> Result<(), Error>,
    ) -> Result<Option<Living>, Error> {
        if let Some(waiting) = &self.waiting {
            iterator::read(waiting, "iterating over queued threads", &mut self.bytes)?;
        }
        let lost = losses(switch);
        if std::mem::replace(&mut self.lost, lost) != lost {
            self.hurry();
        }
        let mut living = None;
        if self.always || now_ns >= self.due_ns {
            living = Some(self.walk(now_ns)?);
            empty_ring()?;
        }
        // Called once per snapshot. A thread that is listed again during the read is included in
        // the next snapshot.
        self.drain(switch, empty_ring)?;
        if bss(switch).is_some_and(|bss| std::mem::take(&mut bss.listed_full) != 0) {
            self.now();
        }
        Ok(living)
    }

    fn walk(&mut self, now_ns: u64) -> Result<Living, Error> {
        let began = used_ns();
        self.begin()?;
        let took = used_ns().saturating_sub(began);
        self.walked_ns = now_ns;
        self.due_ns = now_ns + (took * PART).min(MOST_NS);
        let mut living = Living::default();
        let records = self.bytes.chunks_exact(size_of::<LivingRecord>());
        for it in records.filter_map(abi::plain::<LivingRecord>) {
            if it.pid == it.tgid {
                living.processes.insert((it.tgid, it.start));
            }
            living.threads.insert(it.pid);
        }
        Ok(living)
    }

    /// Reads the threads listed so far. The next snapshot includes threads that are listed during
    /// the read.
    fn drain(
        &mut self,
        switch: &mut SwitchSkel<'static>,
        empty_ring: &dyn Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (Some(listed), Some(data)) = (&self.listed, bss(switch)) else {
            return Ok(());
        };
        data.listed_until = data.listed_end;
        loop {
            let before = places(switch).0;
            let read = iterator::read(listed, "iterating over listed threads", &mut self.bytes);
            take_rows(&self.bytes, &mut self.rows);
            read?;
            empty_ring()?;
            let (next, until) = places(switch);
            if next == until || next == before {
                return Ok(());
            }
        }
    }
}

fn take_rows(bytes: &[u8], rows: &mut Vec<TaskSample>) {
    let records = bytes.chunks_exact(size_of::<TaskSample>());
    rows.extend(records.filter_map(abi::plain::<TaskSample>));
}

/// Returns the CPU time of the calling thread, so that preemption does not count as cost of the
/// walk.
fn used_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn bss<'a>(switch: &'a mut SwitchSkel<'static>) -> Option<&'a mut types::bss> {
    switch.maps.bss_data.as_deref_mut()
}

/// Returns the position up to which the list was read, and the end position for this snapshot.
fn places(switch: &SwitchSkel<'static>) -> (u64, u64) {
    let bss = switch.maps.bss_data.as_deref();
    bss.map_or((0, 0), |bss| (bss.listed_next, bss.listed_until))
}

/// Returns the number of losses (exit records and accounts) after which processes can be missing.
fn losses(switch: &SwitchSkel<'static>) -> u64 {
    use types::loss;
    let bss = switch.maps.bss_data.as_deref();
    let kinds = [loss::LOSS_EXIT_RECORD, loss::LOSS_THREAD_ACCOUNT];
    bss.map_or(0, |bss| {
        kinds.iter().map(|kind| bss.losses[kind.0 as usize]).sum()
    })
}
