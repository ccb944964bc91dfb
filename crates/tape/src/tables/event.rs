//! What happened. One table for all kinds of events: a column that a kind does not have is null.

mod context;

use noctule_model::{
    CgroupId, CloseReason, Comm, ConnectError, DnsQuery, Event, EventProcess, ExitStatus,
    FileChange, FilePath, Origin, ProcessId, Socket, TcpChange, UdpFlow, What,
};

use context::{ContextRecord, ParentRecord, PathRecord, parent, parent_list};

use super::{OwnerNumber, Owners};
use crate::column::{List, Moment, Word, Words, WordsList, record};
use crate::names::named;

const CLOSE_REASONS: [CloseReason; 6] = [
    CloseReason::Fin,
    CloseReason::Reset,
    CloseReason::Aborted,
    CloseReason::Timeout,
    CloseReason::Keepalive,
    CloseReason::Killed,
];

const ORIGINS: [Origin; 3] = [Origin::Seen, Origin::Existing, Origin::Reconciled];

fn origin_name(origin: Origin) -> &'static str {
    match origin {
        Origin::Seen => "seen",
        Origin::Existing => "existing",
        Origin::Reconciled => "reconciled",
    }
}

record! {
    /// How many events of a name were lost.
    pub(crate) struct LostRecord {
        name: Word,
        count: u64,
    }
}

record! {
    /// An event.
    pub(crate) struct EventRecord {
        time: Moment,
        name: Word,
        origin: Word,
        /// The next seven are of the process; the pid is null where there is none.
        pid: Option<u32>,
        start_ns: u64,
        start_time: Moment,
        comm: Words,
        /// The thread that acted, where that is not the leader.
        thread: Option<Words>,
        cgroup: u64,
        owner: OwnerNumber,
        parent_pid: Option<u32>,
        /// None, or one.
        parent: List<ParentRecord>,
        path: FilePath,
        /// Of a rename and a link.
        second_path: List<PathRecord>,
        args: WordsList,
        args_truncated: bool,
        uid: Option<u32>,
        /// None, or one.
        context: List<ContextRecord>,
        exit_code: Option<u8>,
        exit_signal: Option<u8>,
        oom_killed: bool,
        core_dumped: bool,
        /// A signal that was sent, and why; its sender is in `parent`.
        signal: Option<u8>,
        signal_code: Option<i32>,
        duration_ns: Option<u64>,
        cpu_ns: Option<u64>,
        rss_peak_bytes: Option<u64>,
        rss_bytes: Option<u64>,
        limit_bytes: Option<u64>,
        socket: Option<u64>,
        local: Option<String>,
        peer: Option<String>,
        netns_cookie: Option<u64>,
        multipath: bool,
        error_type: Option<Word>,
        close_reason: Option<Word>,
        closed_here: Option<bool>,
        errno: Option<i32>,
        segments: Option<u32>,
        segments_failed: Option<u32>,
        bytes_sent: Option<u64>,
        bytes_received: Option<u64>,
        retransmits: Option<u32>,
        rtt_us: Option<u32>,
        flags: Option<u32>,
        /// Of a deleted name: that of a directory. Of a link: it is symbolic. Of a rename: both
        /// files got the name of the other.
        directory: bool,
        symbolic: bool,
        exchanged: bool,
        mode: Option<u32>,
        /// None, or one; the socket's ends are in `local` and `peer`.
        dns: List<DnsQuery>,
        packets_sent: Option<u64>,
        packets_received: Option<u64>,
        closed: bool,
        lost: List<LostRecord>,
        since: Option<Moment>,
    }
}

