//! Converts ring buffer records to events of the model.

use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use noctule_model::{
    CgroupId, CloseReason, Comm, ConnectError, ExitStatus, FilePath, ProcessId, Socket, TcpChange,
    What,
};

use super::{SocketSample, context};
use crate::abi::{Plain, plain};
use crate::skel::{lifecycle::types as process, tcp::types as tcp};

/// Names of the kinds, in the order of `enum event_kind`.
pub(crate) const NAMES: [&str; 20] = [
    "process.start",
    "process.exec",
    "process.exit",
    "oom.kill",
    "tcp.listen",
    "tcp.listen_close",
    "tcp.connect",
    "tcp.connect_failed",
    "tcp.accept",
    "tcp.retransmit",
    "tcp.close",
    "file.open",
    "process.signal",
    "file.delete",
    "file.rename",
    "file.link",
    "file.chmod",
    "dns.query",
    "udp.flow",
    "process.exec_failed",
];

/// Returns the number of dropped records of the event with this name.
pub(super) fn lost(name: &str, dropped: Option<&[u64]>) -> u64 {
    let kind = NAMES.iter().position(|known| *known == name);
    dropped.zip(kind).map_or(0, |(dropped, kind)| dropped[kind])
}

const _: () = {
    use process::event_kind as abi;
    assert!(abi::EVENT_KINDS.0 as usize == NAMES.len());
    // Each object has its own copy of the header type, from its BTF.
    assert!(size_of::<process::event_head>() == size_of::<tcp::event_head>());
};

// SAFETY: integers only; the assertions in the headers rule out padding.
#[allow(unsafe_code, reason = "promises about layout")]
mod layout {
    use super::{Plain, process, tcp};
    // SAFETY: as above.
    unsafe impl Plain for process::event_head {}
    // SAFETY: as above.
    unsafe impl Plain for process::process_start {}
    // SAFETY: as above.
    unsafe impl Plain for process::process_exec {}
    // SAFETY: as above.
    unsafe impl Plain for process::process_exec_failed {}
    // SAFETY: as above.
    unsafe impl Plain for process::process_exit {}
    // SAFETY: as above.
    unsafe impl Plain for process::oom_kill {}
    // SAFETY: as above.
    unsafe impl Plain for process::process_signal {}
    // SAFETY: as above.
    unsafe impl Plain for tcp::tcp_event {}
    // SAFETY: as above.
    unsafe impl Plain for tcp::socket_sample {}
}

/// An event before names are resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct RawEvent {
    /// `CLOCK_BOOTTIME`, nanoseconds.
    pub time_ns: u64,
    /// The process that owns the event; `None` if unknown.
    pub process: Option<RawProcess>,
    pub what: What,
}

/// The process of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RawProcess {
    pub id: ProcessId,
    pub cgroup: CgroupId,
    /// The command name of the thread group leader.
    pub comm: Comm,
    /// The name of the thread that acted, if it is not the leader.
    pub thread: Option<Comm>,
}

impl RawEvent {
    /// Parses a record; `None` if it is not valid.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let head: process::event_head = plain(bytes)?;
        let what = match process::event_kind(head.kind) {
            process::event_kind::EVENT_PROCESS_START => start(bytes)?,
            process::event_kind::EVENT_PROCESS_EXEC => exec(bytes)?,
            process::event_kind::EVENT_PROCESS_EXEC_FAILED => exec_failed(bytes)?,
            process::event_kind::EVENT_PROCESS_EXIT => exit(bytes)?,
            process::event_kind::EVENT_OOM_KILL => oom(bytes)?,
            process::event_kind::EVENT_PROCESS_SIGNAL => signal(bytes)?,
            kind => socket_change(kind, bytes)?,
        };
        let owner = &head.process;
        Some(Self {
            time_ns: head.time,
            process: owner_of(
                owner.pid,
                owner.start,
                owner.cgroup,
                [&owner.comm, &owner.thread],
            ),
            what,
        })
    }
}

/// Returns the owner. `names` contains the name of the leader, and of the thread that acted if that
/// is another thread.
pub(super) fn owner_of(
    pid: u32,
    start_ns: u64,
    cgroup: u64,
    names: [&[i8; 16]; 2],
) -> Option<RawProcess> {
    let [comm, thread] = names.map(|name| Comm::new(&name.map(|c| c as u8)));
    (pid != 0).then(|| RawProcess {
        id: ProcessId { pid, start_ns },
        cgroup: CgroupId(cgroup),
        comm,
        thread: (names[1][0] != 0).then_some(thread),
    })
}

