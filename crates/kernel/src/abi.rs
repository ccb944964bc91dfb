//! Rust types for the structs that the BPF programs write. The layout of these types comes from the
//! BTF of the objects, through the skeletons.

use std::os::fd::BorrowedFd;

use libbpf_rs::RingBuffer;
use noctule_model::{Blame, BlockClass, CgroupId, Counter, Counters, Group, Histogram};

use crate::skel::{cgroup, files, switch};

/// A record (`struct task_sample`) of one of three kinds: a thread with its usage since it was last
/// read; the carried sums of a process; or an ended process with the growth that no snapshot
/// includes.
pub type TaskSample = switch::types::task_sample;
/// The usage of a thread that was settled during a snapshot (`struct late_settle`).
pub(crate) type LateSettle = switch::types::late_settle;
/// Key of a cgroup on a package (`struct settled_key`).
pub(crate) type SettledKey = switch::types::settled_key;
/// The settled sums of a cgroup (`struct settled_sums`).
pub(crate) type SettledSums = switch::types::settled_sums;
/// A living process or thread (`struct living`).
pub(crate) type LivingRecord = switch::types::living;
/// The recent past of a CPU (`struct past`).
pub(crate) type Past = switch::types::past;
/// The state of a CPU (`struct cpu_slot`).
pub type CpuSlot = switch::types::cpu_slot;

/// Bits of `TaskSample::flags`.
pub mod sample_flag {
    use crate::skel::switch::types::sample_flag as abi;

    /// The thread is the leader of its process.
    pub const LEADER: u32 = abi::SAMPLE_LEADER.0;
    /// The thread is a kernel thread.
    pub const KERNEL: u32 = abi::SAMPLE_KERNEL.0;
    /// The process descends from the followed command.
    pub const FOLLOWED: u32 = abi::SAMPLE_FOLLOWED.0;
    /// The thread was on a CPU when it was read.
    pub const RUNNING: u32 = abi::SAMPLE_RUNNING.0;
    /// The thread's CPU has switched since the moment of the snapshot.
    pub const SWITCHED: u32 = abi::SAMPLE_SWITCHED.0;
    /// The counters are sums kept for the process: the usage of its ended threads, and the usage of
    /// its threads in cgroups that they have left.
    pub const CARRIED: u32 = abi::SAMPLE_CARRIED.0;
    /// The process has ended, and these are its last counters.
    pub const EXITED: u32 = abi::SAMPLE_EXITED.0;
    /// Usage of an ending process on a package other than its last one. The `EXITED` record of the
    /// process follows.
    pub const ELSEWHERE: u32 = abi::SAMPLE_ELSEWHERE.0;
    /// With `CARRIED`: the process was reaped, and the record of its end follows.
    pub const GONE: u32 = abi::SAMPLE_GONE.0;
    /// The thread no longer exists. The last snapshot that read the thread reported it as blocked.
    pub const THREAD_GONE: u32 = abi::SAMPLE_THREAD_GONE.0;
    /// The thread was settled during a snapshot.
    pub(crate) const LATE: u32 = abi::SAMPLE_LATE.0;
}

// `layout` compares the positions by name.
const _: () = {
    use switch::types::counter as abi;
    assert!(abi::COUNTER_COUNT.0 as usize == Counter::COUNT);
};

// The model's histograms must have the buckets of the BPF histograms.
const _: () = {
    use switch::types::histogram as abi;
    assert!(abi::HISTOGRAM_BITS.0 == Histogram::BITS);
    assert!(abi::HISTOGRAM_MAX_BITS.0 == Histogram::MAX_BITS);
    assert!(abi::HISTOGRAM_BUCKETS.0 as usize == Histogram::BUCKETS);
};

/// Wait histogram of a group (`struct wait_row`).
pub(crate) type WaitRow = switch::types::wait_row;
/// Victim and culprit of waits (`struct blame_key`).
pub(crate) type BlameKey = switch::types::blame_key;

/// Sign-extends a group to 64 bits, as C does. The generated type is unsigned.
const fn extended(group: u32) -> u64 {
    group as i32 as i64 as u64
}

const IDLE: u64 = extended(switch::types::group::GROUP_IDLE.0);
const KERNEL: u64 = extended(switch::types::group::GROUP_KERNEL.0);
const FOLLOWED: u64 = extended(switch::types::group::GROUP_FOLLOWED.0);
/// Nobody released a block ([`BlockEnd::Nobody`]).
pub(crate) const RELEASER_NONE: u64 = extended(switch::types::no_releaser::RELEASER_NONE.0);
/// The thread left its group while it was blocked ([`BlockEnd::Left`]).
pub(crate) const RELEASER_LATER: u64 = extended(switch::types::no_releaser::RELEASER_LATER.0);

