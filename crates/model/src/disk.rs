//! Use of block devices by group.

use std::ops::AddAssign;

use crate::{CgroupId, Cumulative};

/// The user that a request is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DiskUser {
    /// The tasks of a cgroup.
    Cgroup(CgroupId),
    /// Write-back of dirty data by kernel threads. The kernel does not report which groups dirtied
    /// the data.
    WriteBack,
    /// Journal and metadata of file systems, written by kernel threads for all groups.
    Journal,
    /// Flushes of the device's cache. One flush can serve several tasks.
    Flush,
    /// Other requests of kernel threads.
    Kernel,
    /// The BPF programs did not see which task queued the request.
    Unknown,
}

/// Completed requests. The times are sums over requests. Requests overlap, so a sum can exceed the
/// elapsed time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Number of flushes, discards and other requests without data.
    pub others: u64,
    /// Number of requests with a known time of submission.
    pub queued: u64,
    /// Time from the submission of these requests to their issue to the device, in nanoseconds.
    pub queue_ns: u64,
    /// Time from the issue of a request to its completion, in nanoseconds.
    pub device_ns: u64,
}

impl Cumulative for DiskUse {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            reads: self.reads.saturating_sub(earlier.reads),
            writes: self.writes.saturating_sub(earlier.writes),
            others: self.others.saturating_sub(earlier.others),
            queued: self.queued.saturating_sub(earlier.queued),
            queue_ns: self.queue_ns.saturating_sub(earlier.queue_ns),
            device_ns: self.device_ns.saturating_sub(earlier.device_ns),
        }
    }
}

impl DiskUse {
    /// Returns the time in the queue; `None` if it is unknown for every request.
    pub fn known_queue_ns(&self) -> Option<u64> {
        (self.queued > 0).then_some(self.queue_ns)
    }

    /// Returns the bytes read and written.
    pub const fn bytes(&self) -> u64 {
        self.read_bytes + self.written_bytes
    }
}

impl AddAssign<&DiskUse> for DiskUse {
    fn add_assign(&mut self, other: &Self) {
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.reads += other.reads;
        self.writes += other.writes;
        self.others += other.others;
        self.queued += other.queued;
        self.queue_ns += other.queue_ns;
        self.device_ns += other.device_ns;
    }
}

/// A block device with requests, and its users since the programs were attached.
///
/// A request to a stacked device, such as a loop device, causes requests to the devices below it.
/// Each device counts its own requests, so a sum over devices counts the same bytes more than once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// Major and minor number.
    pub number: (u32, u32),
    /// Name, such as `sda`.
    pub name: String,
    /// Time in which the device had at least one request, as the kernel counts it, in nanoseconds;
    /// `None` if the kernel does not count this time.
    pub busy_ns: Option<u64>,
    /// Each user with its use of the device, in no particular order.
    pub users: Vec<(DiskUser, DiskUse)>,
}
