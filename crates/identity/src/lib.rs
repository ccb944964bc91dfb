//! Who a cgroup belongs to: container, pod and unit.
//!
//! The cgroup path alone gives runtime, container id, pod UID, QoS class and systemd unit
//! ([`classify`]). Names come late, from files that the runtimes leave on the node, read by a
//! thread of their own: no socket, no API, and nothing that hangs can hold up the data. A
//! [`Registry`] puts both together and remembers the dead for a while.
//!
//! Names that a user could choose are marked with the user's number, and files that a user can write are
//! believed of that user's groups alone (`trust`).
//!
//! This crate uses no BPF and no clock: changes of the tree come in as events, time as an
//! argument, and every file is looked up under an injected root.

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
