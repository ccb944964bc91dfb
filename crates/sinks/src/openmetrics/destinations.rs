//! The destinations of a subject's connections.

use std::net::SocketAddr;
use std::sync::Arc;

use noctule_model::{DestinationCounter, DestinationCounters, SubjectRow};

use super::figures::Figures;
use super::pairs::{Named, Relation};
use super::text::push_label;

/// Subjects and the addresses to which they connect.
#[derive(Debug)]
pub(super) struct Destinations;

impl Relation for Destinations {
    /// A connection pool connects once and then only sends. Series that begin at 0 would never show
    /// that connect.
    const WHOLE: bool = true;
    const OTHER: &'static str = "destination=\"_other\"";
    type Partner = SocketAddr;
    type Amount = DestinationCounters;
    /// The number of attempts, then the number of bytes. A service that is called often or fails
    /// ranks above a service that transfers much data through a single connection.
    type Rank = (u64, u64);

    fn of(row: &SubjectRow) -> impl Iterator<Item = (&SocketAddr, DestinationCounters)> {
        let list = row.destinations.iter();
        list.map(|known| (&known.destination, known.counters))
    }

    fn is_named(_: &SocketAddr) -> bool {
        true
    }

    fn labels(destination: &SocketAddr, _: &Named<'_>) -> Option<Arc<str>> {
        let mut labels = String::new();
        push_label(&mut labels, "destination", &destination.to_string());
        Some(labels.into())
    }

    fn rank(amount: &DestinationCounters) -> Option<(u64, u64)> {
        use DestinationCounter::{BytesReceived, BytesSent, Connects, Failures};
        let attempts = amount[Connects] + amount[Failures];
        let bytes = amount[BytesSent] + amount[BytesReceived];
        (!amount.is_zero()).then_some((attempts, bytes))
    }

    fn all(figures: &Figures) -> DestinationCounters {
        figures.destinations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_address_and_port() {
        let cases = ["10.0.0.1:80", "[2001:db8::1]:443"];
        for text in cases {
            let address: SocketAddr = text.parse().expect("an address");
            let expected = format!("destination=\"{text}\"");
            let labels = Destinations::labels(&address, &|_| None);
            assert_eq!(labels.as_deref(), Some(expected.as_str()));
        }
    }

    #[test]
    fn attempts_rank_before_bytes_and_idle_has_no_rank() {
        let with = |attempts, bytes| {
            let mut amount = DestinationCounters::default();
            amount[DestinationCounter::Failures] = attempts;
            amount[DestinationCounter::BytesSent] = bytes;
            Destinations::rank(&amount)
        };
        assert_eq!(with(0, 0), None);
        assert!(with(0, 1) > None);
        assert!(with(1, 0) > with(0, 9));
        assert!(with(1, 2) > with(1, 1));
    }
}
