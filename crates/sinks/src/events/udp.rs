//! What events of UDP have besides their time and their process.

use std::borrow::Cow;

use noctule_model::{DnsQuery, UdpFlow};
use noctule_text::lossless;
use serde::Serialize;

use super::attributes::{Ends, is_false};
use super::names;
use crate::json::seconds;

/// `error.type` of a question without an answer.
const NO_ANSWER: &str = "timeout";

#[derive(Serialize)]
pub(super) struct Dns {
    #[serde(rename = "dns.question.name")]
    name: String,
    #[serde(
        rename = "dns.question.name.truncated",
        skip_serializing_if = "is_false"
    )]
    truncated: bool,
    #[serde(rename = "dns.question.type", skip_serializing_if = "Option::is_none")]
    kind: Option<Cow<'static, str>>,
    #[serde(rename = "dns.response_code", skip_serializing_if = "Option::is_none")]
    code: Option<Cow<'static, str>>,
    #[serde(rename = "dns.answer_count", skip_serializing_if = "Option::is_none")]
    records: Option<u16>,
    #[serde(rename = "dns.attempts", skip_serializing_if = "is_one")]
    attempts: u32,
    #[serde(rename = "error.type", skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    #[serde(rename = "duration_seconds", skip_serializing_if = "Option::is_none")]
    duration: Option<f64>,
    #[serde(rename = "network.transport")]
    transport: &'static str,
    #[serde(flatten)]
    ends: Ends,
}

impl Dns {
    pub(super) fn new(query: &DnsQuery) -> Self {
        let question = &query.question;
        let answer = query.answer;
        Self {
            name: lossless(&question.name),
            truncated: question.truncated,
            kind: (!question.truncated).then(|| names::dns_type(question.kind)),
            code: answer.map(|answer| names::dns_code(answer.code)),
            records: answer.map(|answer| answer.records),
            attempts: query.attempts,
            error: (answer.is_none() && !query.unread).then_some(NO_ANSWER),
            duration: answer.map(|answer| seconds(answer.duration_ns)),
            transport: "udp",
            ends: Ends::new(&query.socket),
        }
    }
}

fn is_one(attempts: &u32) -> bool {
    *attempts == 1
}

#[derive(Serialize)]
pub(super) struct Flow {
    bytes_sent: u64,
    bytes_received: u64,
    packets_sent: u64,
    packets_received: u64,
    #[serde(rename = "duration_seconds")]
    duration: f64,
    #[serde(rename = "udp.closed")]
    closed: bool,
    #[serde(rename = "network.transport")]
    transport: &'static str,
    #[serde(flatten)]
    ends: Ends,
}

impl Flow {
    pub(super) fn new(flow: &UdpFlow) -> Self {
        Self {
            bytes_sent: flow.bytes_sent,
            bytes_received: flow.bytes_received,
            packets_sent: flow.packets_sent,
            packets_received: flow.packets_received,
            duration: seconds(flow.duration_ns),
            closed: flow.closed,
            transport: "udp",
            ends: Ends::new(&flow.socket),
        }
    }
}
