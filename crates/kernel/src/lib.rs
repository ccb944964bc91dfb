//! Access to the kernel: probing it ([`Facts`]), deciding what to load ([`Plan`]), loading and
//! attaching programs ([`Accounting`], [`CgroupEvents`]), and typed views of their maps.
//!
//! This is the only crate with `unsafe`, and the only one that uses libbpf. The crate resolves no
//! names: it identifies a thread by its pid, and a cgroup by its number.

mod abi;
mod accounting;
mod beside;
mod cgroups;
mod clock;
mod cost;
mod cpu_slots;
mod disks;
mod enumerators;
mod error;
mod events;
mod facts;
mod fexit;
mod functions;
#[cfg(fuzzing)]
pub mod fuzzing;
mod hardware;
mod heap;
mod inherited;
mod instructions;
mod iterator;
mod kernel_types;
mod loss;
mod object;
mod older;
mod packets;
mod perf_probe;
mod plain;
mod plan;
mod pmu;
mod roots;
mod sandbox;
mod settings;
mod skel;
mod sysfs;
mod table;
mod topology;
mod tracefs;

pub use abi::{CgroupChange, CgroupEvent, CpuSlot, TaskSample, sample_flag};
pub use accounting::{Accounting, Snapshot, WaitCounts};
pub use beside::run_both;
pub use cgroups::CgroupEvents;
pub use clock::process_cpu_ns;
pub use cost::{CostWindow, ProgramHandle};
pub use cpu_slots::CpuSlots;
pub use disks::Disks;
pub use enumerators::enumerators;
pub use error::{Error, ErrorKind};
pub use events::{
    CgroupCounts, ConnectTimes, DestinationCounts, Events, EventsWanted, FileCounts, FileEvents,
    FileOptions, LoadedEvents, ProcessCounts, RawEvent, RawProcess, SharedMaps, SocketSample,
    TcpCounts, UdpEvents, UdpOptions,
};
pub use facts::{
    Capabilities, CgroupVersion, Facts, Hierarchy, Scheduler, Tracepoints, ext_scheduler,
    hides_processes, isolated_cpus,
};
pub use functions::{FunctionPlace, FunctionProbe, Parameter, Prototype};
pub use hardware::{CounterSpec, PerfEvent, descriptors_left};
pub use heap::{limit_heap, trim_heap};
pub use inherited::listener as inherited_listener;
pub use object::{
    Attachment, BareKind, BareMap, BareObject, BareProgram, ClassicInsn, ForeignObject,
    ForeignProgram, LoadedObject, MapContents, MapEntry, Member, NoTarget, ObjectError, Places,
    Printed, Rejected, SECTIONS, Shape, Target, map_kind,
};
pub use packets::PacketSource;
pub use perf_probe::{PerfProbe, Sampling};
pub use plain::{
    AttachedProgram, CountedTime, LoadedProgram, PerCpuEntry, PlainMap, PlainMapKind, PlainProgram,
    PlainProgramKind, PlainRing, Refused, TraceEvents, wait_for_programs,
};
pub use plan::{Plan, Wanted, Way, missing_privileges};
pub use pmu::EnergyEvent;
pub use roots::HostRoots;
pub use sandbox::{Landlock, Sandbox, Unconfined, no_programs, only_answer};
pub use topology::Topology;

/// Logs libbpf's messages at level `debug`. Many messages are expected, because noctule tries
/// alternatives until one works. Errors that matter are reported separately.
pub fn log_libbpf() {
    #[allow(
        clippy::needless_pass_by_value,
        reason = "libbpf-rs requires this type"
    )]
    fn print(_: libbpf_rs::PrintLevel, words: String) {
        object::keep_message(&words);
        tracing::debug!("{}", words.trim_end());
    }
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, print)));
}