fn start(bytes: &[u8]) -> Option<What> {
    let record: process::process_start = plain(bytes)?;
    Some(What::ProcessStart {
        parent_pid: record.parent.pid,
        parent: context::parent(&record.parent),
    })
}

fn exec(bytes: &[u8]) -> Option<What> {
    let record: process::process_exec = plain(bytes)?;
    let has = |mark: process::path_mark| u32::from(record.path_marks) & mark.0 != 0;
    let text = bytes.get(size_of::<process::process_exec>()..)?;
    let (path, rest) = text.split_at_checked(record.path_length as usize)?;
    let (args, rest) = rest.split_at_checked(record.args_length as usize)?;
    let directory = rest.get(..record.directory_length as usize)?;
    let mut args: Vec<Vec<u8>> = args.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
    // The string after the last NUL is empty. Without a NUL, the last argument was truncated.
    if args.last().is_some_and(Vec::is_empty) {
        args.pop();
    }
    Some(What::ProcessExec {
        path: FilePath {
            bytes: path.to_vec(),
            truncated: has(process::path_mark::PATH_CUT),
            deleted: has(process::path_mark::PATH_DELETED),
            unreachable: has(process::path_mark::PATH_UNREACHABLE),
        },
        args,
        args_truncated: record.args_truncated != 0,
        uid: record.uid,
        context: Box::new(context::of_exec(&record, directory)),
    })
}

fn exec_failed(bytes: &[u8]) -> Option<What> {
    let record: process::process_exec_failed = plain(bytes)?;
    let text = bytes.get(size_of::<process::process_exec_failed>()..)?;
    let path = text.get(..record.length as usize)?;
    Some(What::ProcessExecFailed {
        path: FilePath {
            bytes: from_descriptor(record.directory, path),
            ..FilePath::default()
        },
        uid: record.uid,
        parent: context::parent(&record.parent),
        errno: record.error as i32,
    })
}

/// Returns a path relative to a descriptor, in the kernel's notation for `AT_EXECFN`.
fn from_descriptor(descriptor: i32, path: &[u8]) -> Vec<u8> {
    let at_cwd = descriptor == process::exec_directory::EXEC_AT_CWD.0 as i32;
    match path {
        [b'/', ..] => path.to_vec(),
        _ if at_cwd => path.to_vec(),
        [] => format!("/dev/fd/{descriptor}").into_bytes(),
        _ => [format!("/dev/fd/{descriptor}/").as_bytes(), path].concat(),
    }
}

fn exit(bytes: &[u8]) -> Option<What> {
    use process::exit_flag as flag;
    let record: process::process_exit = plain(bytes)?;
    let has = |bit: process::exit_flag| record.flags & bit.0 != 0;
    Some(What::ProcessExit {
        status: Some(exit_status(record.status)),
        oom_killed: has(flag::EXIT_OOM),
        core_dumped: record.status & CORE_DUMPED != 0,
        parent: context::parent(&record.parent),
        duration_ns: Some(record.duration_ns),
        cpu_ns: has(flag::EXIT_CPU_TIME).then_some(record.cpu_ns),
        rss_peak_bytes: has(flag::EXIT_RSS_PEAK).then_some(record.rss_peak),
    })
}

/// Bit in the status of wait(2).
const CORE_DUMPED: u32 = 0x80;

/// Decodes a status of wait(2): the signal in the low 7 bits, or the exit code above them.
fn exit_status(status: u32) -> ExitStatus {
    match (status & 0x7f) as u8 {
        0 => ExitStatus::Code((status >> 8) as u8),
        signal => ExitStatus::Signal(signal),
    }
}

fn signal(bytes: &[u8]) -> Option<What> {
    let record: process::process_signal = plain(bytes)?;
    Some(What::ProcessSignal {
        signal: record.signal as u8,
        code: record.code,
        sender: context::parent(&record.sender),
    })
}

fn oom(bytes: &[u8]) -> Option<What> {
    let record: process::oom_kill = plain(bytes)?;
    Some(What::OomKill {
        rss_bytes: (record.rss != 0).then_some(record.rss),
        limit_bytes: (record.limit != 0).then_some(record.limit),
    })
}