fn lost_list(lost: &[(&'static str, u64)]) -> List<LostRecord> {
    let lost = lost.iter().map(|&(name, count)| LostRecord {
        name: Word(name),
        count,
    });
    List(lost.collect())
}

impl EventRecord {
    pub(crate) fn new(event: &Event, owners: &mut Owners) -> Self {
        let Event {
            time_unix_ns,
            process,
            origin,
            what,
        } = event;
        let mut record = Self {
            time: Moment(*time_unix_ns),
            name: Word(what.name()),
            origin: Word(origin_name(*origin)),
            ..Self::default()
        };
        if let Some(EventProcess {
            id,
            start_unix_ns,
            comm,
            thread,
            cgroup,
            owner,
        }) = process
        {
            record.pid = Some(id.pid);
            record.start_ns = id.start_ns;
            record.start_time = Moment(*start_unix_ns);
            record.comm = Words::of(comm);
            record.thread = thread.as_ref().map(Words::of);
            record.cgroup = cgroup.0;
            record.owner = owners.number(owner.as_ref());
        }
        record.fill(what);
        record
    }

    fn fill(&mut self, what: &What) {
        match what {
            What::ProcessStart { .. }
            | What::ProcessExec { .. }
            | What::ProcessExecFailed { .. }
            | What::ProcessExit { .. }
            | What::ProcessSignal { .. } => self.fill_process(what),
            What::OomKill {
                rss_bytes,
                limit_bytes,
            } => {
                self.rss_bytes = *rss_bytes;
                self.limit_bytes = *limit_bytes;
            }
            What::Tcp { change, socket } => {
                self.fill_socket(socket);
                self.fill_tcp(*change);
            }
            What::FileOpen { path, flags, error } => {
                self.path.clone_from(path);
                self.flags = Some(*flags);
                self.errno = *error;
            }
            What::FileChange {
                path,
                change,
                error,
            } => {
                self.path.clone_from(path);
                self.errno = *error;
                self.fill_change(change);
            }
            What::DnsQuery(query) => self.fill_dns(query),
            What::UdpFlow(flow) => self.fill_flow(flow),
            What::Gap {
                lost,
                since_unix_ns,
            } => {
                self.lost = lost_list(lost);
                self.since = since_unix_ns.map(Moment);
            }
        }
    }

    fn fill_process(&mut self, what: &What) {
        match what {
            What::ProcessStart { parent_pid, parent } => {
                self.parent_pid = Some(*parent_pid);
                self.parent = parent_list(parent.as_ref());
            }
            What::ProcessExec {
                path,
                args,
                args_truncated,
                uid,
                context,
            } => {
                self.path.clone_from(path);
                self.context = ContextRecord::list(context);
                self.args = WordsList(Some(args.clone()));
                self.args_truncated = *args_truncated;
                self.uid = Some(*uid);
            }
            What::ProcessExecFailed {
                path,
                uid,
                parent,
                errno,
            } => {
                self.path.clone_from(path);
                self.uid = Some(*uid);
                self.parent = parent_list(parent.as_ref());
                self.errno = Some(*errno);
            }
            What::ProcessExit {
                status,
                oom_killed,
                core_dumped,
                parent,
                duration_ns,
                cpu_ns,
                rss_peak_bytes,
            } => {
                self.fill_status(*status);
                self.oom_killed = *oom_killed;
                self.core_dumped = *core_dumped;
                self.parent = parent_list(parent.as_ref());
                self.duration_ns = *duration_ns;
                self.cpu_ns = *cpu_ns;
                self.rss_peak_bytes = *rss_peak_bytes;
            }
            What::ProcessSignal {
                signal,
                code,
                sender,
            } => {
                self.signal = Some(*signal);
                self.signal_code = Some(*code);
                self.parent = parent_list(sender.as_ref());
            }
            _ => {}
        }
    }

    fn fill_status(&mut self, status: Option<ExitStatus>) {
        match status {
            Some(ExitStatus::Code(code)) => self.exit_code = Some(code),
            Some(ExitStatus::Signal(signal)) => self.exit_signal = Some(signal),
            None => {}
        }
    }

    fn fill_dns(&mut self, query: &DnsQuery) {
        self.fill_socket(&query.socket);
        self.dns = List(vec![query.clone()]);
    }

    fn fill_change(&mut self, change: &FileChange) {
        self.second_path = PathRecord::list(change.second());
        match change {
            FileChange::Delete { directory } => self.directory = *directory,
            FileChange::Rename { to: _, exchanged } => self.exchanged = *exchanged,
            FileChange::HardLink { to: _ } => {}
            FileChange::SymbolicLink { target: _ } => self.symbolic = true,
            FileChange::Chmod { mode } => self.mode = Some(*mode),
        }
    }

    fn fill_flow(&mut self, flow: &UdpFlow) {
        let UdpFlow {
            socket,
            bytes_sent,
            bytes_received,
            packets_sent,
            packets_received,
            duration_ns,
            closed,
        } = *flow;
        self.fill_socket(&socket);
        self.bytes_sent = Some(bytes_sent);
        self.bytes_received = Some(bytes_received);
        self.packets_sent = Some(packets_sent);
        self.packets_received = Some(packets_received);
        self.duration_ns = Some(duration_ns);
        self.closed = closed;
    }

    fn fill_socket(&mut self, socket: &Socket) {
        let Socket {
            id,
            local,
            peer,
            netns_cookie,
            multipath,
        } = *socket;
        self.multipath = multipath;
        self.socket = Some(id);
        self.local = local.map(|address| address.to_string());
        self.peer = peer.map(|address| address.to_string());
        self.netns_cookie = netns_cookie;
    }

    fn fill_tcp(&mut self, change: TcpChange) {
        match change {
            TcpChange::Listen | TcpChange::ListenClose | TcpChange::Accept => {}
            TcpChange::Connect { duration_ns } => self.duration_ns = duration_ns,
            TcpChange::ConnectFailed {
                reason,
                errno,
                duration_ns,
            } => {
                self.error_type = Some(Word(reason.name()));
                self.errno = Some(errno);
                self.duration_ns = duration_ns;
            }
            TcpChange::Retransmit { segments, failed } => {
                self.segments = Some(segments);
                self.segments_failed = Some(failed);
            }
            TcpChange::Close {
                bytes_sent,
                bytes_received,
                duration_ns,
                reason,
                closed_here,
                retransmits,
                rtt_us,
            } => {
                self.close_reason = reason.map(|reason| Word(reason.name()));
                self.closed_here = closed_here;
                self.bytes_sent = bytes_sent;
                self.bytes_received = bytes_received;
                self.duration_ns = duration_ns;
                self.retransmits = retransmits;
                self.rtt_us = rtt_us;
            }
        }
    }

    /// `None`: a kind of event that this version does not have.
    pub(crate) fn event(self, owners: &Owners) -> Option<Event> {
        let process = self.pid.map(|pid| EventProcess {
            id: ProcessId {
                pid,
                start_ns: self.start_ns,
            },
            start_unix_ns: self.start_time.0,
            comm: Comm::new(&self.comm.0),
            thread: self.thread.as_ref().map(|name| Comm::new(&name.0)),
            cgroup: CgroupId(self.cgroup),
            owner: owners.owner(self.owner),
        });
        Some(Event {
            time_unix_ns: self.time.0,
            process,
            origin: named(&ORIGINS, origin_name, self.origin.0)?,
            what: self.what()?,
        })
    }

    fn what(self) -> Option<What> {
        Some(match self.name.0 {
            "process.start" => What::ProcessStart {
                parent_pid: self.parent_pid?,
                parent: parent(&self.parent),
            },
            "process.exec" => What::ProcessExec {
                context: Box::new(ContextRecord::context(&self.context)),
                path: self.path,
                args: self.args.0.unwrap_or_default(),
                args_truncated: self.args_truncated,
                uid: self.uid?,
            },
            "process.exec_failed" => What::ProcessExecFailed {
                path: self.path,
                uid: self.uid?,
                parent: parent(&self.parent),
                errno: self.errno?,
            },
            "process.exit" => What::ProcessExit {
                status: match (self.exit_code, self.exit_signal) {
                    (Some(code), _) => Some(ExitStatus::Code(code)),
                    (None, signal) => signal.map(ExitStatus::Signal),
                },
                oom_killed: self.oom_killed,
                core_dumped: self.core_dumped,
                parent: parent(&self.parent),
                duration_ns: self.duration_ns,
                cpu_ns: self.cpu_ns,
                rss_peak_bytes: self.rss_peak_bytes,
            },
            "process.signal" => What::ProcessSignal {
                signal: self.signal?,
                code: self.signal_code?,
                sender: parent(&self.parent),
            },
            "oom.kill" => What::OomKill {
                rss_bytes: self.rss_bytes,
                limit_bytes: self.limit_bytes,
            },
            "file.open" => What::FileOpen {
                path: self.path,
                flags: self.flags?,
                error: self.errno,
            },
            "file.delete" | "file.rename" | "file.link" | "file.chmod" => What::FileChange {
                change: self.change()?,
                path: self.path,
                error: self.errno,
            },
            "dns.query" => What::DnsQuery(Box::new(DnsQuery {
                socket: self.socket()?,
                ..self.dns.0.first()?.clone()
            })),
            "udp.flow" => What::UdpFlow(UdpFlow {
                socket: self.socket()?,
                bytes_sent: self.bytes_sent?,
                bytes_received: self.bytes_received?,
                packets_sent: self.packets_sent?,
                packets_received: self.packets_received?,
                duration_ns: self.duration_ns?,
                closed: self.closed,
            }),
            "gap" => What::Gap {
                lost: self
                    .lost
                    .0
                    .iter()
                    .map(|lost| (lost.name.0, lost.count))
                    .collect(),
                since_unix_ns: self.since.map(|since| since.0),
            },
            _ => What::Tcp {
                change: self.tcp()?,
                socket: self.socket()?,
            },
        })
    }

    fn socket(&self) -> Option<Socket> {
        Some(Socket {
            id: self.socket?,
            local: address(self.local.as_ref()),
            peer: address(self.peer.as_ref()),
            netns_cookie: self.netns_cookie,
            multipath: self.multipath,
        })
    }

    fn change(&self) -> Option<FileChange> {
        let second = || PathRecord::path(&self.second_path);
        Some(match self.name.0 {
            "file.delete" => FileChange::Delete {
                directory: self.directory,
            },
            "file.rename" => FileChange::Rename {
                to: second(),
                exchanged: self.exchanged,
            },
            "file.link" if self.symbolic => FileChange::SymbolicLink { target: second() },
            "file.link" => FileChange::HardLink { to: second() },
            "file.chmod" => FileChange::Chmod { mode: self.mode? },
            _ => return None,
        })
    }

    fn tcp(&self) -> Option<TcpChange> {
        Some(match self.name.0 {
            "tcp.listen" => TcpChange::Listen,
            "tcp.listen_close" => TcpChange::ListenClose,
            "tcp.connect" => TcpChange::Connect {
                duration_ns: self.duration_ns,
            },
            "tcp.connect_failed" => TcpChange::ConnectFailed {
                reason: named(&ConnectError::ALL, ConnectError::name, self.error_type?.0)?,
                errno: self.errno?,
                // Older recordings have 0 where it is not known.
                duration_ns: self.duration_ns.filter(|ns| *ns != 0),
            },
            "tcp.accept" => TcpChange::Accept,
            "tcp.retransmit" => TcpChange::Retransmit {
                segments: self.segments?,
                failed: self.segments_failed.unwrap_or(0),
            },
            "tcp.close" => TcpChange::Close {
                bytes_sent: self.bytes_sent,
                bytes_received: self.bytes_received,
                duration_ns: self.duration_ns,
                reason: self
                    .close_reason
                    .and_then(|reason| named(&CLOSE_REASONS, CloseReason::name, reason.0)),
                closed_here: self.closed_here,
                retransmits: self.retransmits,
                rtt_us: self.rtt_us,
            },
            _ => return None,
        })
    }
}

fn address(text: Option<&String>) -> Option<std::net::SocketAddr> {
    text?.parse().ok()
}
