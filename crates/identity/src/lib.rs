//! Finds the owner of a cgroup: container, pod and unit.
//!
//! The cgroup path alone contains runtime, container id, pod UID, QoS class and systemd unit
//! ([`classify`]). Names arrive later: separate threads read them from files that the runtimes
//! leave on the node. No socket or API is used, and a hanging file system cannot delay the data. A
//! [`Registry`] combines paths and names, and remembers removed groups for a while.
//!
//! Names that a user could choose are prefixed with the user's id. Files that a user can write are
//! only used for that user's groups (see `trust`).
//!
//! This crate uses neither BPF nor a clock. The caller passes changes of the tree as events and the
//! time as an argument. Every file is looked up below a given root.

mod config;
mod files;
#[cfg(fuzzing)]
pub mod fuzzing;
mod group;
mod labels;
mod lookup;
mod moved;
mod names;
mod namespace;
mod path;
mod pod;
mod registry;
mod rules;
mod state;
mod text;
mod trust;
mod walk;

pub use config::{Config, Stats};
pub use namespace::{mount_note, namespace_note};
pub use noctule_model::CgroupEvent;
pub use path::classify;
pub use registry::Registry;
pub use text::unescape;
pub use walk::walk;
