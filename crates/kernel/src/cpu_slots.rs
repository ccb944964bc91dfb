//! The map of CPU slots, which the object switch writes and other objects read.
//!
//! The map is created before all objects. Objects that share only this map can then be verified in
//! parallel.

use std::mem::size_of;
use std::os::fd::{AsFd, BorrowedFd};

use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{MapHandle, MapType};

use crate::abi::CpuSlot;
use crate::error::{Error, not_loaded};
use crate::facts::Facts;

/// The map `cpus` of `bpf/include/slot.bpf.h`.
#[derive(Debug)]
pub struct CpuSlots(MapHandle);

impl CpuSlots {
    /// Creates one empty slot for each possible CPU.
    pub fn new(facts: &Facts) -> Result<Self, Error> {
        let options = bpf_map_create_opts {
            sz: size_of::<bpf_map_create_opts>() as u64,
            ..Default::default()
        };
        let (key, value) = (size_of::<u32>() as u32, size_of::<CpuSlot>() as u32);
        let (kind, entries) = (MapType::Array, facts.possible_cpus);
        MapHandle::create(kind, Some("cpus"), key, value, entries, &options)
            .map(Self)
            .map_err(not_loaded("cpus", facts))
    }
}

impl AsFd for CpuSlots {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
