//! Reports the creation, renaming and removal of cgroups, from tracepoints.

use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{Link, RingBuffer, RingBufferBuilder};

use crate::abi::{self, CgroupEvent};
use crate::cost::ProgramHandle;
use crate::error::{Context, Error, ErrorKind, not_loaded};
use crate::facts::Facts;
use crate::kernel_types;
use crate::skel::cgroup::{CgroupSkel, CgroupSkelBuilder};

/// A kernel has all of these tracepoints or none of them.
const HOOK: &str = "cgroup_mkdir";

/// The attached programs and their ring buffer. Dropping this value detaches the programs.
pub struct CgroupEvents {
    _links: Vec<Link>,
    ring: RingBuffer<'static>,
    events: Rc<RefCell<Vec<CgroupEvent>>>,
    skel: CgroupSkel<'static>,
}

impl CgroupEvents {
    /// Attaches programs to the tracepoints, for cgroups of the counted hierarchy.
    pub fn load(facts: &Facts, ring_bytes: u32) -> Result<Self, Error> {
        if !facts.hooks.contains(HOOK) {
            let words = format!("the kernel has no tracepoint {HOOK}");
            return Err(Error::new(ErrorKind::Kernel, words));
        }
        let mut open = kernel_types::open::<CgroupSkelBuilder>(&facts.kernel_types)
            .context("opening the BPF object `cgroup`")?;
        let ring_bytes = ring_bytes.max(4096).next_power_of_two();
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.hierarchy = facts.hierarchy.id;
            rodata.events_wakeup_bytes = ring_bytes / 2;
        }
        open.maps
            .cgroup_events
            .set_max_entries(ring_bytes)
            .context("sizing the ring")?;
        let skel = open.load().map_err(not_loaded("cgroup", facts))?;

        let events = Rc::new(RefCell::new(Vec::new()));
        let sink = events.clone();
        let mut builder = RingBufferBuilder::new();
        let take = move |record: &[u8]| {
            sink.borrow_mut().extend(CgroupEvent::parse(record));
            0
        };
        builder
            .add(&skel.maps.cgroup_events, take)
            .context("creating the ring buffer of cgroup events")?;
        let ring = builder
            .build()
            .context("creating the ring buffer of cgroup events")?;
        let progs = &skel.progs;
        let links = [
            progs.cgroup_mkdir.attach(),
            progs.cgroup_rename.attach(),
            progs.cgroup_rmdir.attach(),
            progs.cgroup_release.attach(),
        ];
        let links = links.into_iter().collect::<Result<_, _>>();
        Ok(Self {
            _links: links.context("attaching to the cgroup tracepoints")?,
            ring,
            events,
            skel,
        })
    }

    /// Returns the changes since the last call, in order.
    pub fn drain(&self) -> Result<Vec<CgroupEvent>, Error> {
        self.ring
            .consume()
            .context("reading the ring buffer of cgroup events")?;
        Ok(self.events.take())
    }

    /// Returns a descriptor that becomes readable when the ring buffer is half full.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        abi::epoll_fd(&self.ring)
    }

    /// Returns the number of dropped events.
    pub fn lost(&self) -> u64 {
        let kind = crate::skel::switch::types::loss::LOSS_CGROUP_EVENT.0 as usize;
        self.skel
            .maps
            .bss_data
            .as_deref()
            .map_or(0, |bss| bss.losses[kind])
    }

    /// Returns the programs, for measuring their cost.
    pub fn programs(&self) -> Vec<ProgramHandle> {
        let p = &self.skel.progs;
        let all = [
            ProgramHandle::of("cgroup_mkdir", &p.cgroup_mkdir),
            ProgramHandle::of("cgroup_rename", &p.cgroup_rename),
            ProgramHandle::of("cgroup_rmdir", &p.cgroup_rmdir),
            ProgramHandle::of("cgroup_release", &p.cgroup_release),
        ];
        all.into_iter().flatten().collect()
    }
}
