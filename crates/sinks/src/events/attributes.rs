//! What each kind of event has besides its time and its process.

use std::borrow::Cow;
use std::net::SocketAddr;

use noctule_model::{CloseReason, ExitStatus, FilePath, Parent, Socket, TcpChange, What};
use noctule_text::lossless;
use serde::{Serialize, Serializer};

use super::context::{Context, ParentKeys, Signal};
use super::files::{ChangeOfFile, File};
use super::names;
use super::udp::{Dns, Flow};
use crate::json::seconds;

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Attributes<'a> {
    Start(Start),
    Exec(Exec<'a>),
    ExecFailed(ExecFailed),
    Exit(Exit),
    Oom(Oom),
    Signal(Signal),
    Tcp(Tcp),
    File(File),
    Change(ChangeOfFile),
    Dns(Dns),
    Flow(Flow),
    Gap(Gap<'a>),
}

impl<'a> Attributes<'a> {
    pub(super) fn new(what: &'a What) -> Self {
        match what {
            What::ProcessStart { parent_pid, parent } => Self::Start(Start {
                pid: *parent_pid,
                parent: parent.as_ref().map(ParentKeys::new),
            }),
            What::ProcessExec {
                path,
                args,
                args_truncated,
                uid,
                context,
            } => Self::Exec(Exec {
                path: lossless(&path.bytes),
                path_truncated: path.truncated,
                deleted: path.deleted,
                unreachable: path.unreachable,
                args: args.iter().map(|arg| lossless(arg)).collect(),
                args_truncated: *args_truncated,
                uid: *uid,
                context: Context::new(*uid, context),
            }),
            What::ProcessExecFailed {
                path,
                uid,
                parent,
                errno,
            } => Self::ExecFailed(ExecFailed::new(path, *uid, parent.as_ref(), *errno)),
            What::ProcessExit {
                status,
                oom_killed,
                core_dumped,
                parent,
                duration_ns,
                cpu_ns,
                rss_peak_bytes,
            } => Self::Exit(Exit {
                // Without the record the cause of its death is unknown.
                oom_killed: (status.is_some() || *oom_killed).then_some(*oom_killed),
                core_dumped: *core_dumped,
                parent_pid: parent.as_ref().map(|parent| parent.id.pid),
                parent: parent.as_ref().map(ParentKeys::new),
                duration: duration_ns.map(seconds),
                cpu: cpu_ns.map(seconds),
                rss_peak: *rss_peak_bytes,
                ..Exit::of(*status)
            }),
            What::ProcessSignal {
                signal,
                code,
                sender,
            } => Self::Signal(Signal::new(*signal, *code, sender.as_ref())),
            What::OomKill {
                rss_bytes,
                limit_bytes,
            } => Self::Oom(Oom {
                rss: *rss_bytes,
                limit: *limit_bytes,
            }),
            What::Tcp { change, socket } => Self::Tcp(Tcp {
                ends: Ends::new(socket),
                change: Change::new(*change),
            }),
            What::FileOpen { path, flags, error } => Self::File(File::new(path, *flags, *error)),
            What::FileChange {
                path,
                change,
                error,
            } => Self::Change(ChangeOfFile::new(path, change, *error)),
            What::DnsQuery(query) => Self::Dns(Dns::new(query)),
            What::UdpFlow(flow) => Self::Flow(Flow::new(flow)),
            What::Gap {
                lost,
                since_unix_ns,
            } => Self::Gap(Gap {
                since: *since_unix_ns,
                // Of a time in which nobody watched it is not known.
                lost: Some(Lost(lost)).filter(|lost| since_unix_ns.is_none() || !lost.0.is_empty()),
            }),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Start {
    #[serde(rename = "process.parent_pid")]
    pid: u32,
    #[serde(flatten)]
    parent: Option<ParentKeys>,
}

#[derive(Serialize)]
pub(super) struct Exec<'a> {
    #[serde(rename = "process.executable.path")]
    path: String,
    #[serde(
        rename = "process.executable.path.truncated",
        skip_serializing_if = "is_false"
    )]
    path_truncated: bool,
    #[serde(
        rename = "process.executable.deleted",
        skip_serializing_if = "is_false"
    )]
    deleted: bool,
    #[serde(
        rename = "process.executable.unreachable",
        skip_serializing_if = "is_false"
    )]
    unreachable: bool,
    #[serde(rename = "process.command_args")]
    args: Vec<String>,
    #[serde(rename = "process.command_args.truncated")]
    args_truncated: bool,
    #[serde(rename = "user.id")]
    uid: u32,
    #[serde(flatten)]
    context: Context<'a>,
}

#[derive(Serialize)]
pub(super) struct ExecFailed {
    #[serde(rename = "process.executable.path")]
    path: String,
    #[serde(rename = "user.id")]
    uid: u32,
    #[serde(rename = "process.parent_pid", skip_serializing_if = "Option::is_none")]
    parent_pid: Option<u32>,
    #[serde(flatten)]
    parent: Option<ParentKeys>,
    #[serde(rename = "error.type")]
    error: Cow<'static, str>,
}

impl ExecFailed {
    fn new(path: &FilePath, uid: u32, parent: Option<&Parent>, errno: i32) -> Self {
        Self {
            path: lossless(&path.bytes),
            uid,
            parent_pid: parent.map(|parent| parent.id.pid),
            parent: parent.map(ParentKeys::new),
            error: names::error(errno),
        }
    }
}

