//! Socket events: TCP connections, DNS queries and UDP flows.

use std::net::{IpAddr, SocketAddr};

use noctule_model::{CloseReason, DnsAnswer, DnsQuery, Socket, TcpChange, UdpFlow, What};

use super::{EventField, EventKind, get};
use crate::column::{Access, Column, List, Row, Stored as _, Values, column};
use crate::{Value, flag, integer, mark, names, number, text};

/// The value of `error.type` for a DNS query without a response.
const NO_ANSWER: &str = "timeout";

pub(super) const LISTEN: EventKind = EventKind {
    name: "tcp.listen",
    help: "A socket started listening.",
    fields: &[ENDS],
};

pub(super) const LISTEN_CLOSE: EventKind = EventKind {
    name: "tcp.listen_close",
    help: "A socket stopped listening.",
    fields: &[ENDS],
};

pub(super) const CONNECT: EventKind = EventKind {
    name: "tcp.connect",
    help: "An outgoing connection was established.",
    fields: &[
        ENDS,
        &[number(
            "duration_seconds",
            "Time from the connect call to the end of the handshake. Absent if the call was \
         made before the agent started.",
            get!(tcp, TcpChange::Connect { duration_ns } => duration_ns.map(Value::seconds)),
        )],
    ],
};

pub(super) const CONNECT_FAILED: EventKind = EventKind {
    name: "tcp.connect_failed",
    help: "A connection could not be established.",
    fields: &[ENDS, CONNECT_ERROR],
};

pub(super) const ACCEPT: EventKind = EventKind {
    name: "tcp.accept",
    help: "An incoming connection was established. The event belongs to the process that accepts \
           it or, without the feature `tcp_calls`, to the process that listens.",
    fields: &[ENDS],
};

pub(super) const RETRANSMIT: EventKind = EventKind {
    name: "tcp.retransmit",
    help: "Segments were retransmitted.",
    fields: &[ENDS, SEGMENTS],
};

pub(super) const CLOSE: EventKind = EventKind {
    name: "tcp.close",
    help: "A connection ended.",
    fields: &[ENDS, END],
};

pub(super) const DNS_QUERY: EventKind = EventKind {
    name: "dns.query",
    help: "A process sent a query to a DNS server over UDP, port 53. It received the answer, or no \
           answer arrived within 6 s or before the stream ended. Reported only with `--kind dns`.",
    fields: &[QUERY, TRANSPORT, ENDS],
};

pub(super) const UDP_FLOW: EventKind = EventKind {
    name: "udp.flow",
    help: "The traffic between a socket and one peer. Reported once: when the socket is closed, \
           when the flow has been idle for 30 s, or when the stream ends. Reported only with \
           `--kind udp`.",
    fields: &[FLOW, TRANSPORT, ENDS],
};

fn tcp(what: &What) -> Option<&TcpChange> {
    match what {
        What::Tcp { change, .. } => Some(change),
        _ => None,
    }
}

fn query(what: &What) -> Option<&DnsQuery> {
    match what {
        What::DnsQuery(query) => Some(query),
        _ => None,
    }
}

fn flow(what: &What) -> Option<&UdpFlow> {
    match what {
        What::UdpFlow(flow) => Some(flow),
        _ => None,
    }
}

fn socket(what: &What) -> Option<&Socket> {
    match what {
        What::Tcp { socket, .. } => Some(socket),
        What::DnsQuery(query) => Some(&query.socket),
        What::UdpFlow(flow) => Some(&flow.socket),
        _ => None,
    }
}

fn address(end: SocketAddr) -> IpAddr {
    end.ip().to_canonical()
}

