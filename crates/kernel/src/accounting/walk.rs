//! The threads that a snapshot reads: those that have run since the one before, or have something
//! else to be read. The kernel side lists them (`bpf/switch/listed.bpf.h`), so a thread that sleeps
//! costs nothing.
//!
//! Now and then there is a walk over all threads: it reports which processes are alive, and lists the threads that
//! nothing else did. It takes the kernel some 0.4 us a thread, so where there are few it is made for
//! every snapshot, else as often as a small part of a CPU allows. Before Linux 6.2 a listed thread
//! cannot be found again, and every snapshot walks over all threads and reads each.

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

/// Walks may take that part of one CPU: one in so many.
const PART: u64 = 2000;

/// The longest time between two walks, and the shortest between one and another that something lost
/// makes necessary.
const MOST_NS: u64 = 60_000_000_000;
const LEAST_NS: u64 = 2_000_000_000;

/// Thread-group id and start: one process for ever.
pub(super) type Process = (u32, u64);

/// Whether threads are listed (from Linux 6.2 on).
pub(super) fn lists_threads(facts: &Facts) -> bool {
    // The kernel finds it in the first namespace; the walk looks at the agent's own.
    facts.task_storage && !facts.pid_namespace && facts.hooks.contains("bpf_task_from_pid()")
}

/// Reads threads.
pub(super) struct Walk {
    /// Walks over all threads; where there is no list, it reads each.
    all: Link,
    /// Reads those that are listed.
    listed: Option<Link>,
    /// Lists those that are queued on a CPU.
    waiting: Option<Link>,
    /// When the next walk is due, and whether one is made for every snapshot.
    due_ns: u64,
    walked_ns: u64,
    always: bool,
    /// Ends without a record: some process may be gone untold.
    lost: u64,
    bytes: Vec<u8>,
    rows: Vec<TaskSample>,
    programs: Vec<ProgramHandle>,
}

/// What was read.
#[derive(Default)]
pub(super) struct Read {
    pub(super) rows: Vec<TaskSample>,
    /// What a walk over all threads found, if there was one.
    pub(super) living: Option<Living>,
    /// Blocked threads that have gone since they were read.
    pub(super) gone: Vec<u32>,
}

/// What a walk over all threads found.
#[derive(Debug, Default)]
pub(super) struct Living {
    /// Each process that is there.
    pub(super) processes: IdSet<Process>,
    /// Threads that are there: each that was blocked when it was last read, and others. None where
    /// every snapshot reads every thread.
    pub(super) threads: IdSet<u32>,
}

impl Walk {
    /// Attaches what of the iterators is loaded, which then need their object no more.
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
                    Some(listed.context("the iterator of listed tasks")?),
                    Some(waiting.context("the iterator of queued tasks")?),
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
            all: all.attach().context("the task iterator")?,
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

    /// The programs, for measuring what they cost.
    pub(super) fn programs(&self) -> impl Iterator<Item = ProgramHandle> {
        self.programs.iter().filter_map(ProgramHandle::again)
    }

    /// From now on every snapshot lists the processes that are alive.
    pub(super) fn always(&mut self) {
        self.always = true;
    }

    /// Walks over all threads without reading any: the kernel side makes room for their accounts, or
    /// begins them.
    pub(super) fn begin(&mut self) -> Result<(), Error> {
        iterator::read(&self.all, "the iterator of tasks", &mut self.bytes)
    }

    /// The next snapshot has it.
    pub(super) fn now(&mut self) {
        self.due_ns = 0;
    }

    /// Something looks as if a process were gone: the next snapshot is to know.
    pub(super) fn hurry(&mut self) {
        self.due_ns = self.due_ns.min(self.walked_ns + LEAST_NS);
    }

    /// The snapshot failed for which these were read: they come with the next. What ran then need not
    /// run any more.
    pub(super) fn give_back(&mut self, rows: Vec<TaskSample>) {
        self.rows = rows;
        for row in &mut self.rows {
            row.flags &= !sample_flag::RUNNING;
        }
        self.hurry();
    }

    /// Reads what is to be read at this moment. What was read when something fails comes with the
    /// next: the kernel side has settled it.
    pub(super) fn read(
        &mut self,
        switch: &mut SwitchSkel<'static>,
        now_ns: u64,
    ) -> Result<Read, Error> {
        let living = match self.listed.is_some() {
            true => self.read_listed(switch, now_ns)?,
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
    ) -> Result<Option<Living>, Error> {
        if let Some(waiting) = &self.waiting {
            iterator::read(waiting, "the iterator of queued tasks", &mut self.bytes)?;
        }
        let lost = losses(switch);
        if std::mem::replace(&mut self.lost, lost) != lost {
            self.hurry();
        }
        let mut living = None;
        if self.always || now_ns >= self.due_ns {
            living = Some(self.walk(now_ns)?);
        }
        // Once for a snapshot: a thread that is listed again while it is read comes with the next.
        self.drain(switch)?;
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

    /// Reads what is listed by now; who is listed meanwhile comes with the next snapshot.
    fn drain(&mut self, switch: &mut SwitchSkel<'static>) -> Result<(), Error> {
        let (Some(listed), Some(data)) = (&self.listed, bss(switch)) else {
            return Ok(());
        };
        data.listed_until = data.listed_end;
        loop {
            let before = places(switch).0;
            let read = iterator::read(listed, "the iterator of listed tasks", &mut self.bytes);
            take_rows(&self.bytes, &mut self.rows);
            read?;
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

/// CPU time of this thread: to be kept from the CPU is not the walk's cost.
fn used_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn bss<'a>(switch: &'a mut SwitchSkel<'static>) -> Option<&'a mut types::bss> {
    switch.maps.bss_data.as_deref_mut()
}

/// How far the list was read, and how far it is to be.
fn places(switch: &SwitchSkel<'static>) -> (u64, u64) {
    let bss = switch.maps.bss_data.as_deref();
    bss.map_or((0, 0), |bss| (bss.listed_next, bss.listed_until))
}

/// What leaves processes untold: ends and accounts.
fn losses(switch: &SwitchSkel<'static>) -> u64 {
    use types::loss;
    let bss = switch.maps.bss_data.as_deref();
    let kinds = [loss::LOSS_EXIT_RECORD, loss::LOSS_ACCOUNT];
    bss.map_or(0, |bss| {
        kinds.iter().map(|kind| bss.losses[kind.0 as usize]).sum()
    })
}
