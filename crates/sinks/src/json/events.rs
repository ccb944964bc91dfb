//! The event counters of a `stat` row or of the node.

use noctule_model::{ConnectError, EventCounter, Events, ExitKind, FileMode, Measured};
use serde::Serialize;

use super::by_name::ByName;

/// The event counters. `None` means not measured.
#[derive(Default, Serialize)]
pub(super) struct EventsJson {
    #[serde(rename = "process.starts", skip_serializing_if = "Option::is_none")]
    starts: Option<u64>,
    #[serde(rename = "process.exits", skip_serializing_if = "ByName::is_empty")]
    exits: ByName,
    #[serde(rename = "oom.kills", skip_serializing_if = "Option::is_none")]
    oom_kills: Option<u64>,
    #[serde(rename = "tcp.connects", skip_serializing_if = "Option::is_none")]
    connects: Option<u64>,
    #[serde(
        rename = "tcp.connect_failures",
        skip_serializing_if = "ByName::is_empty"
    )]
    connect_failures: ByName,
    #[serde(rename = "tcp.accepts", skip_serializing_if = "Option::is_none")]
    accepts: Option<u64>,
    #[serde(rename = "tcp.retransmits", skip_serializing_if = "Option::is_none")]
    retransmits: Option<u64>,
    #[serde(rename = "tcp.bytes_sent", skip_serializing_if = "Option::is_none")]
    bytes_sent: Option<u64>,
    #[serde(rename = "tcp.bytes_received", skip_serializing_if = "Option::is_none")]
    bytes_received: Option<u64>,
    #[serde(rename = "tcp.connections", skip_serializing_if = "Option::is_none")]
    connections: Option<u64>,
    #[serde(rename = "tcp.listeners", skip_serializing_if = "Option::is_none")]
    listeners: Option<u64>,
    #[serde(rename = "file.opens", skip_serializing_if = "ByName::is_empty")]
    opens: ByName,
    #[serde(rename = "file.open_failures", skip_serializing_if = "Option::is_none")]
    open_failures: Option<u64>,
}

impl EventsJson {
    pub(super) fn new(events: &Events, measured: Measured) -> Self {
        let Events { counters, sockets } = events;
        let value = |counter| measured.value(counters, counter);
        let open = |count| measured.has(EventCounter::TcpAccepts).then_some(count);
        let exits = ExitKind::ALL.map(|kind| (kind.name(), EventCounter::ProcessExits(kind)));
        let failures =
            ConnectError::ALL.map(|why| (why.name(), EventCounter::TcpConnectFailures(why)));
        let opens = FileMode::ALL.map(|mode| (mode.name(), EventCounter::FileOpens(mode)));
        Self {
            starts: value(EventCounter::ProcessStarts),
            exits: ByName::new(exits, counters, measured),
            oom_kills: value(EventCounter::OomKills),
            connects: value(EventCounter::TcpConnects),
            connect_failures: ByName::new(failures, counters, measured),
            accepts: value(EventCounter::TcpAccepts),
            retransmits: value(EventCounter::TcpRetransmits),
            bytes_sent: value(EventCounter::TcpBytesSent),
            bytes_received: value(EventCounter::TcpBytesReceived),
            connections: open(sockets.connections),
            listeners: open(sockets.listeners),
            opens: ByName::new(opens, counters, measured),
            open_failures: value(EventCounter::FileOpenFailures),
        }
    }
}