fn socket_change(kind: process::event_kind, bytes: &[u8]) -> Option<What> {
    use process::event_kind as kinds;
    let record: tcp::tcp_event = plain(bytes)?;
    let known = |value: u64| (value != 0).then_some(value);
    let change = match kind {
        kinds::EVENT_TCP_LISTEN => TcpChange::Listen,
        kinds::EVENT_TCP_LISTEN_CLOSE => TcpChange::ListenClose,
        kinds::EVENT_TCP_CONNECT => TcpChange::Connect {
            duration_ns: known(record.duration_ns),
        },
        kinds::EVENT_TCP_CONNECT_FAILED => TcpChange::ConnectFailed {
            reason: reason(record.reason),
            errno: record.error as i32,
            duration_ns: known(record.duration_ns),
        },
        kinds::EVENT_TCP_ACCEPT => TcpChange::Accept,
        kinds::EVENT_TCP_RETRANSMIT => TcpChange::Retransmit {
            segments: record.retransmits,
            failed: record.failed,
        },
        kinds::EVENT_TCP_CLOSE => TcpChange::Close {
            bytes_sent: Some(record.sent),
            bytes_received: Some(record.received),
            duration_ns: known(record.duration_ns),
            reason: close_reason(record.reason),
            closed_here: closed_here(record.flags),
            retransmits: Some(record.retransmits),
            rtt_us: (record.rtt_us != 0).then_some(record.rtt_us),
        },
        _ => return None,
    };
    let listens = matches!(change, TcpChange::Listen | TcpChange::ListenClose);
    Some(What::Tcp {
        change,
        socket: Socket {
            multipath: record.flags & tcp::tcp_flag::TCP_MULTIPATH.0 != 0,
            ..socket_of(record.socket, &record.ends, listens)
        },
    })
}

const _: () = {
    use tcp::connect_error as abi;
    let order = [
        (abi::CONNECT_REFUSED, ConnectError::Refused),
        (abi::CONNECT_TIMEOUT, ConnectError::Timeout),
        (abi::CONNECT_ABANDONED, ConnectError::Abandoned),
        (abi::CONNECT_UNREACHABLE, ConnectError::Unreachable),
        (abi::CONNECT_OTHER, ConnectError::Other),
    ];
    let mut place = 0;
    while place < order.len() {
        let (number, known) = order[place];
        assert!(ConnectError::ALL[number.0 as usize] as u8 == known as u8);
        place += 1;
    }
    assert!(abi::CONNECT_ERRORS.0 as usize == ConnectError::ALL.len());
};

fn reason(abi: u32) -> ConnectError {
    let known = ConnectError::ALL.get(abi as usize);
    known.copied().unwrap_or(ConnectError::Other)
}

fn close_reason(abi: u32) -> Option<CloseReason> {
    use tcp::close_reason as abi_of;
    match tcp::close_reason(abi) {
        abi_of::CLOSE_FIN => Some(CloseReason::Fin),
        abi_of::CLOSE_RESET => Some(CloseReason::Reset),
        abi_of::CLOSE_ABORTED => Some(CloseReason::Aborted),
        abi_of::CLOSE_TIMEOUT => Some(CloseReason::Timeout),
        abi_of::CLOSE_KEEPALIVE => Some(CloseReason::Keepalive),
        abi_of::CLOSE_KILLED => Some(CloseReason::Killed),
        _ => None,
    }
}

fn closed_here(flags: u32) -> Option<bool> {
    use tcp::tcp_flag as flag;
    let has = |bit: flag| flags & bit.0 != 0;
    match (has(flag::TCP_CLOSED_HERE), has(flag::TCP_CLOSED_THERE)) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

fn socket_of(id: u64, ends: &tcp::socket_ends, listens: bool) -> Socket {
    let local = SocketAddr::new(address(ends.family, &ends.local), ends.local_port);
    let peer = peer(ends.family, &ends.peer, ends.peer_port);
    // If the close is reported late, the kernel no longer has the peer.
    let has_peer = peer.port() != 0 || !peer.ip().to_canonical().is_unspecified();
    Socket {
        id,
        local: (ends.local_port != 0).then_some(local),
        peer: (!listens && has_peer).then_some(peer),
        netns_cookie: (ends.netns_cookie != 0).then_some(ends.netns_cookie),
        multipath: false,
    }
}

/// Returns the address of the peer. `port` is in network byte order.
pub(super) fn peer(family: u16, bytes: &[u8; 16], port: u16) -> SocketAddr {
    SocketAddr::new(address(family, bytes), u16::from_be(port))
}

pub(super) fn address(family: u16, bytes: &[u8; 16]) -> IpAddr {
    const IPV4: u16 = tcp::address_family::AF_INET.0 as u16;
    match family {
        IPV4 => IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])),
        _ => IpAddr::V6(Ipv6Addr::from(*bytes)),
    }
}