/// Returns the group with this number in the BPF programs; `None` for the idle task.
pub(crate) fn group(number: u64) -> Option<Group> {
    match number {
        IDLE => None,
        KERNEL => Some(Group::Kernel),
        FOLLOWED => Some(Group::Followed),
        id => Some(Group::Cgroup(CgroupId(id))),
    }
}

/// Returns the number by which the BPF programs identify a group, if the group has one.
pub(crate) fn group_number(group: Group) -> Option<u64> {
    match group {
        Group::Cgroup(id) => Some(id.0),
        Group::Kernel => Some(KERNEL),
        Group::Followed => Some(FOLLOWED),
        Group::Unnamed => None,
    }
}

/// Converts blame to the model's type.
pub(crate) fn blame(abi: &switch::types::blame) -> Blame {
    Blame {
        wait_ns: abi.wait_ns,
        preemptions: abi.preemptions,
    }
}

/// Converts counters to the model's type. The usage between two settlements is a difference of
/// counters that the program reads one after the other. If another CPU settles the thread between
/// the two reads, the difference can be negative, because the other CPU has already reported the
/// growth. A negative value counts as 0.
pub(crate) fn counters(abi: &switch::types::counters) -> Counters {
    Counters::from_array(abi.v.map(|used| used.cast_signed().max(0).cast_unsigned()))
}

impl TaskSample {
    /// Returns the counters of the thread or process.
    pub fn values(&self) -> Counters {
        counters(&self.counters)
    }

    /// Returns the class of the block in progress, and its start (`CLOCK_MONOTONIC`, in
    /// nanoseconds); `None` for a thread that is not blocked.
    pub fn block(&self) -> Option<(BlockClass, u64)> {
        use switch::types::block_layout as abi;
        let class = BlockClass::from_number(self.block & u64::from(abi::BLOCK_CLASS_MASK.0))?;
        Some((class, self.block >> abi::BLOCK_CLASS_BITS.0))
    }

    /// Returns whether all bits of `flag` are set.
    pub fn is(&self, flag: u32) -> bool {
        self.flags & flag == flag
    }

    /// Returns whether the counters grew after the moment of the snapshot.
    pub(crate) fn grew_after(&self, taken_ns: u64) -> bool {
        self.later_than != 0 && self.later_than == taken_ns as u32
    }

    /// Adds the counters of another sample.
    pub(crate) fn add(&mut self, other: &Self) {
        for (to, more) in self.counters.v.iter_mut().zip(other.counters.v) {
            *to = to.wrapping_add(more);
        }
    }

    /// Subtracts the CPU time after the moment of the snapshot.
    pub(crate) fn subtract_later_cpu_time(&mut self, taken_ns: u64) {
        if self.grew_after(taken_ns) {
            let used = &mut self.counters.v[Counter::CpuTime.index()];
            *used = used.saturating_sub(self.later_ns);
        }
    }

    /// Returns the command name including its NULs.
    pub fn comm_bytes(&self) -> [u8; 16] {
        self.comm.map(|c| c as u8)
    }
}

