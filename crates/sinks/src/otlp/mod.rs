//! OpenTelemetry's format (OTLP, protobuf): requests of metrics and of log records, ready to be sent.
//!
//! Metrics are those of `/metrics`, from the same [`Snapshot`](crate::openmetrics::Snapshot), under the names of
//! `noctule_model::OtelMetric` (`metrics`). Events and changed verdicts are log records with an `event.name`
//! ([`EventRecords`]).
//!
//! # Resources
//!
//! What describes the node is in each resource. The resource of the node and of the agent has the agent
//! (`service.*`) as well; that of a container, unit, cgroup or process has what identifies it, and nothing of the
//! agent: who measured is in the scope. Metrics and events of one container have equal resources.

mod logs;
pub(crate) mod messages;
mod resource;

pub use logs::{EventRecords, Severity, severity};
pub(crate) use resource::of_labels;
pub use resource::{Identity, agent_instance};

/// A request that is ready to be sent, not compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The message.
    pub body: Vec<u8>,
    /// Points of metrics, or log records, in it.
    pub items: u64,
}

/// About how large a request becomes. Receivers of gRPC take 4 MiB by default, after they decompressed it.
pub const REQUEST_BYTES: usize = 2 << 20;

/// Name of the scope of everything.
pub(crate) const SCOPE: &str = "noctule";

pub(crate) fn scope(version: &str) -> messages::Scope {
    messages::Scope {
        name: SCOPE.to_owned(),
        version: version.to_owned(),
    }
}
