//! Plain data of noctule: what flows from the sources to the sinks.
//!
//! This crate knows no file, no kernel, no clock and no serialisation format. Every format has its
//! own counterpart type in the crate that writes it, so that a field can be renamed here without
//! changing what users see.

mod batch;
mod comm;
mod counters;
mod health;
mod ids;
mod metric;
mod owner;
mod report;
mod rollup;

pub use batch::{Batch, CgroupRow, Node, ProcessRow};
pub use comm::{Comm, escape_terminal};
pub use counters::{Counter, Counters, Measured, SOFTIRQ_VECTORS};
pub use health::{AgentCost, Feature, FeatureState, Loss, MapFill, ProgramCost};
pub use ids::{CgroupId, ProcessId};
pub use metric::{Kind, METRICS, Metric, SELF_METRICS, SelfSource, Source, Unit};
pub use owner::{CgroupEvent, Container, ContainerRole, Owner, Pod, Runtime, Subject};
pub use report::{Level, Report, ReportBuilder, Row};
pub use rollup::{Rollup, SubjectRow};
