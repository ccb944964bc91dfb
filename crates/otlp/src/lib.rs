//! Sends requests to an OpenTelemetry receiver, over HTTP or gRPC, with TLS or without, and never holds up who hands them over.
//!
//! A request is bytes and the number of items in it; what they mean is not known here. Each [`Signal`] has a
//! bounded queue of its own ([`Queue`]) and one request under way. A request that the receiver refuses for now
//! stays first and is sent again; the oldest behind it give way when there is no room. What is not delivered is
//! counted by reason ([`Reason`]).

mod client;
mod endpoint;
mod grpc;
mod outcome;
mod queue;
mod retry;
mod tls;
mod worker;

pub use client::{Client, Settings};
pub use endpoint::{Endpoint, Protocol, UnusableEndpoint};
pub use noctule_tls::{TlsError, TlsPart};
pub use outcome::Outcome;
pub use queue::{Counts, Queue, Reason};
pub use tls::{Tls, TlsWish};
pub use worker::deliver;

/// What a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Points of metrics.
    Metrics,
    /// Log records.
    Logs,
}

impl Signal {
    /// Each of them.
    pub const ALL: [Self; 2] = [Self::Metrics, Self::Logs];

    /// Its name in paths and labels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }
}