impl CpuSlot {
    /// Returns the counters of the CPU's idle task.
    pub fn idle_values(&self) -> Counters {
        let mut values = [0; Counter::COUNT];
        values[..self.idle.v.len()].copy_from_slice(&self.idle.v);
        Counters::from_array(values)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupChange {
    /// The directory was created.
    Made,
    /// The cgroup was renamed.
    Renamed,
    /// The directory was removed. Ending threads may still add to the cgroup.
    Removed,
    /// Nothing refers to the group any more.
    Released,
}

/// A change of one cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupEvent {
    pub id: u64,
    pub change: CgroupChange,
    /// Path in the hierarchy of the cgroup; `None` if the path was longer than the record allows.
    pub path: Option<Vec<u8>>,
}

impl CgroupEvent {
    /// Parses a ring buffer record; `None` if it is not valid.
    pub(crate) fn parse(record: &[u8]) -> Option<Self> {
        use cgroup::types::cgroup_change as abi;
        let head: cgroup::types::cgroup_event = plain(record)?;
        let change = match abi(head.change) {
            abi::CGROUP_MADE => CgroupChange::Made,
            abi::CGROUP_RENAMED => CgroupChange::Renamed,
            abi::CGROUP_REMOVED => CgroupChange::Removed,
            abi::CGROUP_RELEASED => CgroupChange::Released,
            _ => return None,
        };
        let path = &record[size_of_val(&head)..];
        let length = (head.length as usize).checked_sub(1);
        Some(Self {
            id: head.id,
            change,
            path: length.and_then(|length| Some(path.get(..length)?.to_vec())),
        })
    }
}

/// Copies a struct out of the bytes of a map or ring buffer; `None` if there are too few bytes.
#[allow(
    unsafe_code,
    reason = "the only place where bytes from the kernel become structs"
)]
pub(crate) fn plain<T: Plain>(bytes: &[u8]) -> Option<T> {
    // SAFETY: the length is checked, the read is unaligned, and `Plain` promises that any bytes
    // are a valid T.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Marks structs of integers without padding, for which any bytes are valid.
///
/// # Safety
///
/// Every field must be an integer, or an array or struct of integers.
#[allow(unsafe_code, reason = "a promise about layout")]
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: integers only; the assertions in abi.h rule out padding.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for TaskSample {}
// SAFETY: integers only, without padding.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for LivingRecord {}
// SAFETY: integers of 8 bytes only.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for switch::types::counters {}
// SAFETY: integers only. The parts have no padding, and their sizes are multiples of the struct's
// alignment.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for LateSettle {}
// SAFETY: integers only, without padding.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for CpuSlot {}
// SAFETY: integers only. A test compares the field offsets with the object's BTF.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for Past {}
// SAFETY: integers only; the assertions in abi.h rule out padding.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for WaitRow {}
// SAFETY: two 64-bit integers.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for BlameKey {}
// SAFETY: integers only, without padding.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for SettledSums {}
// SAFETY: two 64-bit integers.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for SettledKey {}
// SAFETY: two 64-bit integers.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for switch::types::blame {}
// SAFETY: integers only, without padding.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for switch::types::release_key {}
// SAFETY: two 64-bit integers.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for switch::types::release {}
// SAFETY: integers only; the assertion in cgroup/abi.h rules out padding.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for cgroup::types::cgroup_event {}
// SAFETY: integers only; the assertion in files/abi.h rules out padding.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for files::types::event_head {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for files::types::file_open {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for files::types::file_change {}
// SAFETY: three 64-bit integers.
#[allow(unsafe_code, reason = "a promise about layout")]
unsafe impl Plain for files::types::file_counts {}

/// Returns the descriptor that becomes readable when the ring buffer has data.
#[allow(unsafe_code, reason = "libbpf-rs returns the descriptor as a number")]
pub(crate) fn epoll_fd<'a>(ring: &'a RingBuffer<'_>) -> BorrowedFd<'a> {
    // SAFETY: the ring owns the descriptor, and stays borrowed while the descriptor is used.
    unsafe { BorrowedFd::borrow_raw(ring.epoll_fd()) }
}

#[cfg(test)]
mod layout;

#[cfg(test)]
mod tests {
    use super::*;
    use noctule_model::Counter;

    #[test]
    fn negative_counter_reads_as_zero() {
        let mut sample = TaskSample::default();
        sample.counters.v[0] = 300_u64.wrapping_neg();
        sample.counters.v[1] = 300;
        let values = sample.values();
        assert_eq!(values[Counter::CpuTime], 0);
        assert_eq!(values[Counter::Cycles], 300);
    }

    #[test]
    fn sums_exclude_time_after_the_snapshot() {
        let moment = (9 << 32) + 5;
        let mut sums = TaskSample {
            later_than: 5,
            later_ns: 100,
            ..TaskSample::default()
        };
        sums.counters.v[0] = 300;
        let at = |taken_ns| {
            let mut sums = sums;
            sums.subtract_later_cpu_time(taken_ns);
            sums.values()[Counter::CpuTime]
        };
        assert_eq!([moment, moment + 1].map(at), [200, 300]);
    }

    #[test]
    fn cgroup_event_has_an_optional_path() {
        let record = |length: u32, path: &[u8]| {
            let change = cgroup::types::cgroup_change::CGROUP_REMOVED.0;
            let head = [
                7_u64.to_ne_bytes(),
                (u64::from(length) << 32 | u64::from(change)).to_le_bytes(),
            ];
            [head.as_flattened(), path].concat()
        };
        let parse = |length, path| CgroupEvent::parse(&record(length, path));
        let event = |path: Option<&[u8]>| {
            Some(CgroupEvent {
                id: 7,
                change: CgroupChange::Removed,
                path: path.map(<[u8]>::to_vec),
            })
        };
        assert_eq!(parse(3, b"/a\0rest"), event(Some(b"/a")));
        assert_eq!(parse(0, b"rest"), event(None));
        assert_eq!(parse(9, b"/a\0"), event(None));
        assert_eq!(CgroupEvent::parse(&[0; 15]), None);
    }
}
