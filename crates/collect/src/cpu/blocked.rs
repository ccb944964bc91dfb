//! Tracks threads that are currently blocked. A snapshot reads a thread once after it blocks, and
//! not again while it sleeps. The state remains valid until the thread is read again or ends.

use noctule_kernel::{Snapshot, TaskSample};
use noctule_model::{BlockClass, Blocked, CgroupId, IdMap, ProcessId};

/// Blocked threads, and their sums by process and by cgroup.
#[derive(Default)]
pub(super) struct BlockedThreads {
    threads: IdMap<u32, Block>,
    processes: IdMap<ProcessId, Blocked>,
    cgroups: IdMap<CgroupId, Blocked>,
    /// Threads that blocked after the snapshot was taken. Such threads are included in the next
    /// snapshot.
    later: Vec<(u32, Block)>,
    now_ns: u64,
}

struct Block {
    process: ProcessId,
    cgroup: CgroupId,
    class: BlockClass,
    since_ns: u64,
}

impl BlockedThreads {
    /// Removes the threads that have ended. Must be called before the threads of the snapshot are
    /// read.
    pub(super) fn begin(&mut self, snapshot: &Snapshot) {
        self.now_ns = snapshot.taken_ns;
        for (pid, block) in std::mem::take(&mut self.later) {
            self.insert(pid, block);
        }
        if let Some(living) = &snapshot.living_threads {
            let pids = self.threads.keys().copied();
            let gone: Vec<u32> = pids.filter(|pid| !living.contains(pid)).collect();
            gone.into_iter().for_each(|pid| self.remove(pid));
        }
        for &pid in &snapshot.gone_threads {
            self.remove(pid);
        }
        for end in &snapshot.ended {
            self.remove(end.tgid);
        }
        self.threads.shrink_to(2 * self.threads.len());
        self.processes.shrink_to(2 * self.processes.len());
        self.cgroups.shrink_to(2 * self.cgroups.len());
    }

    /// Updates whether the sampled thread is blocked.
    pub(super) fn read(&mut self, sample: &TaskSample) {
        self.remove(sample.pid);
        let Some((class, since_ns)) = sample.block() else {
            return;
        };
        let process = ProcessId {
            pid: sample.tgid,
            start_ns: sample.process_start,
        };
        let block = Block {
            process,
            cgroup: CgroupId(sample.cgroup),
            class,
            since_ns,
        };
        match since_ns > self.now_ns {
            true => self.later.push((sample.pid, block)),
            false => self.insert(sample.pid, block),
        }
    }

    fn insert(&mut self, pid: u32, block: Block) {
        let (class, since_ns) = (block.class, block.since_ns);
        let process = self.processes.entry(block.process).or_default();
        process.add(class, 1, since_ns);
        let cgroup = self.cgroups.entry(block.cgroup).or_default();
        cgroup.add(class, 1, since_ns);
        self.threads.insert(pid, block);
    }

    fn remove(&mut self, pid: u32) {
        let Some(block) = self.threads.remove(&pid) else {
            return;
        };
        if let Some(blocked) = self.processes.get_mut(&block.process) {
            blocked.remove(block.class, block.since_ns);
            if blocked.is_empty() {
                self.processes.remove(&block.process);
            }
        }
        if let Some(blocked) = self.cgroups.get_mut(&block.cgroup) {
            blocked.remove(block.class, block.since_ns);
            if blocked.is_empty() {
                self.cgroups.remove(&block.cgroup);
            }
        }
    }

    pub(super) fn of_process(&self, id: ProcessId) -> Blocked {
        self.processes.get(&id).copied().unwrap_or_default()
    }

    pub(super) fn of_cgroup(&self, id: CgroupId) -> Blocked {
        self.cgroups.get(&id).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use noctule_model::{Counter, Counters, IdSet};

    use super::*;

    fn sample(pid: u32, cgroup: u64, block: Option<(BlockClass, u64)>) -> TaskSample {
        TaskSample {
            pid,
            tgid: 1,
            cgroup,
            block: block.map_or(0, |(class, since)| since << 4 | (class as u64 + 1)),
            ..TaskSample::default()
        }
    }

    fn disk_ns(blocked: Blocked, now: u64) -> u64 {
        let counters = blocked.added_to(Counters::default(), now);
        counters[Counter::Blocked(BlockClass::Disk)]
    }

    #[test]
    fn sleeping_thread_counts_in_its_group_until_read_again() {
        let process = ProcessId {
            pid: 1,
            start_ns: 0,
        };
        let mut threads = BlockedThreads {
            now_ns: 1000,
            ..BlockedThreads::default()
        };
        let (first, second) = (CgroupId(5), CgroupId(6));
        threads.read(&sample(1, 5, Some((BlockClass::Disk, 100))));
        threads.read(&sample(2, 5, Some((BlockClass::Disk, 150))));
        assert_eq!(disk_ns(threads.of_process(process), 200), 150);
        assert_eq!(disk_ns(threads.of_cgroup(first), 300), 350);
        // One thread moves to another cgroup and stays blocked. The other thread wakes up.
        threads.read(&sample(1, 6, Some((BlockClass::Disk, 220))));
        threads.read(&sample(2, 5, None));
        assert_eq!(disk_ns(threads.of_cgroup(first), 300), 0);
        assert_eq!(disk_ns(threads.of_cgroup(second), 300), 80);
        assert_eq!(disk_ns(threads.of_process(process), 300), 80);
    }

    #[test]
    fn block_after_the_snapshot_counts_in_the_next_one() {
        let mut threads = BlockedThreads::default();
        let moment = |taken_ns| Snapshot {
            taken_ns,
            ..Snapshot::default()
        };
        threads.begin(&moment(100));
        threads.read(&sample(1, 5, Some((BlockClass::Disk, 130))));
        assert_eq!(disk_ns(threads.of_cgroup(CgroupId(5)), 100), 0);
        threads.begin(&moment(200));
        assert_eq!(disk_ns(threads.of_cgroup(CgroupId(5)), 200), 70);
    }

    #[test]
    fn exited_thread_no_longer_counts_as_blocked() {
        let mut threads = BlockedThreads {
            now_ns: 1000,
            ..BlockedThreads::default()
        };
        for pid in 1..=4 {
            threads.read(&sample(pid, 5, Some((BlockClass::Disk, 100))));
        }
        let gone = Snapshot {
            gone_threads: vec![2],
            living_threads: Some(IdSet::from_iter([1, 2, 3])),
            ..Snapshot::default()
        };
        threads.begin(&gone);
        assert_eq!(disk_ns(threads.of_cgroup(CgroupId(5)), 110), 20);
        // Without a list of living threads, every thread is read again.
        threads.begin(&Snapshot {
            living_threads: Some(IdSet::default()),
            ..Snapshot::default()
        });
        assert!(threads.of_cgroup(CgroupId(5)).is_empty());
        assert!(threads.processes.is_empty() && threads.cgroups.is_empty());
    }
}
