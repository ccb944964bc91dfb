//! From threads to processes.

use std::collections::HashMap;
use std::time::Duration;

use noctule_kernel::{TaskSample, sample_flag};
use noctule_model::{CgroupId, Comm, Counters, ProcessId, ProcessRow};

/// The living processes, with what makes their counters monotonic.
pub(super) struct Processes {
    grace_ns: u64,
    now_ns: u64,
    living: HashMap<ProcessId, Living>,
}

struct Living {
    row: ProcessRow,
    /// Sum over the threads in the snapshot that is being added up.
    sum: Counters,
    seen_ns: u64,
}

impl Processes {
    pub(super) fn new(grace: Duration) -> Self {
        Self {
            grace_ns: grace.as_nanos() as u64,
            now_ns: 0,
            living: HashMap::new(),
        }
    }

    pub(super) fn begin(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        for living in self.living.values_mut() {
            living.sum = Counters::default();
        }
    }

    pub(super) fn add(&mut self, sample: &TaskSample, used: &Counters) {
        let id = id(sample);
        let living = self.living.entry(id).or_insert_with(|| Living {
            row: ProcessRow {
                id,
                ..ProcessRow::default()
            },
            sum: Counters::default(),
            seen_ns: 0,
        });
        living.sum += used;
        living.seen_ns = self.now_ns;
        if sample.is(sample_flag::LEADER) {
            describe(&mut living.row, sample);
        }
    }

    /// Brings the rows up to date.
    pub(super) fn settle(&mut self) {
        let (now, grace) = (self.now_ns, self.grace_ns);
        self.living
            .retain(|_, living| now.saturating_sub(living.seen_ns) <= grace);
        for living in self.living.values_mut().filter(|l| l.seen_ns == now) {
            // A thread that ended while the snapshot was taken is missing from it for once.
            living.row.counters = living.row.counters.max(&living.sum);
        }
    }

    pub(super) fn rows(&self) -> Vec<ProcessRow> {
        self.living
            .values()
            .map(|living| living.row.clone())
            .collect()
    }

    /// Takes out the processes that have ended, with their last figures.
    pub(super) fn end(&mut self, ended: &[TaskSample]) -> Vec<ProcessRow> {
        let last = |sample: &TaskSample| {
            let known = self.living.remove(&id(sample));
            let mut row = ProcessRow {
                id: id(sample),
                exited: true,
                ..ProcessRow::default()
            };
            describe(&mut row, sample);
            row.counters = sample.values();
            if let Some(known) = known {
                row.counters = row.counters.max(&known.row.counters);
            }
            row
        };
        ended.iter().map(last).collect()
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
