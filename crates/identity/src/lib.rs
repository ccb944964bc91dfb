//! Finds the owner of a cgroup: container, pod and unit.
//!
//! The cgroup path alone gives runtime, container id, pod UID, QoS class and systemd unit ([`classify`]). Names arrive
//! later. They come from files that the runtimes leave on the node, read by separate threads. No socket or API is used,
//! and a hanging file system cannot delay the data. A [`Registry`] combines both and remembers removed groups for a
//! while.
//!
//! Names that a user could choose are prefixed with the user's id. Files that a user can write are only used for that
//! user's groups (see `trust`).
//!
//! This crate uses neither BPF nor a clock. Changes of the tree come as events, the time is an argument, and every file
//! is looked up below a given root.

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
