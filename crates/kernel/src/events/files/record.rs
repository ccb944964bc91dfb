//! Records of file events.

use std::mem::size_of;

use noctule_model::{FileChange, FilePath, What};

use crate::abi;
use crate::events::RawEvent;
use crate::events::record::owner_of;
use crate::skel::files::types;

/// Parses a ring buffer record; `None` if it is not valid.
pub(in crate::events) fn parse(bytes: &[u8]) -> Option<RawEvent> {
    use types::event_kind as kind;
    let head = abi::plain::<types::event_head>(bytes)?;
    let what = match types::event_kind(head.kind) {
        kind::EVENT_FILE_OPEN => open(bytes)?,
        kind::EVENT_FILE_DELETE
        | kind::EVENT_FILE_RENAME
        | kind::EVENT_FILE_LINK
        | kind::EVENT_FILE_CHMOD => change(types::event_kind(head.kind), bytes)?,
        _ => return None,
    };
    let process = &head.process;
    Some(RawEvent {
        time_ns: head.time,
        process: owner_of(
            process.pid,
            process.start,
            process.cgroup,
            [&process.comm, &process.thread],
        ),
        what,
    })
}

fn open(bytes: &[u8]) -> Option<What> {
    let record = abi::plain::<types::file_open>(bytes)?;
    let text = bytes.get(size_of::<types::file_open>()..)?;
    Some(What::FileOpen {
        path: path(text.get(..record.length as usize)?, record.marks),
        flags: record.flags,
        error: (record.error != 0).then_some(record.error),
    })
}

fn change(kind: types::event_kind, bytes: &[u8]) -> Option<What> {
    use types::event_kind as kinds;
    let record = abi::plain::<types::file_change>(bytes)?;
    let is = |flag: types::change_flag| record.flags & flag.0 != 0;
    let text = bytes.get(size_of::<types::file_change>()..)?;
    let (first, rest) = text.split_at_checked(record.length as usize)?;
    let second = path(
        rest.get(..record.second_length as usize)?,
        record.second_marks.into(),
    );
    Some(What::FileChange {
        path: path(first, record.marks.into()),
        change: match kind {
            kinds::EVENT_FILE_DELETE => FileChange::Delete {
                directory: is(types::change_flag::CHANGE_DIRECTORY),
            },
            kinds::EVENT_FILE_RENAME => FileChange::Rename {
                to: second,
                exchanged: is(types::change_flag::CHANGE_EXCHANGE),
            },
            kinds::EVENT_FILE_LINK if is(types::change_flag::CHANGE_SYMBOLIC) => {
                FileChange::SymbolicLink { target: second }
            }
            kinds::EVENT_FILE_LINK => FileChange::HardLink { to: second },
            kinds::EVENT_FILE_CHMOD => FileChange::Chmod { mode: record.mode },
            _ => return None,
        },
        error: (record.error != 0).then_some(record.error),
    })
}

fn path(bytes: &[u8], marks: u32) -> FilePath {
    let is = |mark: types::path_mark| marks & mark.0 != 0;
    FilePath {
        bytes: bytes.to_vec(),
        truncated: is(types::path_mark::PATH_CUT),
        deleted: is(types::path_mark::PATH_DELETED),
        unreachable: is(types::path_mark::PATH_UNREACHABLE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(kind: types::event_kind) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(7_u64.to_ne_bytes()); // time
        bytes.extend(kind.0.to_ne_bytes());
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend(9_u64.to_ne_bytes()); // cgroup
        bytes.extend(5_u64.to_ne_bytes()); // start
        bytes.extend(42_u32.to_ne_bytes()); // pid
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend(*b"cat\0\0\0\0\0\0\0\0\0\0\0\0\0");
        bytes.extend([0; 16]); // the leader acted
        bytes
    }

    fn opened(length: u32, marks: types::path_mark, path: &[u8]) -> Vec<u8> {
        let mut bytes = head(types::event_kind::EVENT_FILE_OPEN);
        bytes.extend(0o1101_u32.to_ne_bytes());
        bytes.extend(13_i32.to_ne_bytes());
        bytes.extend(length.to_ne_bytes());
        bytes.extend(marks.0.to_ne_bytes());
        bytes.extend(path);
        bytes
    }

    fn changed(kind: types::event_kind, flags: u32, lengths: [u32; 2], text: &[u8]) -> Vec<u8> {
        let mut bytes = head(kind);
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(0_i32.to_ne_bytes());
        bytes.extend(0o640_u32.to_ne_bytes());
        bytes.extend(lengths.map(u32::to_ne_bytes).concat());
        bytes.extend([0_u16, 4].map(u16::to_ne_bytes).concat());
        bytes.extend(text);
        bytes
    }

    #[test]
    fn record_is_parsed_without_its_padding() {
        let bytes = opened(3, types::path_mark::PATH_DELETED, b"/\n\xff\0\0\0\0\0");
        let read = parse(&bytes).expect("a record");
        let process = read.process.expect("a process");
        assert_eq!((read.time_ns, process.id.start_ns), (7, 5));
        assert_eq!((process.id.pid, process.cgroup.0), (42, 9));
        let What::FileOpen { path, flags, error } = read.what else {
            panic!("{read:?}");
        };
        assert_eq!(path.bytes, b"/\n\xff");
        assert_eq!((flags, error), (0o1101, Some(13)));
        assert!(path.deleted && !path.truncated && !path.unreachable);
    }

    #[test]
    fn file_change_has_its_paths() {
        use types::event_kind as kinds;
        let second = || FilePath {
            bytes: b"/cd".to_vec(),
            unreachable: true,
            ..FilePath::default()
        };
        let cases = [
            (
                kinds::EVENT_FILE_DELETE,
                1,
                FileChange::Delete { directory: true },
            ),
            (
                kinds::EVENT_FILE_RENAME,
                4,
                FileChange::Rename {
                    to: second(),
                    exchanged: true,
                },
            ),
            (
                kinds::EVENT_FILE_LINK,
                0,
                FileChange::HardLink { to: second() },
            ),
            (
                kinds::EVENT_FILE_LINK,
                2,
                FileChange::SymbolicLink { target: second() },
            ),
            (
                kinds::EVENT_FILE_CHMOD,
                0,
                FileChange::Chmod { mode: 0o640 },
            ),
        ];
        for (kind, flags, expected) in cases {
            let bytes = changed(kind, flags, [2, 3], b"/b/cd\0\0\0");
            let what = parse(&bytes).expect("a record").what;
            let What::FileChange {
                path,
                change,
                error: None,
            } = what
            else {
                panic!("{what:?}");
            };
            assert_eq!(change, expected);
            assert_eq!(path.bytes, b"/b");
        }
    }

    #[test]
    fn invalid_records_are_left_out() {
        let whole = opened(3, types::path_mark(0), b"/ab");
        for short in [0, 8, 87, 90] {
            assert_eq!(parse(&whole[..short]), None, "{short}");
        }
        let two = changed(types::event_kind::EVENT_FILE_RENAME, 0, [2, 3], b"/b/c");
        assert_eq!(parse(&two), None);
        let mut other = whole;
        other[8..12].copy_from_slice(&0_u32.to_ne_bytes());
        assert_eq!(parse(&other), None);
    }
}
