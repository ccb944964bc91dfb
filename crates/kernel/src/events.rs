//! Events of processes, OOM kills and TCP, from the objects lifecycle and tcp.
//!
//! The object lifecycle is the base: it owns the ring buffer of events and the table of followed
//! processes. The object tcp shares the buffer and the table.

use std::cell::{Cell, RefCell};
use std::mem::{self, size_of};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::rc::Rc;

use libbpf_rs::{Iter, Link, MapCore, MapFlags, RingBuffer, RingBufferBuilder};
use noctule_model::{CgroupId, EventKind, EventKinds, Feature, Loss, MapFill, ProcessId};

use crate::abi;
use crate::cost::ProgramHandle;
use crate::cpu_slots::CpuSlots;
use crate::error::{Context, Error};
use crate::facts::Facts;
use crate::iterator;
use crate::loss;
use crate::skel::lifecycle::LifecycleSkel;
use crate::skel::tcp::{TcpSkel, types};

pub(crate) mod context;
mod files;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod load;
mod namespaces;
pub(crate) mod record;
mod rows;
mod tcp;
mod udp;

pub use files::{FileCounts, FileEvents, FileOptions};
pub use record::{RawEvent, RawProcess};
pub use rows::{CgroupCounts, ConnectTimes, DestinationCounts, ProcessCounts, TcpCounts};
pub use udp::{UdpEvents, UdpOptions};

/// The events to load, and their filters.
#[derive(Clone, Copy, Debug)]
pub struct EventsWanted {
    /// Load the object `tcp`, which counts TCP events.
    pub tcp: bool,
    /// Also report failed execs. This needs tracepoints at system calls.
    pub exec_failures: bool,
    /// Put events of these kinds into the ring buffer. Other kinds are only counted.
    pub stream: EventKinds,
    /// Put only events of followed processes into the ring buffer.
    pub filter_processes: bool,
    /// Put only events of processes in wanted cgroups, or in descendants of these cgroups, into the
    /// ring buffer.
    pub filter_cgroups: bool,
    /// Size of the ring buffer in bytes, rounded up to a power of two.
    pub ring_bytes: u32,
    /// Maximum number of cgroup rows.
    pub cgroups: u32,
    /// Maximum number of destination rows.
    pub destinations: u32,
}

/// Filter maps that all BPF objects with events share. In each object, the maps must have the names
/// from `bpf/include/filter.bpf.h`.
#[derive(Clone, Copy, Debug)]
pub struct SharedMaps<'a> {
    /// Followed processes: thread group id, and start time of the leader.
    pub followed: BorrowedFd<'a>,
    /// Ids of the wanted cgroups. The descendants of these cgroups are also wanted.
    pub wanted_cgroups: BorrowedFd<'a>,
}

/// An open socket (`struct socket_sample`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SocketSample {
    /// The process that owns the socket.
    pub owner: RawProcess,
    pub socket: noctule_model::Socket,
    /// Whether the socket listens. Otherwise the socket is connected or connecting.
    pub listens: bool,
    /// Whether the socket listens or is connected, and its start has been reported or is being
    /// reported now.
    pub begun: bool,
    /// Whether the peer connected; `None` if unknown.
    pub accepted: Option<bool>,
    /// Whether the socket's events are wanted.
    pub wanted: bool,
}

/// The attached programs, their ring buffer and their tables. Dropping this value detaches the
/// programs.
pub struct Events {
    // Links are declared first, because they must be dropped before their objects.
    _links: Vec<Link>,
    sockets: Option<Sockets>,
    ring: RingBuffer<'static>,
    records: Rc<RefCell<Vec<RawEvent>>>,
    lifecycle: LifecycleSkel<'static>,
    features: Vec<Feature>,
    buffer: Vec<u8>,
}

/// Name of the file iterator in errors.
const FILES: &str = "iterating over open files";

