//! The columns of a question to a DNS server.

use noctule_model::{DnsAnswer, DnsQuery, DnsQuestion, Socket};

use crate::column::{List, Words, record};

record! {
    /// A question, and its answer if there was one.
    pub(crate) struct DnsRecord {
        name: Words,
        truncated: bool,
        kind: u32,
        attempts: u32,
        code: Option<u32>,
        records: Option<u32>,
        duration_ns: Option<u64>,
        unread: bool,
    }
}

impl DnsRecord {
    /// A list of one.
    pub(super) fn list(query: &DnsQuery) -> List<Self> {
        let DnsQuery {
            socket: _,
            question:
                DnsQuestion {
                    name,
                    truncated,
                    kind,
                },
            attempts,
            answer,
            unread,
        } = query;
        List(vec![Self {
            name: Words(name.clone()),
            truncated: *truncated,
            kind: u32::from(*kind),
            attempts: *attempts,
            code: answer.map(|answer| answer.code.into()),
            records: answer.map(|answer| answer.records.into()),
            duration_ns: answer.map(|answer| answer.duration_ns),
            unread: *unread,
        }])
    }

    /// `None` where the list is empty.
    pub(super) fn query(list: &List<Self>, socket: Socket) -> Option<DnsQuery> {
        let record = list.0.first()?;
        let answer = |code: u32| DnsAnswer {
            code: code as u8,
            records: record.records.unwrap_or(0) as u16,
            duration_ns: record.duration_ns.unwrap_or(0),
        };
        Some(DnsQuery {
            socket,
            question: DnsQuestion {
                name: record.name.0.clone(),
                truncated: record.truncated,
                kind: record.kind as u16,
            },
            attempts: record.attempts,
            answer: record.code.map(answer),
            unread: record.unread,
        })
    }
}