#[derive(Default, Serialize)]
pub(super) struct Exit {
    #[serde(rename = "process.exit.code", skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
    #[serde(
        rename = "process.exit.signal",
        skip_serializing_if = "Option::is_none"
    )]
    signal: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oom_killed: Option<bool>,
    #[serde(rename = "process.exit.core_dumped", skip_serializing_if = "is_false")]
    core_dumped: bool,
    #[serde(rename = "process.parent_pid", skip_serializing_if = "Option::is_none")]
    parent_pid: Option<u32>,
    #[serde(flatten)]
    parent: Option<ParentKeys>,
    #[serde(rename = "duration_seconds", skip_serializing_if = "Option::is_none")]
    duration: Option<f64>,
    #[serde(rename = "cpu.seconds", skip_serializing_if = "Option::is_none")]
    cpu: Option<f64>,
    #[serde(
        rename = "memory.rss_peak_bytes",
        skip_serializing_if = "Option::is_none"
    )]
    rss_peak: Option<u64>,
}

impl Exit {
    fn of(status: Option<ExitStatus>) -> Self {
        let (code, signal) = match status {
            Some(ExitStatus::Code(code)) => (Some(code), None),
            Some(ExitStatus::Signal(signal)) => (None, Some(signal)),
            None => (None, None),
        };
        Self {
            code,
            signal,
            ..Self::default()
        }
    }
}

#[derive(Serialize)]
pub(super) struct Oom {
    #[serde(rename = "memory.rss_bytes", skip_serializing_if = "Option::is_none")]
    rss: Option<u64>,
    #[serde(rename = "memory.limit_bytes", skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
}

#[derive(Serialize)]
pub(super) struct Tcp {
    #[serde(flatten)]
    ends: Ends,
    #[serde(flatten)]
    change: Change,
}

/// Which socket.
#[derive(Serialize)]
pub(super) struct Ends {
    #[serde(rename = "network.type", skip_serializing_if = "Option::is_none")]
    family: Option<&'static str>,
    #[serde(
        rename = "network.local.address",
        skip_serializing_if = "Option::is_none"
    )]
    local: Option<String>,
    #[serde(rename = "network.local.port", skip_serializing_if = "Option::is_none")]
    local_port: Option<u16>,
    #[serde(
        rename = "network.peer.address",
        skip_serializing_if = "Option::is_none"
    )]
    peer: Option<String>,
    #[serde(rename = "network.peer.port", skip_serializing_if = "Option::is_none")]
    peer_port: Option<u16>,
    #[serde(rename = "netns.cookie", skip_serializing_if = "Option::is_none")]
    netns: Option<u64>,
    #[serde(rename = "tcp.multipath", skip_serializing_if = "is_false")]
    multipath: bool,
    #[serde(rename = "noctule.socket.id", skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
}

impl Ends {
    pub(super) fn new(socket: &Socket) -> Self {
        let address = |end: SocketAddr| end.ip().to_canonical();
        // An IPv6 socket that is bound to no address yet may talk to an IPv4 peer.
        let end = socket.peer.or(socket.local).map(address);
        Self {
            family: end.map(|ip| if ip.is_ipv4() { "ipv4" } else { "ipv6" }),
            local: socket.local.map(|end| address(end).to_string()),
            local_port: socket.local.map(|end| end.port()),
            peer: socket.peer.map(|end| address(end).to_string()),
            peer_port: socket.peer.map(|end| end.port()),
            netns: socket.netns_cookie,
            multipath: socket.multipath,
            id: Some(socket.id).filter(|id| *id != 0),
        }
    }
}

/// What happened to it.
#[derive(Default, Serialize)]
struct Change {
    #[serde(rename = "error.type", skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    #[serde(rename = "error.errno", skip_serializing_if = "Option::is_none")]
    errno: Option<i32>,
    #[serde(rename = "tcp.segments", skip_serializing_if = "Option::is_none")]
    segments: Option<u32>,
    #[serde(
        rename = "tcp.segments_failed",
        skip_serializing_if = "Option::is_none"
    )]
    failed: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_sent: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_received: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_seconds: Option<f64>,
    #[serde(rename = "tcp.close.reason", skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(rename = "tcp.closed_by", skip_serializing_if = "Option::is_none")]
    closed_by: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retransmits: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt_seconds: Option<f64>,
}

impl Change {
    fn new(change: TcpChange) -> Self {
        let none = Self::default();
        match change {
            TcpChange::Listen | TcpChange::ListenClose | TcpChange::Accept => none,
            TcpChange::Connect { duration_ns } => Self {
                duration_seconds: duration_ns.map(seconds),
                ..none
            },
            TcpChange::ConnectFailed {
                reason,
                errno,
                duration_ns,
            } => Self {
                error: Some(reason.name()),
                errno: Some(errno).filter(|errno| *errno != 0),
                duration_seconds: duration_ns.map(seconds),
                ..none
            },
            TcpChange::Retransmit { segments, failed } => Self {
                segments: Some(segments),
                failed: Some(failed).filter(|failed| *failed > 0),
                ..none
            },
            TcpChange::Close {
                bytes_sent,
                bytes_received,
                duration_ns,
                reason,
                closed_here,
                retransmits,
                rtt_us,
            } => Self {
                reason: reason.map(CloseReason::name),
                closed_by: closed_here.map(|here| if here { "local" } else { "peer" }),
                bytes_sent,
                bytes_received,
                duration_seconds: duration_ns.map(seconds),
                retransmits,
                rtt_seconds: rtt_us.map(|us| f64::from(us) / 1e6),
                ..none
            },
        }
    }
}

#[derive(Serialize)]
pub(super) struct Gap<'a> {
    #[serde(
        rename = "gap.since_unix_nano",
        skip_serializing_if = "Option::is_none"
    )]
    since: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<Lost<'a>>,
}

/// Counts by name of the event.
struct Lost<'a>(&'a [(&'static str, u64)]);

impl Serialize for Lost<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

pub(super) fn is_false(value: &bool) -> bool {
    !value
}