struct Sockets {
    _links: Vec<Link>,
    /// The iterator over all files of all processes.
    survey: Link,
    /// The iteration over open files that is in progress, if any.
    surveying: Option<Iter>,
    /// The iterator over all TCP sockets of a network namespace, if there is one.
    all: Option<Link>,
    look: tcp::Look,
    /// The link of the iterator that reads open sockets; `None` for the TCP iterator.
    look_link: Option<Link>,
    tcp: TcpSkel<'static>,
    /// The processes through which network namespaces are entered.
    processes: namespaces::Processes,
    /// Whether a warning about skipped namespaces was logged.
    told: Cell<bool>,
}

impl Sockets {
    /// Deletes the listeners that the last walk over all sockets recorded.
    fn forget_listeners(&self) {
        let listeners = &self.tcp.maps.listeners;
        let keys: Vec<_> = listeners.keys().collect();
        for key in keys {
            let _ = listeners.delete(&key);
        }
    }

    /// Runs the TCP iterator in each network namespace, and appends its output to `answer`.
    fn walk(&mut self, answer: &mut Vec<u8>) -> Result<(), Error> {
        let Some(all) = &self.all else {
            return Ok(());
        };
        let mut part = Vec::new();
        let left = namespaces::each(&mut self.processes, || {
            iterator::read(all, "iterating over TCP sockets", &mut part)?;
            answer.append(&mut part);
            Ok(())
        })?;
        self.warn_of_skipped_namespaces(left);
        Ok(())
    }

    /// Logs once that the walk skipped namespaces.
    fn warn_of_skipped_namespaces(&self, left: namespaces::LeftOut) {
        if self.look != tcp::Look::Walk || left == namespaces::LeftOut::default() {
            return;
        }
        if !self.told.replace(true) {
            tracing::warn!(
                "bytes of TCP connections in some network namespaces are counted only when the \
                connections end: {left}"
            );
        }
    }
}

/// The verified objects, not attached yet. Loading takes most of the startup time, and can run on
/// its own thread.
pub struct LoadedEvents {
    lifecycle: load::LoadedLifecycle,
    tcp: Option<tcp::LoadedTcp>,
}

#[allow(
    unsafe_code,
    reason = "a skeleton points into its object, which is Send although libbpf-rs does not declare \
        it as Send"
)]
// SAFETY: libbpf keeps no data about an object in the thread that loads it. All pointers of a
// skeleton point into its own object and the memory of its maps. A value has one owner, so all its
// pointers move to another thread together.
unsafe impl Send for LoadedEvents {}

impl LoadedEvents {
    /// Loads the wanted objects.
    pub fn load(facts: &Facts, wanted: &EventsWanted, cpus: &CpuSlots) -> Result<Self, Error> {
        let lifecycle = load::lifecycle(facts, wanted, cpus)?;
        let tcp = tcp::load(facts, wanted, &lifecycle.skel);
        Ok(Self { lifecycle, tcp })
    }
}