#[rustfmt::skip]
const ENDS: &[EventField] = &[
    text("network.type",
        "`ipv4` or `ipv6`. IPv4 over an IPv6 socket is `ipv4`.",
        // An IPv6 socket that is not bound yet can have an IPv4 peer.
        |what| {
            let socket = socket(what)?;
            let end = address(socket.peer.or(socket.local)?);
            Some(Value::text(if end.is_ipv4() { "ipv4" } else { "ipv6" }))
        }),
    text("network.local.address",
        "Local address. Absent until the socket has one.",
        |what| Some(Value::text(address(socket(what)?.local?).to_string()))),
    integer("network.local.port",
        "Local port. Absent until the socket has one.",
        |what| Some(u32::from(socket(what)?.local?.port()).into())),
    text("network.peer.address",
        "Peer address as the socket has it, before the kernel translates it (DNAT, for \
         example for a Kubernetes service). For a DNS answer, the address that it came from. \
         Absent for a listening socket, and for a failure that was discovered later.",
        |what| Some(Value::text(address(socket(what)?.peer?).to_string()))),
    integer("network.peer.port",
        "Port of the peer.",
        |what| Some(u32::from(socket(what)?.peer?.port()).into())),
    integer("netns.cookie",
        "Cookie of the network namespace, which distinguishes equal addresses.",
        |what| Some(socket(what)?.netns_cookie?.into())),
    mark("tcp.multipath",
        "The socket is a subflow of a Multipath TCP connection, and the event belongs to the \
         process of that connection.",
        |what| Value::mark(socket(what)?.multipath)),
    integer("noctule.socket.id",
        "Id of the socket, to join its events. Valid as long as the agent runs.",
        |what| {
            Some(socket(what)?.id)
                .filter(|id| *id != 0)
                .map(Value::from)
        }),
];

#[rustfmt::skip]
const CONNECT_ERROR: &[EventField] = &[
    text("error.type",
        "`refused`, `timeout` (the kernel gave up), `abandoned` (the application gave up), `unreachable`, `other`.",
        get!(tcp, TcpChange::ConnectFailed { reason, .. } => Some(Value::text(reason.name())))),
    integer("error.errno",
        "Error number that the application receives. Absent if the application gave up.",
        get!(tcp, TcpChange::ConnectFailed { errno, .. } if *errno != 0 => Some((*errno).into()))),
    number("duration_seconds",
        "Time from the connect call to the failure. Absent if the call was made before the \
         agent started, or if the failure was discovered later.",
        get!(tcp, TcpChange::ConnectFailed { duration_ns, .. } => duration_ns.map(Value::seconds))),
];

#[rustfmt::skip]
const SEGMENTS: &[EventField] = &[
    integer("tcp.segments",
        "Number of retransmitted segments, as the kernel counts them (`TcpRetransSegs` in \
         nstat).",
        get!(tcp, TcpChange::Retransmit { segments, .. } => Some((*segments).into()))),
    integer("tcp.segments_failed",
        "Number of these segments that a full queue on this host dropped \
         (`TcpExtTCPRetransFail`). Absent if none. Before Linux 6.17, dropped segments are \
         reported at the next attempt or at the end of the connection, and can include \
         segments that no BPF program saw (a gap reports `skipped`, or a hidden process was \
         interrupted). From Linux 6.17 on, segments that no BPF program saw are only in \
         `tcp.segments`.",
        get!(tcp, TcpChange::Retransmit { failed, .. } if *failed > 0 => Some((*failed).into()))),
];

#[rustfmt::skip]
const END: &[EventField] = &[
    integer("bytes_sent",
        "Payload bytes acknowledged by the peer, each counted once.",
        get!(tcp, TcpChange::Close { bytes_sent, .. } => bytes_sent.map(Value::from))),
    integer("bytes_received",
        "Payload bytes received in order, each counted once.",
        get!(tcp, TcpChange::Close { bytes_received, .. } => bytes_received.map(Value::from))),
    number("duration_seconds",
        "Time since the connection was established.",
        get!(tcp, TcpChange::Close { duration_ns, .. } => duration_ns.map(Value::seconds))),
    text("tcp.close.reason",
        "`fin` (closed normally), `reset` (by the peer), `aborted` (reset by this side, \
         because it closed with unread data or without waiting), `timeout` (the peer \
         acknowledged nothing, or its host is unreachable), `keepalive` (the peer answered \
         no probe), `killed` (from outside: `ss -K`). Absent if unknown.",
        get!(tcp, TcpChange::Close { reason, .. } => reason.map(CloseReason::name).map(Value::text))),
    text("tcp.closed_by",
        "The side that closed or reset the connection first: `local` or `peer`. Absent for a timeout.",
        get!(tcp, TcpChange::Close { closed_here, .. } => closed_here.map(|here| Value::text(if here { "local" } else { "peer" })))),
    integer("retransmits",
        "Number of retransmitted segments: the sum of `tcp.segments` for this connection, \
         plus the retransmissions of its SYN-ACK, which are reported for the listening \
         process.",
        get!(tcp, TcpChange::Close { retransmits, .. } => retransmits.map(Value::from))),
    number("rtt_seconds",
        "Smoothed round-trip time. Absent if none was measured, or if the kernel could not time \
         the handshake (retransmitted SYN or SYN-ACK, SYN cookie), because the wrong \
         sample would remain in the average.",
        get!(tcp, TcpChange::Close { rtt_us, .. } => rtt_us.map(|us| Value::Number(f64::from(us) / 1e6)))),
];

