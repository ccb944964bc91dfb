//! `/metrics` in OpenMetrics 1.0, in the classic Prometheus text format, and in Prometheus'
//! protobuf format, the only one with native histograms.
//!
//! All three are generated from the model's metric table. Two steps keep a scrape free of side
//! effects. [`Exporter::observe`] takes each batch once, and decides which series exist and what
//! their labels are. It returns a [`Snapshot`], which can be rendered any number of times.
//!
//! # Series
//!
//! - `noctule_node_*`: the whole machine, without an identity label.
//! - `noctule_container_*`: `container_id`, and if known `container` (its name), `runtime`,
//!   `pod_uid`, `pod`, `namespace` and `unit`. A runtime's helper processes are not containers.
//! - `noctule_unit_*{unit}` and `noctule_cgroup_*{cgroup}`: everything outside containers.
//! - `noctule_process_*{pid,start,comm}` and one of `container_id`, `unit`, `cgroup`: only on
//!   request. `start` is the creation time in Unix seconds with three decimals, which distinguishes
//!   processes that reuse a pid. `comm` and the cgroup are taken when the process is first
//!   exported: when it is one second old, or has ended.
//!
//! # Labels never change
//!
//! The labels of a series are frozen when it is first exported. A runtime may write the file with a
//! container's name late, so the exporter waits until one of these conditions holds:
//!
//! - The container has a name, and so does its pod, if any.
//! - The container has been known for [`Options::settle_ns`].
//! - None of its cgroups exists any more.
//!
//! The counters start at 0 when the container starts, so waiting loses time resolution but no
//! counts.
//!
//! If the name arrives even later, the container gets new series once. The series that lack the
//! name are ended, and the new series count from 0.
//!
//! # New series
//!
//! Prometheus computes increases from the difference of two samples. A page therefore shows
//! counters and histograms as 0 when they are new to its reader ([`View`]). Formats with a field
//! for the start time also show when the counter was 0 (`Born`).
//!
//! # Short-lived groups
//!
//! If an owner has many short-lived groups, they share one row (`ShortLived`). A group of that
//! owner has no row until it is known whether it is short-lived.
//!
//! # Budget
//!
//! Each level has room for a limited number of rows ([`Options::max_subjects`]). All further rows
//! are added up in one row with the identity label `_overflow`. That row only increases: it keeps
//! the growth of rows that are gone.
//!
//! When a place becomes free, a row from the overflow gets it. The row's series count from that
//! point, so no time is counted twice, and the sum over the level is the sum over its subjects.
//! Places for processes are shared fairly between cgroups: the cgroup with the most places gives
//! places to cgroups with fewer.
//!
//! Pairs of a victim and a culprit have their own limit ([`Options::blame_pairs`]). A pair without
//! a place is counted in the victim's series with the culprit `_other`. Its past stays there when
//! the pair gets its own series, which start at 0. Destinations of connections have such a limit
//! too ([`Options::destinations`]).

mod blame;
mod budget;
mod choice;
mod destinations;
mod energy;
mod escape;
mod exporter;
mod figures;
mod foreign;
mod kepler;
mod labels;
mod levels;
mod machine;
mod negotiate;
mod own;
mod pairs;
mod points;
mod proto;
mod short;
mod snapshot;
mod text;
mod view;
mod writer;

pub use choice::{Choice, UnknownMetric};
pub use exporter::{Exporter, Options};
pub use labels::has_names;
pub use machine::Machine;
pub use negotiate::Exposition;
pub(crate) use proto::shown;
pub use snapshot::{Served, Snapshot};
pub use view::View;
