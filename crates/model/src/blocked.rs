//! Blocked time: a thread neither runs nor waits for a CPU, because it waits for something else.

use std::ops::AddAssign;

use crate::named::named_values;
use crate::{Counter, Counters};

named_values! {
    /// The kind of event that a blocked thread waits for. The kernel side determines the class when
    /// the thread leaves its CPU (`bpf/switch/blocked.bpf.h`). The order is the same as in `enum
    /// block_class`.
    ///
    /// The name is the value of the label `class`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum BlockClass {
        /// A request (epoll_wait, poll, select, accept, io_uring_enter) or a signal.
        Poll: "poll",
        /// A timer that the thread set (nanosleep).
        Timer: "timer",
        /// The other end of a pipe, or a message queue.
        Pipe: "pipe",
        /// The peer of a UNIX domain socket.
        Unix: "unix",
        /// A futex, a file lock, a semaphore, or a lock inside the kernel.
        Lock: "lock",
        /// The peer of an IP socket on this host.
        Loopback: "loopback",
        /// The peer of an IP socket on another host.
        Network: "network",
        /// Block I/O.
        Disk: "disk",
        /// A file system, but no block I/O of the thread itself: a journal commit, an inode lock.
        Filesystem: "filesystem",
        /// Reclaim or swap, or a cgroup at its memory limit.
        Memory: "memory",
        /// Write-back: the thread dirtied pages faster than the disk takes them.
        Writeback: "writeback",
        /// A child process.
        Child: "child",
        /// Stopped by a signal or a tracer, or frozen.
        Stopped: "stopped",
        /// Anything else.
        Other: "other",
    }
}

impl BlockClass {
    /// Returns the class with this number on the kernel side, starting at 1; `None` for 0 and
    /// unknown numbers.
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL
            .get(usize::try_from(number).ok()?.checked_sub(1)?)
            .copied()
    }

    /// Returns whether the thread waits for another thread of this host, which ends the block.
    pub const fn has_releaser(self) -> bool {
        matches!(
            self,
            Self::Lock | Self::Pipe | Self::Unix | Self::Loopback | Self::Child
        )
    }

    /// Returns whether the thread had work to do and could not do it. A thread that waits for a
    /// lock or for another process may only be out of work.
    pub const fn is_stall(self) -> bool {
        matches!(
            self,
            Self::Disk | Self::Filesystem | Self::Memory | Self::Writeback | Self::Stopped
        )
    }
}

/// The threads of a row that are blocked now. Counters do not include the time since these threads
/// blocked; [`Blocked::added_to`] adds it. A thread that continues to sleep does not change these
/// values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocked {
    threads: [u32; BlockClass::COUNT],
    /// The sum of the times (`CLOCK_MONOTONIC`) at which the threads blocked.
    since_ns: [u64; BlockClass::COUNT],
}

impl Blocked {
    /// Adds threads of a class. `since_ns` is the sum of the times at which they blocked.
    pub fn add(&mut self, class: BlockClass, threads: u32, since_ns: u64) {
        let count = &mut self.threads[class as usize];
        *count = count.saturating_add(threads);
        let sum = &mut self.since_ns[class as usize];
        *sum = sum.wrapping_add(since_ns);
    }

    /// Removes a thread that blocked at this time.
    pub fn remove(&mut self, class: BlockClass, since_ns: u64) {
        let threads = &mut self.threads[class as usize];
        *threads = threads.saturating_sub(1);
        let sum = &mut self.since_ns[class as usize];
        *sum = sum.wrapping_sub(since_ns);
    }

    /// Returns whether no thread is blocked.
    pub fn is_empty(&self) -> bool {
        self.threads.iter().all(|&threads| threads == 0)
    }

    /// Yields each class with its number of threads and the sum of the times at which they blocked.
    pub fn iter(&self) -> impl Iterator<Item = (BlockClass, u32, u64)> + '_ {
        let classes = BlockClass::ALL.into_iter();
        classes
            .map(|class| {
                (
                    class,
                    self.threads[class as usize],
                    self.since_ns[class as usize],
                )
            })
            .filter(|&(_, threads, _)| threads > 0)
    }

    /// Returns the counters with the time for which the threads have been blocked at `now_ns`
    /// (`CLOCK_MONOTONIC`).
    #[must_use]
    pub fn added_to(&self, mut counters: Counters, now_ns: u64) -> Counters {
        for (class, threads, since_ns) in self.iter() {
            let elapsed = (u64::from(threads).wrapping_mul(now_ns)).wrapping_sub(since_ns);
            // If a thread blocked after the moment of the batch, its time counts from then.
            counters[Counter::Blocked(class)] =
                counters[Counter::Blocked(class)].saturating_add_signed(elapsed.cast_signed());
        }
        counters
    }
}

impl AddAssign<&Self> for Blocked {
    fn add_assign(&mut self, other: &Self) {
        for (class, threads, since_ns) in other.iter() {
            self.add(class, threads, since_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_blocks_grow_with_time_and_end_exactly() {
        let mut blocked = Blocked::default();
        blocked.add(BlockClass::Disk, 1, 100);
        blocked.add(BlockClass::Disk, 1, 300);
        let disk_at = |blocked: &Blocked, now| {
            blocked.added_to(Counters::default(), now)[Counter::Blocked(BlockClass::Disk)]
        };
        assert_eq!(disk_at(&blocked, 400), 400);
        assert_eq!(disk_at(&blocked, 500), 600);
        blocked.remove(BlockClass::Disk, 300);
        assert_eq!(disk_at(&blocked, 500), 400);
        blocked.remove(BlockClass::Disk, 100);
        assert!(blocked.is_empty());
        assert_eq!(blocked, Blocked::default());
    }

    #[test]
    fn block_class_numbers_match_the_bpf_side() {
        assert_eq!(BlockClass::from_number(0), None);
        assert_eq!(BlockClass::from_number(1), Some(BlockClass::Poll));
        assert_eq!(BlockClass::from_number(14), Some(BlockClass::Other));
        assert_eq!(BlockClass::from_number(15), None);
        for (index, class) in BlockClass::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, index);
        }
    }
}