impl Events {
    /// Attaches the programs. Call [`Events::survey_sockets`] after the filters are filled. If the
    /// CPU accounts are used, which count from `started_ns`, the exit of a process includes its CPU
    /// time.
    pub fn attach(
        loaded: LoadedEvents,
        facts: &Facts,
        wanted: &EventsWanted,
        started_ns: u64,
    ) -> Result<Self, Error> {
        let mut features = Vec::new();
        let LoadedEvents { lifecycle, tcp } = loaded;
        let load::LoadedLifecycle {
            skel: mut lifecycle,
            exec_failures,
        } = lifecycle;
        context::know_host(&facts.roots.proc);
        if let Some(bss) = lifecycle.maps.bss_data.as_deref_mut() {
            bss.started_at = started_ns;
        }
        let mut links = load::attach_lifecycle(&lifecycle, facts, &mut features)?;
        if wanted.stream.has(EventKind::Signal) {
            let link = lifecycle.progs.signal_generate.attach();
            links.push(link.context("attaching to signal_generate")?);
        }
        if wanted.exec_failures {
            let (failures, status) = load::attach_exec_failures(&lifecycle, facts, exec_failures);
            links.extend(failures);
            features.push(status);
        }
        let sockets = tcp::sockets(facts, wanted, &lifecycle, tcp, &mut features);
        let records = Rc::new(RefCell::new(Vec::new()));
        let sink = records.clone();
        let mut builder = RingBufferBuilder::new();
        let take = move |bytes: &[u8]| {
            sink.borrow_mut().extend(RawEvent::parse(bytes));
            0
        };
        builder
            .add(&lifecycle.maps.facts, take)
            .context("creating the ring buffer of events")?;
        let ring = builder
            .build()
            .context("creating the ring buffer of events")?;
        Ok(Self {
            _links: links,
            sockets,
            ring,
            records,
            lifecycle,
            features,
            buffer: Vec::new(),
        })
    }