/// Parses a socket listed by a scan.
pub(super) fn socket(bytes: &[u8]) -> Option<SocketSample> {
    use tcp::socket_flag as flag;
    let sample: tcp::socket_sample = plain(bytes)?;
    let has = |bit: tcp::socket_flag| sample.flags & bit.0 != 0;
    let listens = has(flag::SOCKET_LISTENS);
    let owner = &sample.owner;
    Some(SocketSample {
        owner: owner_of(
            owner.pid,
            owner.start,
            owner.cgroup,
            [&owner.comm, &owner.thread],
        )?,
        socket: Socket {
            multipath: has(flag::SOCKET_MULTIPATH),
            ..socket_of(sample.socket, &sample.ends, listens)
        },
        listens,
        begun: listens || has(flag::SOCKET_ESTABLISHED),
        accepted: match (has(flag::SOCKET_CONNECTS), has(flag::SOCKET_ACCEPTED)) {
            (true, _) => Some(false),
            (_, true) => Some(true),
            _ => None,
        },
        wanted: has(flag::SOCKET_WANTED),
    })
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// Creates a failed connect with this duration and peer, as the BPF program reports it.
    fn failure(duration_ns: u64, peer: [u8; 4], port: u16) -> What {
        let mut record = vec![0; size_of::<tcp::tcp_event>()];
        let mut fill = |at: usize, bytes: &[u8]| record[at..][..bytes.len()].copy_from_slice(bytes);
        let family = tcp::address_family::AF_INET.0 as u16;
        fill(
            offset_of!(tcp::tcp_event, duration_ns),
            &duration_ns.to_ne_bytes(),
        );
        fill(
            offset_of!(tcp::tcp_event, ends.family),
            &family.to_ne_bytes(),
        );
        fill(offset_of!(tcp::tcp_event, ends.peer), &peer);
        fill(
            offset_of!(tcp::tcp_event, ends.peer_port),
            &port.to_be_bytes(),
        );
        let kind = process::event_kind::EVENT_TCP_CONNECT_FAILED;
        socket_change(kind, &record).expect("it is one of ours")
    }

    #[test]
    fn unknown_details_of_a_failure_are_absent() {
        let cases = [
            (7, [10, 0, 0, 1], 80, Some(7), Some("10.0.0.1:80")),
            // The connect began before the agent started.
            (0, [10, 0, 0, 1], 80, None, Some("10.0.0.1:80")),
            // No socket can listen on port 0, but a process can try to connect to it.
            (7, [127, 0, 0, 1], 0, Some(7), Some("127.0.0.1:0")),
            // The socket no longer existed when the failure was detected.
            (0, [0; 4], 0, None, None),
        ];
        for (lasted, address, port, duration, to) in cases {
            let What::Tcp { change, socket } = failure(lasted, address, port) else {
                panic!("it is of TCP");
            };
            let expected = TcpChange::ConnectFailed {
                reason: ConnectError::Refused,
                errno: 0,
                duration_ns: duration,
            };
            assert_eq!(change, expected);
            assert_eq!(socket.peer, to.map(|to| to.parse().expect("an address")));
        }
    }

    #[test]
    fn path_relative_to_a_descriptor_uses_dev_fd() {
        let cases: [(i32, &[u8], &[u8]); 5] = [
            (-100, b"a/b", b"a/b"),
            (-100, b"", b""),
            (3, b"/a", b"/a"),
            (3, b"a", b"/dev/fd/3/a"),
            (3, b"", b"/dev/fd/3"),
        ];
        for (descriptor, path, expected) in cases {
            assert_eq!(from_descriptor(descriptor, path), expected);
        }
    }
}