#[rustfmt::skip]
const QUERY: &[EventField] = &[
    text("dns.question.name",
        "The queried name, without a trailing dot; `.` is the root. A dot or backslash \
         within a label is escaped with a backslash.",
        |what| Some(Value::Bytes(&query(what)?.question.name))),
    mark("dns.question.name.truncated",
        "The name was cut off, or is malformed.",
        |what| Value::mark(query(what)?.question.truncated)),
    text("dns.question.type",
        "`A`, `AAAA` and so on; for a type without a name, `TYPE` and its number. Absent for \
         a truncated name.",
        |what| {
            let question = &query(what)?.question;
            (!question.truncated).then(|| Value::text(names::dns_type(question.kind)))
        }),
    text("dns.response_code",
        "`NOERROR`, `NXDOMAIN` and so on, or the number of the code. Absent if there was no \
         answer or it could not be read.",
        |what| Some(Value::text(names::dns_code(query(what)?.answer?.code)))),
    integer("dns.answer_count",
        "Number of records in the answer section.",
        |what| Some(u32::from(query(what)?.answer?.records).into())),
    integer("dns.attempts",
        "Number of times that this socket sent the query. Absent if 1.",
        |what| {
            Some(query(what)?.attempts)
                .filter(|sent| *sent != 1)
                .map(Value::from)
        }),
    text("error.type",
        "`timeout` if no answer had arrived by the time of the event, absent if one had. Also \
         absent if the \
         process received a packet from this server that could not be read, because that may \
         have been the answer.",
        |what| {
            let query = query(what)?;
            let timed_out = query.answer.is_none() && !query.unread;
            timed_out.then(|| Value::text(NO_ANSWER))
        }),
    number("duration_seconds",
        "Time from the first attempt until the process received the answer. Absent if there \
         was no answer or it could not be read.",
        |what| Some(Value::seconds(query(what)?.answer?.duration_ns))),
];

#[rustfmt::skip]
const FLOW: &[EventField] = &[
    integer("bytes_sent",
        "Payload bytes sent by the process. Whether they arrived is unknown.",
        |what| Some(flow(what)?.bytes_sent.into())),
    integer("bytes_received",
        "Payload bytes received by the process.",
        |what| Some(flow(what)?.bytes_received.into())),
    integer("packets_sent",
        "Packets sent by the process.",
        |what| Some(flow(what)?.packets_sent.into())),
    integer("packets_received",
        "Packets received by the process.",
        |what| Some(flow(what)?.packets_received.into())),
    number("duration_seconds",
        "Time from the first packet to the last packet.",
        |what| Some(Value::seconds(flow(what)?.duration_ns))),
    flag("udp.closed",
        "Whether the socket was closed. If not, the flow was idle or the stream ended.",
        |what| Some(Value::Flag(flow(what)?.closed))),
];

#[rustfmt::skip]
const TRANSPORT: &[EventField] = &[text("network.transport",
    "`udp`.",
    |_| Some(Value::text("udp")))];

