//! OTLP requests (protobuf) with metrics and log records, ready to be sent.
//!
//! Metrics come from the same [`Snapshot`](crate::openmetrics::Snapshot) as `/metrics`, with the
//! names of `noctule_model::OtelMetric`. Events and changed verdicts are log records with an
//! `event.name` ([`EventRecords`]).
//!
//! # Resources
//!
//! Every resource describes the node. The resource of the node and the agent also has the agent's
//! attributes (`service.*`).
//!
//! The resource of a container, unit, cgroup or process identifies its subject, but has no
//! attributes of the agent, which the scope identifies instead. Metrics and events of one container
//! have equal resources.

mod logs;
pub(crate) mod messages;
mod resource;

pub use logs::{EventRecords, Severity, severity};
pub(crate) use resource::of_labels;
pub use resource::{Identity, agent_instance};

/// A request that is ready to be sent, uncompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The encoded message.
    pub body: Vec<u8>,
    /// Number of metric points or log records in the message.
    pub items: u64,
}

/// Approximate size of a request. gRPC receivers accept 4 MiB by default, after decompression.
pub const REQUEST_BYTES: usize = 2 << 20;

/// The version of the semantic conventions whose names are used.
pub(crate) const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.44.0";

/// Name of the instrumentation scope.
pub(crate) const SCOPE: &str = "noctule";

pub(crate) fn scope(version: &str) -> messages::Scope {
    messages::Scope {
        name: SCOPE.to_owned(),
        version: version.to_owned(),
    }
}