    /// Returns the status of each feature of these objects.
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// Returns a descriptor that becomes readable when there are events. The kernel does not wake
    /// the reader again until the events have been read.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        abi::epoll_fd(&self.ring)
    }

    /// Returns the events since the last call, in order.
    pub fn drain(&self) -> Result<Vec<RawEvent>, Error> {
        self.ring
            .consume()
            .context("reading the ring buffer of events")?;
        Ok(self.records.take())
    }

    /// Returns the number of dropped events so far, by name.
    pub fn lost_events(&self) -> Vec<(&'static str, u64)> {
        let lifecycle = self.lifecycle.maps.bss_data.as_deref();
        let lifecycle = lifecycle.map(|bss| bss.lost_events);
        let tcp = self.sockets.as_ref();
        let tcp = tcp.and_then(|s| s.tcp.maps.bss_data.as_deref().map(|bss| bss.lost_events));
        let of = |kind: usize| lifecycle.map_or(0, |l| l[kind]) + tcp.map_or(0, |l| l[kind]);
        let names = record::NAMES.iter().enumerate();
        names.map(|(kind, &name)| (name, of(kind))).collect()
    }

    /// Returns losses other than dropped events, with every kind listed.
    pub fn losses(&self) -> Vec<Loss> {
        let lifecycle = self.lifecycle.maps.bss_data.as_deref();
        let lifecycle = lifecycle.map(|bss| bss.losses);
        let tcp = self.sockets.as_ref();
        let tcp = tcp.and_then(|s| s.tcp.maps.bss_data.as_deref().map(|bss| bss.losses));
        loss::named(lifecycle.into_iter().chain(tcp))
    }

    /// Starts to follow the future children of the process `pid`, with all their descendants.
    pub fn follow_children_of(&mut self, pid: u32) {
        if let Some(bss) = self.lifecycle.maps.bss_data.as_deref_mut() {
            bss.follow_children_of = pid;
        }
    }

    /// Starts to follow the process and its descendants.
    pub fn follow(&self, process: ProcessId) -> Result<(), Error> {
        let (pid, start) = (process.pid.to_ne_bytes(), process.start_ns.to_ne_bytes());
        let followed = &self.lifecycle.maps.followed;
        let done = followed.update(&pid, &start, MapFlags::ANY);
        done.context("adding to the table of followed processes")
    }

    pub fn follows(&self, process: ProcessId) -> bool {
        let key = process.pid.to_ne_bytes();
        let start = self.lifecycle.maps.followed.lookup(&key, MapFlags::ANY);
        matches!(start, Ok(Some(start)) if start == process.start_ns.to_ne_bytes())
    }

    /// Starts to report events of the cgroup and its descendants.
    pub fn want_cgroup(&self, cgroup: CgroupId) -> Result<(), Error> {
        let wanted = &self.lifecycle.maps.wanted_cgroups;
        let done = wanted.update(&cgroup.0.to_ne_bytes(), &[1], MapFlags::ANY);
        done.context(format!(
            "adding to the table of selected cgroups, which holds at most {}",
            load::WANTED_CGROUPS
        ))
    }

    /// Removes a cgroup that no longer exists from the filters, whether or not it was wanted.
    pub fn forget_cgroup(&self, cgroup: CgroupId) {
        let wanted = &self.lifecycle.maps.wanted_cgroups;
        // The only possible error is that the group is not in the table.
        let _ = wanted.delete(&cgroup.0.to_ne_bytes());
    }

    /// Visits each open file of each process. Adopts sockets whose start no program saw, and
    /// reports missed changes of other sockets. Afterwards visits all TCP sockets, to find those
    /// without a file. The filters are applied to new sockets at this point.
    pub fn survey_sockets(&mut self) -> Result<(), Error> {
        let Some(sockets) = &mut self.sockets else {
            return Ok(());
        };
        iterator::read(&sockets.survey, FILES, &mut self.buffer)?;
        sockets.walk(&mut self.buffer)?;
        sockets.forget_listeners();
        // From now on, a connection without an account is one whose start no program saw.
        if let Some(bss) = sockets.tcp.maps.bss_data.as_deref_mut() {
            bss.changes_are_seen = true;
        }
        Ok(())
    }

    /// Like `survey_sockets`, but in steps of some milliseconds, however many files there are.
    /// Returns true after the last step.
    pub fn survey_step(&mut self) -> Result<bool, Error> {
        let Some(sockets) = &mut self.sockets else {
            return Ok(true);
        };
        let mut survey = match sockets.surveying.take() {
            Some(survey) => survey,
            None => Iter::new(&sockets.survey).context(FILES)?,
        };
        if iterator::step(&mut survey, FILES)? {
            sockets.surveying = Some(survey);
            return Ok(false);
        }
        self.catch_up_multipath()?;
        Ok(true)
    }

    /// Reports missed accepts and connects of Multipath TCP subflows, which have no file. If a
    /// survey has found Multipath TCP, this scans all sockets once.
    fn catch_up_multipath(&mut self) -> Result<(), Error> {
        let Some(sockets) = &mut self.sockets else {
            return Ok(());
        };
        let look = sockets.look;
        let Some(bss) = sockets.tcp.maps.bss_data.as_deref_mut() else {
            return Ok(());
        };
        bss.catches_up = mem::take(&mut bss.surveyed_multipath);
        if !bss.catches_up {
            return Ok(());
        }
        let done = match look {
            tcp::Look::Storage | tcp::Look::Walk => self.read_sockets(false),
            tcp::Look::Table => sockets.walk(&mut self.buffer),
        };
        let sockets = self.sockets.as_mut();
        if let Some(bss) = sockets.and_then(|s| s.tcp.maps.bss_data.as_deref_mut()) {
            bss.catches_up = false;
        }
        done
    }

    /// Settles the payload of open connections, and counts open sockets.
    pub fn settle_sockets(&mut self) -> Result<(), Error> {
        self.read_sockets(false)
    }

    /// Returns the listening, connected and connecting sockets. A socket can be missing if another
    /// one was closed during the scan.
    pub fn sockets(&mut self) -> Result<Vec<SocketSample>, Error> {
        self.read_sockets(true)?;
        let samples = self.buffer.chunks_exact(size_of::<types::socket_sample>());
        Ok(samples.filter_map(record::socket).collect())
    }

    fn read_sockets(&mut self, list: bool) -> Result<(), Error> {
        self.buffer.clear();
        let Some(sockets) = &mut self.sockets else {
            return Ok(());
        };
        if let Some(bss) = sockets.tcp.maps.bss_data.as_deref_mut() {
            bss.list_sockets = list;
            bss.look += 1;
        }
        match &sockets.look_link {
            Some(link) => iterator::read(link, "iterating over sockets", &mut self.buffer),
            None => sockets.walk(&mut self.buffer),
        }
    }

    /// Returns whether [`Events::sockets`] lists every open socket.
    pub fn lists_all_sockets(&self) -> bool {
        let sockets = self.sockets.as_ref();
        sockets.is_some_and(|sockets| sockets.look.is_complete())
    }

    /// Returns the sockets of a cgroup that the last scan found open.
    pub fn open_sockets(&self, counts: &TcpCounts) -> noctule_model::Sockets {
        let sockets = self.sockets.as_ref();
        let bss = sockets.and_then(|sockets| sockets.tcp.maps.bss_data.as_deref());
        match bss.is_some_and(|bss| bss.look == counts.look) {
            true => noctule_model::Sockets {
                connections: counts.connections,
                listeners: counts.listeners,
            },
            false => noctule_model::Sockets::default(),
        }
    }

    /// Returns the process event counts of each cgroup so far. The last row is the overflow row.
    pub fn processes(&self) -> Result<Vec<(Option<CgroupId>, ProcessCounts)>, Error> {
        let overflow = self.lifecycle.maps.bss_data.as_deref();
        let overflow = overflow.map(|bss| bss.process_overflow);
        rows::by_cgroup(&self.lifecycle.maps.process_rows, overflow)
    }

    /// Like [`Events::processes`], for TCP counts.
    pub fn tcp(&self) -> Result<Vec<(Option<CgroupId>, TcpCounts)>, Error> {
        match &self.sockets {
            None => Ok(Vec::new()),
            Some(Sockets { tcp, .. }) => {
                let overflow = tcp.maps.bss_data.as_deref().map(|bss| bss.tcp_overflow);
                rows::by_cgroup(&tcp.maps.tcp_rows, overflow)
            }
        }
    }

    /// Like [`Events::processes`], for histograms of the time to connect.
    pub fn connect_times(&self) -> Result<Vec<(Option<CgroupId>, ConnectTimes)>, Error> {
        match &self.sockets {
            None => Ok(Vec::new()),
            Some(Sockets { tcp, .. }) => {
                let bss = tcp.maps.bss_data.as_deref();
                let overflow = bss.map(|bss| bss.connect_time_overflow);
                rows::by_cgroup(&tcp.maps.connect_time_rows, overflow)
            }
        }
    }

    /// Returns the destinations of the cgroups.
    pub fn destinations(&self) -> Result<Vec<DestinationCounts>, Error> {
        match &self.sockets {
            None => Ok(Vec::new()),
            Some(Sockets { tcp, .. }) => rows::destinations(tcp),
        }
    }

    /// Removes and returns the counts of a cgroup that no longer exists.
    pub fn take_cgroup(&self, id: CgroupId) -> CgroupCounts {
        let key = id.0.to_ne_bytes();
        let tcp = self.sockets.as_ref().map(|s| &s.tcp.maps);
        CgroupCounts {
            processes: rows::take(&self.lifecycle.maps.process_rows, &key),
            tcp: tcp.and_then(|maps| rows::take(&maps.tcp_rows, &key)),
            connect_times: tcp.and_then(|maps| rows::take(&maps.connect_time_rows, &key)),
        }
    }

    /// Removes a destination that is unused or whose cgroup no longer exists, and returns its last
    /// counts. Returns `None` if another reader removed it first.
    pub fn take_destination(&self, destination: &DestinationCounts) -> Option<DestinationCounts> {
        let maps = &self.sockets.as_ref()?.tcp.maps;
        let counts = match destination.destination {
            Some(_) => rows::take(&maps.destinations, destination.key()),
            None => rows::take(&maps.other_destinations, destination.key()),
        };
        Some(destination.with(counts?))
    }

    /// Sets whether a cgroup may add destinations. If the update fails, the old setting remains in
    /// effect, and the next batch tries again.
    pub fn bound_destinations(&self, id: CgroupId, bounded: bool) {
        let Some(Sockets { tcp, .. }) = &self.sockets else {
            return;
        };
        let (table, key) = (&tcp.maps.over_share, id.0.to_ne_bytes());
        let done = match bounded {
            true => table.update(&key, &[1], MapFlags::ANY),
            false => table.delete(&key),
        };
        if let Err(error) = done {
            tracing::debug!(%error, "cannot change the destination limit of a cgroup");
        }
    }

    pub fn counts_tcp(&self) -> bool {
        self.sockets.is_some()
    }

    /// Returns the capacity of the table of destinations.
    pub fn destinations_capacity(&self) -> u32 {
        let sockets = self.sockets.as_ref();
        sockets.map_or(0, |s| s.tcp.maps.destinations.max_entries())
    }

    /// Returns the fill level of the tables that can be full.
    pub fn map_fill(&self, cgroups: usize, destinations: usize) -> Vec<MapFill> {
        let fill = |name, map: &dyn MapCore, entries: usize| MapFill {
            name,
            entries: entries as u64,
            capacity: map.max_entries().into(),
        };
        let mut all = vec![fill(
            "process_rows",
            &self.lifecycle.maps.process_rows,
            cgroups,
        )];
        if let Some(Sockets { tcp, .. }) = &self.sockets {
            all.push(fill("destinations", &tcp.maps.destinations, destinations));
        }
        all
    }

    /// Returns the programs, for measuring their cost.
    pub fn programs(&self) -> Vec<ProgramHandle> {
        let p = &self.lifecycle.progs;
        let own = [
            ProgramHandle::of("sched_process_fork", &p.process_fork),
            ProgramHandle::of("sched_process_exec", &p.process_exec),
            ProgramHandle::of("sched_process_exit", &p.process_exit),
            ProgramHandle::of("mark_victim", &p.mark_victim),
            ProgramHandle::of("signal_generate", &p.signal_generate),
            ProgramHandle::of("sys_exit_execve", &p.execve_exit),
            ProgramHandle::of("sys_exit_execveat", &p.execveat_exit),
        ];
        let tcp = self.sockets.as_ref().map(|Sockets { tcp, .. }| {
            let progs = &tcp.progs;
            let [state, state_again] = ProgramHandle::pair(
                ("inet_sock_set_state", &progs.inet_sock_set_state),
                ("set_state_again", &progs.set_state_again),
            );
            let [destroy, destroy_again] = ProgramHandle::pair(
                ("tcp_destroy_sock", &progs.tcp_destroy_sock),
                ("destroy_again", &progs.destroy_again),
            );
            [
                state,
                state_again,
                destroy,
                destroy_again,
                ProgramHandle::of("tcp_retransmit_skb", &progs.retransmit_skb),
                ProgramHandle::of("tcp_retransmit_synack", &progs.retransmit_synack),
                ProgramHandle::of("look_at_storage", &progs.look_at_storage),
                ProgramHandle::of("look_at_table", &progs.look_at_table),
                ProgramHandle::of("survey_sockets", &progs.survey_sockets),
                ProgramHandle::of("survey_tcp", &progs.survey_tcp),
                ProgramHandle::of("v4_connect_ret", &progs.v4_connect_ret),
                ProgramHandle::of("v6_connect_ret", &progs.v6_connect_ret),
                ProgramHandle::of("csk_accept_ret", &progs.csk_accept_ret),
            ]
        });
        let all = own.into_iter().chain(tcp.into_iter().flatten());
        all.flatten().collect()
    }

    /// Returns the filter tables, to share them with another object.
    pub fn shared(&self) -> SharedMaps<'_> {
        SharedMaps {
            followed: self.lifecycle.maps.followed.as_fd(),
            wanted_cgroups: self.lifecycle.maps.wanted_cgroups.as_fd(),
        }
    }
}