/// Columns in recordings. Other kinds of events also use the error number.
pub(super) const COLUMNS: &[Column<What>] = &[
    column!(MaybeU64 "socket":
        What::Tcp { socket, .. } | What::UdpFlow(UdpFlow { socket, .. }) => socket.id,
        What::DnsQuery(query) => query.socket.id),
    column!(MaybeText "local":
        What::Tcp { socket, .. } | What::UdpFlow(UdpFlow { socket, .. }) => socket.local,
        What::DnsQuery(query) => query.socket.local),
    column!(MaybeText "peer":
        What::Tcp { socket, .. } | What::UdpFlow(UdpFlow { socket, .. }) => socket.peer,
        What::DnsQuery(query) => query.socket.peer),
    column!(MaybeU64 "netns_cookie":
        What::Tcp { socket, .. } | What::UdpFlow(UdpFlow { socket, .. }) => socket.netns_cookie,
        What::DnsQuery(query) => query.socket.netns_cookie),
    column!(Flag "multipath":
        What::Tcp { socket, .. } | What::UdpFlow(UdpFlow { socket, .. }) => socket.multipath,
        What::DnsQuery(query) => query.socket.multipath),
    column!(MaybeWord "error_type":
        What::Tcp { change: TcpChange::ConnectFailed { reason, .. }, .. } => reason),
    column!(MaybeWord "close_reason":
        What::Tcp { change: TcpChange::Close { reason, .. }, .. } => reason),
    column!(MaybeFlag "closed_here":
        What::Tcp { change: TcpChange::Close { closed_here, .. }, .. } => closed_here),
    column!(MaybeI32 "errno":
        What::FileOpen { error, .. } | What::FileChange { error, .. } => error,
        What::ProcessExecFailed { errno, .. }
        | What::Tcp { change: TcpChange::ConnectFailed { errno, .. }, .. } => errno),
    column!(MaybeU32 "segments":
        What::Tcp { change: TcpChange::Retransmit { segments, .. }, .. } => segments),
    SEGMENTS_FAILED,
    column!(MaybeU64 "bytes_sent":
        What::Tcp { change: TcpChange::Close { bytes_sent, .. }, .. } => bytes_sent,
        What::UdpFlow(UdpFlow { bytes_sent, .. }) => bytes_sent),
    column!(MaybeU64 "bytes_received":
        What::Tcp { change: TcpChange::Close { bytes_received, .. }, .. } => bytes_received,
        What::UdpFlow(UdpFlow { bytes_received, .. }) => bytes_received),
    column!(MaybeU32 "retransmits":
        What::Tcp { change: TcpChange::Close { retransmits, .. }, .. } => retransmits),
    column!(MaybeU32 "rtt_us":
        What::Tcp { change: TcpChange::Close { rtt_us, .. }, .. } => rtt_us),
];

/// Columns of UDP events.
pub(super) const UDP_COLUMNS: &[Column<What>] = &[
    DNS,
    column!(MaybeU64 "packets_sent":
        What::UdpFlow(UdpFlow { packets_sent, .. }) => packets_sent),
    column!(MaybeU64 "packets_received":
        What::UdpFlow(UdpFlow { packets_received, .. }) => packets_received),
    column!(Flag "closed": What::UdpFlow(UdpFlow { closed, .. }) => closed),
];

/// Recordings of older versions do not have this column.
const SEGMENTS_FAILED: Column<What> = Column {
    name: "segments_failed",
    values: Values::MaybeU32(Access {
        get: |what| match what {
            What::Tcp {
                change: TcpChange::Retransmit { failed, .. },
                ..
            } => Some(*failed),
            _ => None,
        },
        set: |what, count| {
            if let What::Tcp {
                change: TcpChange::Retransmit { failed, .. },
                ..
            } = what
            {
                *failed = count.unwrap_or(0);
            }
            true
        },
    }),
};

/// The DNS query. The columns of its socket have been restored before this column.
const DNS: Column<What> = Column {
    name: "dns",
    values: Values::Queries(Access {
        get: |what| match what {
            What::DnsQuery(query) => List(vec![(**query).clone()]),
            _ => List::default(),
        },
        set: |what, queries| {
            let What::DnsQuery(query) = what else {
                return true;
            };
            let socket = query.socket;
            let found = queries.0.into_iter().next();
            let found = found.map(|found| **query = DnsQuery { socket, ..found });
            found.is_some()
        },
    }),
};

impl Row for DnsQuery {
    const COLUMNS: &'static [&'static [Column<Self>]] = &[&[
        column!(Words "name" question.name),
        column!(Flag "truncated" question.truncated),
        column!(U32 "kind" question.kind),
        column!(U32 "attempts" attempts),
        Column {
            name: "code",
            values: Values::MaybeU32(Access {
                get: |query| Some(query.answer?.code.into()),
                set: |query, code| {
                    query.answer = code.map(|code| DnsAnswer {
                        code: code as u8,
                        records: 0,
                        duration_ns: 0,
                    });
                    true
                },
            }),
        },
        Column {
            name: "records",
            values: Values::MaybeU32(Access {
                get: |query| Some(query.answer?.records.into()),
                set: |query, records| {
                    if let (Some(answer), Some(records)) = (&mut query.answer, records) {
                        answer.records = records as u16;
                    }
                    true
                },
            }),
        },
        Column {
            name: "duration_ns",
            values: Values::MaybeU64(Access {
                get: |query| Some(query.answer?.duration_ns),
                set: |query, duration_ns| {
                    if let (Some(answer), Some(duration_ns)) = (&mut query.answer, duration_ns) {
                        answer.duration_ns = duration_ns;
                    }
                    true
                },
            }),
        },
        column!(Flag "unread" unread),
    ]];
}
