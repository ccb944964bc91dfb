//! The answer of `/metrics`, in OpenMetrics 1.0, in the classic Prometheus text format, and in
//! Prometheus' protobuf format, which alone has native histograms.
//!
//! All come from the metric table of the model. The work is split in two so that a scrape has no
//! side effect: [`Exporter::observe`] takes each batch once and decides which series exist and
//! what their labels are; the [`Snapshot`] that it returns is rendered as often as anybody asks.
//!
//! # Series
//!
//! - `noctule_node_*`: the whole machine, no identity label.
//! - `noctule_container_*`: `container_id`, and where known `container` (its name), `runtime`,
//!   `pod_uid`, `pod`, `namespace`, `unit`. The helpers of a runtime are not containers.
//! - `noctule_unit_*{unit}` and `noctule_cgroup_*{cgroup}`: what is in no container.
//! - `noctule_process_*{pid,start,comm}` and one of `container_id`, `unit`, `cgroup`: only on
//!   request. `start` is the creation in Unix seconds with three decimals, so that a pid that
//!   is used twice makes two series; `comm` and the group are those at the first exposure, when
//!   it is a second old or has ended.
//!
//! # Labels never change
//!
//! The labels of a series are frozen when it is first exposed. A container's name comes from a file
//! that its runtime may write late, so a container is exposed only once its labels are settled:
//! when it has a name (and its pod too, if it is in one), or has been known for
//! [`Options::settle_ns`], or none of its groups is left. Its counters start at 0 with it and are
//! absolute, so waiting loses nothing but resolution.
//! A name that comes later than that gives the container new series, with the same counters: those
//! without the name end. That happens once.
//!
//! # New series
//!
//! A page shows counters and histograms at 0 that are new to its reader ([`View`]), because Prometheus counts the
//! difference of two samples. `Born` goes with each sample to the formats; those that have a place for it show when the
//! counter was 0.
//!
//! # Budget
//!
//! Each level has room for a number of series sets ([`Options::max_subjects`]). Who finds no room
//! is added up in one row whose identity label is `_overflow`. That row only goes up: it gets
//! growth, and keeps it when its causer is gone. When a place becomes free, somebody from the
//! overflow gets it and continues in series of its own, which count from there, so that no time is
//! counted twice and the sum over the level stays the sum over its subjects. Processes of one cgroup have no
//! more places than those of another that wants some: the group with most gives way.
//!
//! Pairs of a victim and a culprit have a number of places of their own
//! ([`Options::blame_pairs`]). What has none is in the victim's series of the culprit `_other`, and
//! stays there when the pair gets a series, which starts at 0. Destinations of connections have such
//! places too ([`Options::destinations`]).

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
mod negotiate;
mod own;
mod pairs;
mod points;
mod proto;
mod snapshot;
mod text;
mod view;
mod writer;

pub use choice::{Choice, UnknownMetric};
pub use exporter::{Exporter, Options};
pub use labels::has_names;
pub use negotiate::Exposition;
pub(crate) use proto::shown;
pub use snapshot::{Served, Snapshot};
pub use view::View;
