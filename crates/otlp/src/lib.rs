//! Sends requests to an OpenTelemetry receiver over HTTP or gRPC, with or without TLS, and never
//! blocks its callers.
//!
//! A request consists of bytes and the number of items in them; this crate does not interpret the
//! bytes. Each [`Signal`] has its own bounded queue ([`Queue`]) and one request in flight. If the
//! receiver refuses a request temporarily, the request stays first in the queue and is retried. If
//! the queue is full, the oldest waiting request is dropped. Items that are not delivered are
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

/// The kind of data in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Metric data points.
    Metrics,
    /// Log records.
    Logs,
}

impl Signal {
    pub const ALL: [Self; 2] = [Self::Metrics, Self::Logs];

    /// Returns the name in paths and labels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }
}
