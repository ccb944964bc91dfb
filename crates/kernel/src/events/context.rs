//! Context of a process in the record of an exec: ancestors, credentials and namespaces.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::OnceLock;

use noctule_model::{Comm, ExecContext, FilePath, Namespace, Parent, ProcessId};

use crate::skel::lifecycle::types as process;

/// Files in /proc/PID/ns, in the order of `enum exec_namespace`.
pub(crate) const KINDS: [&str; 7] = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

const _: () = assert!(process::exec_namespace::NAMESPACES.0 as usize == KINDS.len());

/// Value of an audit id that was never set.
const UNSET: u32 = u32::MAX;

pub(super) fn parent(abi: &process::process_parent) -> Option<Parent> {
    (abi.pid != 0).then(|| Parent {
        id: ProcessId {
            pid: abi.pid,
            start_ns: abi.start,
        },
        start_unix_ns: 0,
        comm: name(&abi.comm),
    })
}

pub(super) fn of_exec(record: &process::process_exec, directory: &[u8]) -> ExecContext {
    let known = |id: u32| (id != UNSET).then_some(id);
    let ancestors = record.ancestors.iter();
    let ancestors = ancestors.take_while(|comm| comm[0] != 0);
    let marks = u32::from(record.directory_marks);
    let has = |mark: process::path_mark| marks & mark.0 != 0;
    ExecContext {
        parent: parent(&record.parent),
        ancestors: ancestors.map(name).collect(),
        effective_uid: record.euid,
        gid: record.gid,
        effective_gid: record.egid,
        capabilities: record.cap_effective,
        login_uid: known(record.login_uid),
        audit_session: known(record.audit_session),
        tty: (record.tty[0] != 0).then(|| name(&record.tty)),
        namespaces: namespaces(&record.namespaces),
        directory: FilePath {
            bytes: directory.to_vec(),
            truncated: has(process::path_mark::PATH_CUT),
            deleted: has(process::path_mark::PATH_DELETED),
            unreachable: has(process::path_mark::PATH_UNREACHABLE),
        },
    }
}

fn name(bytes: &[i8; 16]) -> Comm {
    Comm::new(&bytes.map(|c| c as u8))
}

fn namespaces(inodes: &[u32; KINDS.len()]) -> Vec<Namespace> {
    let host = HOST.get().unwrap_or(&[None; KINDS.len()]);
    let all = KINDS.into_iter().zip(inodes).zip(host);
    let known = all.filter(|((_, inode), _)| **inode != 0);
    let namespace = |((kind, inode), host): ((&'static str, &u32), &Option<u64>)| Namespace {
        kind,
        inode: *inode,
        of_host: host.map(|host| host == u64::from(*inode)),
    };
    known.map(namespace).collect()
}

/// The host's namespaces, in the order of [`KINDS`].
static HOST: OnceLock<[Option<u64>; KINDS.len()]> = OnceLock::new();

/// Reads the host's namespaces from its procfs. Most namespaces have a fixed inode
/// (PROC_USER_INIT_INO and others). The remaining ones are read from process 1, if the agent may
/// read them.
pub(super) fn know_host(proc: &Path) {
    HOST.get_or_init(|| {
        KINDS.map(|kind| match kind {
            "cgroup" => Some(0xeffffffb),
            "ipc" => Some(0xefffffff),
            "pid" => Some(0xeffffffc),
            "user" => Some(0xeffffffd),
            "uts" => Some(0xeffffffe),
            _ => {
                let file = fs::metadata(proc.join("1/ns").join(kind));
                file.ok().map(|file| file.ino())
            }
        })
    });
}
