//! The events of a group or the node: the fields of a row, and the columns of recordings.

use noctule_model::{EventCounter, Events, Measurable as _, Measured};

use crate::{Type, Value};
use Source::{Connections, Count, Counts, Listeners};

/// A field of a row.
#[derive(Debug)]
pub struct EventsField {
    /// The key in JSON.
    pub key: &'static str,
    /// The meaning of the value.
    pub help: &'static str,
    /// The value.
    pub source: Source,
}

/// The source of a value.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    Count(EventCounter),
    /// Counters, by their names within the group.
    Counts(&'static [EventCounter]),
    /// Established connections.
    Connections,
    /// Listening sockets.
    Listeners,
}

const fn field(key: &'static str, source: Source, help: &'static str) -> EventsField {
    EventsField { key, help, source }
}

/// The fields of a row, in the order in which formats write them.
#[rustfmt::skip]
pub const EVENTS: &[EventsField] = &[
    field("process.starts", Count(EventCounter::ProcessStarts),
        "forked processes"),
    field("process.exits", Counts(&EventCounter::EXITS),
        "ended processes by outcome: `completed` (code 0), `failed` (another code), `killed` (by a signal), `oom` (by \
         the OOM killer)"),
    field("oom.kills", Count(EventCounter::OomKills),
        "processes that the OOM killer ended"),
    field("tcp.connects", Count(EventCounter::TcpConnects),
        "outgoing connections that were established"),
    field("tcp.connect_failures", Counts(&EventCounter::CONNECT_FAILURES),
        "failed outgoing connections by reason: `refused`, `timeout` (the kernel gave up), `abandoned` (the \
         application gave up), `unreachable`, `other`"),
    field("tcp.accepts", Count(EventCounter::TcpAccepts),
        "incoming connections that were established"),
    field("tcp.retransmits", Count(EventCounter::TcpRetransmits),
        "retransmitted segments, as the kernel counts them, including those that the host itself dropped"),
    field("tcp.bytes_sent", Count(EventCounter::TcpBytesSent),
        "payload acknowledged by the peer, each byte once"),
    field("tcp.bytes_received", Count(EventCounter::TcpBytesReceived),
        "received payload, each byte once"),
    field("tcp.connections", Connections,
        "established connections at the end of the window"),
    field("tcp.listeners", Listeners,
        "listening sockets at the end of the window"),
    field("file.opens", Counts(&EventCounter::OPENS),
        "opened files: `read` (read-only), `write` (write, or both)"),
    field("file.open_failures", Count(EventCounter::FileOpenFailures),
        "failed opens"),
];

impl EventsField {
    pub const fn value_type(&self) -> Type {
        match self.source {
            Counts(_) => Type::Counts,
            Count(_) | Connections | Listeners => Type::Integer,
        }
    }

    /// Returns the counters. The fields for open sockets have none.
    pub const fn counters(&self) -> &[EventCounter] {
        match &self.source {
            Count(counter) => std::slice::from_ref(counter),
            Counts(group) => group,
            Connections | Listeners => &[],
        }
    }

    /// Returns the value, or `None` if it is not measured.
    pub fn get(&self, events: &Events, measured: Measured) -> Option<Value<'static>> {
        let Events { counters, sockets } = events;
        let open = |count: u64| measured.has(EventCounter::TcpAccepts).then_some(count);
        match self.source {
            Count(counter) => measured.value(counters, counter),
            Connections => open(sockets.connections),
            Listeners => open(sockets.listeners),
            Counts(group) => {
                let count = |it: &EventCounter| Some((it.part(), measured.value(counters, *it)?));
                let counts: Vec<_> = group.iter().filter_map(count).collect();
                return (!counts.is_empty()).then_some(Value::Counts(counts));
            }
        }
        .map(Value::from)
    }
}

/// Returns the column of a counter in recordings.
pub fn column(counter: EventCounter) -> String {
    let found = EVENTS
        .iter()
        .find(|field| field.counters().contains(&counter));
    let key = found.map_or("tcp.connect_ns", |field| field.key);
    let name = key.replace('.', "_");
    match found.map(|field| field.source) {
        Some(Counts(_)) => format!("{name}_{}", counter.part()),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_counter_has_a_column_of_its_own() {
        let names: BTreeSet<String> = EventCounter::all().map(column).collect();
        assert_eq!(names.len(), EventCounter::COUNT);
        assert_eq!(column(EventCounter::TcpConnectNs), "tcp_connect_ns");
        assert_eq!(column(EventCounter::EXITS[3]), "process_exits_oom");
    }
}
