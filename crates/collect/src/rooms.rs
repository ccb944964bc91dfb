//! Reads from the kernel's files how many threads of waiting groups are runnable, and how many CPUs
//! they may use.

use std::cmp::Reverse;
use std::collections::HashMap;

use noctule_model::{Batch, Cause, CgroupId, CgroupRow, Counter, ThreadRoom};

use crate::SettingFiles;

/// A group is read if its threads waited long enough for each other or for other groups: for more
/// than 1/PART of the time between two batches.
const PART: u64 = 20;

/// Number of batches after which a group is read again.
const AGAIN: u64 = 16;

/// Maximum number of threads to read for a batch. Beyond this number, no other group is read.
const THREADS: usize = 512;

/// Threads and CPUs of the groups that waited.
#[derive(Debug)]
pub struct Rooms {
    files: SettingFiles,
    known: HashMap<CgroupId, Known>,
    /// Wait of each group at the last batch, which was taken at `taken_ns`.
    waited: HashMap<CgroupId, u64>,
    taken_ns: u64,
}

#[derive(Debug)]
struct Known {
    room: Option<ThreadRoom>,
    /// Sequence number of the batch for which the group was read.
    sequence: u64,
}

impl Rooms {
    pub fn new(files: SettingFiles) -> Self {
        Self {
            files,
            known: HashMap::new(),
            waited: HashMap::new(),
            taken_ns: 0,
        }
    }

    /// Sets the rooms in a batch. The groups of the batch must have owners.
    pub fn read(&mut self, batch: &mut Batch) {
        let least = batch.taken_ns.saturating_sub(self.taken_ns) / PART;
        self.taken_ns = batch.taken_ns;
        let before = std::mem::take(&mut self.waited);
        let mut waiting: Vec<(u64, &CgroupRow)> = Vec::new();
        for row in &batch.cgroups {
            let waited = waited_ns(row);
            if waited > 0 {
                self.waited.insert(row.id, waited);
            }
            let grown = waited.saturating_sub(before.get(&row.id).copied().unwrap_or(0));
            if grown > least && self.is_due(row.id, batch.sequence) {
                waiting.push((grown, row));
            }
        }
        waiting.sort_by_key(|(grown, row)| (Reverse(*grown), row.id));
        let mut threads = 0;
        for (_, row) in waiting {
            if threads >= THREADS {
                break;
            }
            let path = row.owner.as_ref().map_or("", |owner| &owner.path);
            let (room, read) = self.files.room(path);
            threads += read.max(1);
            let sequence = batch.sequence;
            self.known.insert(row.id, Known { room, sequence });
        }
        self.known.retain(|id, _| self.waited.contains_key(id));
        for row in &mut batch.cgroups {
            row.room = self.known.get(&row.id).and_then(|known| known.room);
        }
    }

    fn is_due(&self, id: CgroupId, sequence: u64) -> bool {
        let known = self.known.get(&id);
        known.is_none_or(|known| sequence >= known.sequence + AGAIN)
    }
}

/// Returns how long the threads of a group waited for each other or for other groups, including
/// groups of the same container.
fn waited_ns(row: &CgroupRow) -> u64 {
    row.counters[Counter::Wait(Cause::Own)] + row.counters[Counter::Wait(Cause::Neighbour)]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use noctule_model::Owner;

    use super::*;
    use crate::testing::hierarchy;

    const SECOND: u64 = 1_000_000_000;

    fn batch(sequence: u64, waited_ns: u64) -> Batch {
        let mut row = CgroupRow {
            id: CgroupId(7),
            owner: Some(Arc::new(Owner {
                path: "/a".into(),
                ..Owner::unknown(CgroupId(7))
            })),
            ..CgroupRow::default()
        };
        row.counters[Counter::Wait(Cause::Own)] = waited_ns;
        Batch {
            sequence,
            taken_ns: sequence * SECOND,
            cgroups: vec![row],
            ..Batch::default()
        }
    }

    #[test]
    fn threads_of_a_waiting_group_are_read_periodically() {
        let root = hierarchy(&[
            ("cg/a/cgroup.procs", "7\n8\n"),
            ("proc/7/task/7/status", "Cpus_allowed_list:\t0-1\n"),
            ("proc/7/task/7/schedstat", "700 200 7\n"),
            ("proc/7/task/9/status", "Cpus_allowed_list:\t0-9\n"),
            ("proc/7/task/9/schedstat", "1 1 7\n"),
            ("proc/8/task/8/status", "Cpus_allowed_list:\t0-1\n"),
            ("proc/8/task/8/schedstat", "500 300 7\n"),
            ("sys/devices/system/cpu/online", "1-3\n"),
        ]);
        let files = SettingFiles::new(root.path(), &root.path().join("cg"));
        let mut rooms = Rooms::new(files);
        let mut read = |sequence, waited_ns| {
            let mut batch = batch(sequence, waited_ns);
            rooms.read(&mut batch);
            batch.cgroups[0].room
        };
        let room = |threads, cpus| Some(ThreadRoom { threads, cpus });
        assert_eq!(read(1, 0), None);
        assert_eq!(read(2, SECOND / 100), None, "it hardly waits");
        assert_eq!(read(3, SECOND), room(2, 1));
        std::fs::write(root.path().join("cg/a/cgroup.procs"), "8\n").expect("it can be written");
        assert_eq!(read(4, 2 * SECOND), room(2, 1), "it is not read again yet");
        assert_eq!(read(30, 2 * SECOND), room(2, 1), "it waits no more");
        assert_eq!(read(31, 3 * SECOND), room(1, 1));
    }
}
