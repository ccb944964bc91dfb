//! Data sources: each decodes the maps of one BPF object into plain data.
//!
//! A source does not resolve names, because it would have to wait for a container runtime. A source
//! only keeps the state that makes its counters monotonic.

mod agent;
mod clock;
mod cpu;
mod energy;
mod events;
mod group_files;
mod ledger;
mod life;
mod memory;
mod pressures;
mod quotas;
mod rooms;
mod settings;
#[cfg(test)]
mod testing;

pub use cpu::{CpuSource, Grace};
pub use energy::{Clock, CpuWatts, Meters, Moment, NOT_DISCHARGED, NOTHING_COUNTED};
pub use events::EventSource;
pub use life::CgroupLife;
pub use memory::{Memory, MemoryFiles, Mounted};
pub use pressures::Pressures;
pub use quotas::Quotas;
pub use rooms::Rooms;
pub use settings::{CpuNumbers, CpuTimes, SettingFiles, ThreadTimes};
