//! Converts UDP records to events of the model.

use noctule_model::{DnsAnswer, DnsQuery, Socket, UdpFlow, What};

use super::question;
use super::unread::{Ends, Unread};
use crate::abi::{self, Plain};
use crate::events::record::{address, owner_of, peer};
use crate::events::{RawEvent, RawProcess};
use crate::skel::udp::types;

// SAFETY: integers only; the assertions in udp/abi.h rule out padding.
#[allow(unsafe_code, reason = "promises about layout")]
mod layout {
    use super::{Plain, types};
    // SAFETY: as above.
    unsafe impl Plain for types::dns_query {}
    // SAFETY: as above.
    unsafe impl Plain for types::udp_flow {}
}

/// Parses a ring buffer record; `None` if it is not an event or not valid. An unreadable packet is
/// recorded in `unread`.
pub(in crate::events) fn parse(bytes: &[u8], unread: &mut Unread) -> Option<RawEvent> {
    let query = abi::plain::<types::dns_query>(bytes)?;
    if query.head.kind != types::event_kind::EVENT_DNS_QUERY.0 {
        return None;
    }
    match types::dns_limit(query.code.into()) {
        types::dns_limit::DNS_UNREAD => {
            unread.note(ends(&query), query.head.time);
            return None;
        }
        types::dns_limit::DNS_NO_ANSWER => {
            return Some(unanswered(&query, query.head.time, unread));
        }
        _ => {}
    }
    let answer = DnsAnswer {
        code: query.code as u8,
        records: query.answers,
        duration_ns: query.head.time.saturating_sub(query.asked),
    };
    Some(dns(&query, query.head.time, Some(answer)))
}

/// Returns the event for a DNS query to which no readable response has arrived.
pub(super) fn unanswered(query: &types::dns_query, now_ns: u64, unread: &Unread) -> RawEvent {
    let mut event = dns(query, now_ns, None);
    if let What::DnsQuery(told) = &mut event.what {
        told.unread = unread.may_answer(&ends(query), query.asked);
    }
    event
}

/// Returns the network namespace, the socket address and the server of a DNS query.
pub(super) fn ends(query: &types::dns_query) -> Ends {
    let socket = socket(&query.ends);
    (socket.netns_cookie, socket.local, socket.peer)
}

fn dns(query: &types::dns_query, time_ns: u64, answer: Option<DnsAnswer>) -> RawEvent {
    let length = (query.length as usize).min(query.question.len());
    RawEvent {
        time_ns,
        process: process(&query.head),
        what: What::DnsQuery(Box::new(DnsQuery {
            socket: socket(&query.ends),
            question: question::parse(&query.question[..length]),
            attempts: query.attempts,
            answer,
            unread: false,
        })),
    }
}

/// Returns the event of a flow. `end_ns` is the time at which the socket was closed or the flow
/// timed out.
pub(super) fn flow(flow: &types::udp_flow, end_ns: u64, closed: bool) -> RawEvent {
    RawEvent {
        time_ns: end_ns,
        process: process(&flow.head),
        what: What::UdpFlow(UdpFlow {
            socket: socket(&flow.ends),
            bytes_sent: flow.sent,
            bytes_received: flow.received,
            packets_sent: flow.packets_sent,
            packets_received: flow.packets_received,
            // The duration from the first packet to the last.
            duration_ns: flow.head.time.saturating_sub(flow.since),
            closed,
        }),
    }
}

fn process(head: &types::event_head) -> Option<RawProcess> {
    let process = &head.process;
    let names = [&process.comm, &process.thread];
    owner_of(process.pid, process.start, process.cgroup, names)
}

fn socket(ends: &types::socket_ends) -> Socket {
    let local = address(ends.family, &ends.local);
    Socket {
        id: 0,
        local: Some(std::net::SocketAddr::new(local, ends.local_port)),
        peer: Some(peer(ends.family, &ends.peer, ends.peer_port)),
        netns_cookie: (ends.netns_cookie != 0).then_some(ends.netns_cookie),
        multipath: false,
    }
}
