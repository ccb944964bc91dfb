//! The mechanism: what this kernel has ([`Facts`]), what to load ([`Plan`]), loading and attaching
//! ([`Accounting`], [`CgroupEvents`]), and typed views of what the programs left in their maps.
//!
//! This is the only crate with `unsafe`, and the only one that knows libbpf. It names nothing: a
//! thread is a pid here, a cgroup a number.

mod abi;
mod accounting;
mod cgroups;
mod cost;
mod error;
mod events;
mod facts;
mod hardware;
mod loss;
mod plan;
mod skel;

pub use abi::{CgroupChange, CgroupEvent, CpuSlot, TaskSample, sample_flag};
pub use accounting::{Accounting, Snapshot, WaitCounts};
pub use cgroups::CgroupEvents;
pub use cost::{CostWindow, ProgramHandle};
pub use error::{Error, ErrorKind};
pub use events::{
    ConnectTimes, DestinationCounts, Events, EventsWanted, ProcessCounts, RawEvent, RawProcess,
    SocketSample, Stream, TcpCounts,
};
pub use facts::{Capabilities, CgroupVersion, Facts, Hierarchy, Tracepoints};
pub use hardware::{CounterSpec, PerfEvent};
pub use plan::{Plan, WaitMode, Wanted, Way, missing_privileges};
