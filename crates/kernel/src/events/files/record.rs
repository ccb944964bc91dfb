//! The records of file opens.

use std::mem::size_of;

use crate::abi;
use crate::skel::files::types;

/// One open, as the kernel side reported it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOpenRecord {
    /// `CLOCK_BOOTTIME`, nanoseconds.
    pub time_ns: u64,
    /// Thread-group id.
    pub pid: u32,
    /// `CLOCK_BOOTTIME` at which the process started, nanoseconds.
    pub start_ns: u64,
    /// Id of its cgroup.
    pub cgroup: u64,
    /// Command name of the leader, with NULs.
    pub comm: [u8; 16],
    /// The same of the thread that opened it; empty: it was the leader.
    pub thread: [u8; 16],
    /// Flags as in open(2), without O_CLOEXEC.
    pub flags: u32,
    /// Why it was not opened (errno).
    pub error: Option<i32>,
    /// Full path as the process sees it; of a file that could not be opened, the name as it was
    /// asked for.
    pub path: Vec<u8>,
    /// The path was longer, or deeper, than the kernel side keeps; its end is here.
    pub truncated: bool,
    /// The file was in no directory any more; the path is its last one.
    pub deleted: bool,
    /// The file is not below the root of the process: it is in a detached mount or in none, or
    /// outside of its chroot.
    pub unreachable: bool,
}

impl FileOpenRecord {
    /// Reads the record of the ring; `None` when it is none of ours.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let head = abi::plain::<types::file_open>(bytes)?;
        if head.head.kind != types::event_kind::EVENT_FILE_OPEN.0 {
            return None;
        }
        let path = bytes.get(size_of::<types::file_open>()..)?;
        let process = &head.head.process;
        let is = |mark: types::path_mark| head.marks & mark.0 != 0;
        Some(Self {
            time_ns: head.head.time,
            pid: process.pid,
            start_ns: process.start,
            cgroup: process.cgroup,
            comm: process.comm.map(|c| c as u8),
            thread: process.thread.map(|c| c as u8),
            flags: head.flags,
            error: (head.error != 0).then_some(head.error),
            path: path.get(..head.length as usize)?.to_vec(),
            truncated: is(types::path_mark::PATH_CUT),
            deleted: is(types::path_mark::PATH_DELETED),
            unreachable: is(types::path_mark::PATH_UNREACHABLE),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(length: u32, marks: types::path_mark, path: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(7_u64.to_ne_bytes()); // time
        bytes.extend(types::event_kind::EVENT_FILE_OPEN.0.to_ne_bytes());
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend(5_u64.to_ne_bytes()); // start
        bytes.extend(9_u64.to_ne_bytes()); // cgroup
        bytes.extend(42_u32.to_ne_bytes()); // pid
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend(*b"cat\0\0\0\0\0\0\0\0\0\0\0\0\0");
        bytes.extend([0; 16]); // its leader opened it
        bytes.extend(0o1101_u32.to_ne_bytes());
        bytes.extend(13_i32.to_ne_bytes());
        bytes.extend(length.to_ne_bytes());
        bytes.extend(marks.0.to_ne_bytes());
        bytes.extend(path);
        bytes
    }

    #[test]
    fn a_record_is_read_and_its_padding_is_not() {
        let bytes = record(3, types::path_mark::PATH_DELETED, b"/\n\xff\0\0\0\0\0");
        let read = FileOpenRecord::parse(&bytes).expect("a record");
        assert_eq!(read.path, b"/\n\xff");
        assert_eq!((read.time_ns, read.start_ns), (7, 5));
        assert_eq!((read.pid, read.cgroup), (42, 9));
        assert_eq!((read.flags, read.error), (0o1101, Some(13)));
        assert!(read.deleted && !read.truncated && !read.unreachable);
    }

    #[test]
    fn what_is_no_record_is_left_out() {
        let whole = record(3, types::path_mark(0), b"/ab");
        for short in [0, 8, 87, 90] {
            assert_eq!(FileOpenRecord::parse(&whole[..short]), None, "{short}");
        }
        let mut other = whole;
        other[8..12].copy_from_slice(&0_u32.to_ne_bytes());
        assert_eq!(FileOpenRecord::parse(&other), None);
    }
}
