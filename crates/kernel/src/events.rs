//! What happens: processes, OOM kills and TCP, from the objects lifecycle and tcp.
//!
//! lifecycle is the base: it owns the ring of facts and knows which processes are followed. tcp is
//! loaded beside it and shares both.

use std::cell::{Cell, RefCell};
use std::mem::{self, size_of};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;
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

mod context;
mod files;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod load;
mod namespaces;
mod record;
mod rows;
mod tcp;
mod udp;

pub use files::{FileCounts, FileEvents, FileOptions};
pub use record::{RawEvent, RawProcess};
pub use rows::{CgroupCounts, ConnectTimes, DestinationCounts, ProcessCounts, TcpCounts};
pub use udp::{UdpEvents, UdpOptions};

/// What of it is wanted.
#[derive(Clone, Copy, Debug)]
pub struct EventsWanted {
    /// Count TCP.
    pub tcp: bool,
    /// Look at each execution that fails, too: it takes a tracepoint of system calls.
    pub exec_failures: bool,
    /// Put events of these kinds into the ring; others are only counted.
    pub stream: EventKinds,
    /// Only of processes that are followed.
    pub filter_processes: bool,
    /// Only of processes in wanted cgroups and those below.
    pub filter_cgroups: bool,
    /// Size of the ring in bytes; rounded up to a power of two.
    pub ring_bytes: u32,
    /// Rows for cgroups.
    pub cgroups: u32,
    /// Rows for destinations.
    pub destinations: u32,
}

/// Maps that the objects share which emit events: whose events are wanted. They must have the names
/// that they have in `bpf/include/filter.bpf.h`, as those of another such object do.
#[derive(Clone, Copy, Debug)]
pub struct SharedMaps<'a> {
    /// Processes that are followed: thread-group id, and the start of the leader.
    pub followed: BorrowedFd<'a>,
    /// Ids of the groups that are wanted, with all below them.
    pub wanted_cgroups: BorrowedFd<'a>,
}

/// A socket that is there (`struct socket_sample`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SocketSample {
    /// Whose it is.
    pub owner: RawProcess,
    /// Which one.
    pub socket: noctule_model::Socket,
    /// It listens; otherwise it is connected, or connects.
    pub listens: bool,
    /// It listens or is connected, and that was reported, or is reported now.
    pub begun: bool,
    /// Connected from the other side; `None` when that is not known.
    pub accepted: Option<bool>,
    /// Its events are wanted.
    pub wanted: bool,
}

/// The attached programs, their ring and their tables. Dropping it detaches them.
pub struct Events {
    // Links come first: they must be gone before the objects that they hold.
    _links: Vec<Link>,
    sockets: Option<Sockets>,
    ring: RingBuffer<'static>,
    records: Rc<RefCell<Vec<RawEvent>>>,
    lifecycle: LifecycleSkel<'static>,
    features: Vec<Feature>,
    buffer: Vec<u8>,
}

/// In an error.
const FILES: &str = "the iterator of files";

struct Sockets {
    _links: Vec<Link>,
    /// The iterator of files.
    survey: Link,
    /// A survey that is under way.
    surveying: Option<Iter>,
    /// The iterator of all sockets of TCP in a network namespace; `None` where there is none.
    all: Option<Link>,
    look: tcp::Look,
    /// Its iterator; `None` for that of TCP.
    look_link: Option<Link>,
    tcp: TcpSkel<'static>,
    /// Where the host's procfs is: its processes have the namespaces.
    proc: PathBuf,
    /// It was said that some of them are left out.
    told: Cell<bool>,
}

impl Sockets {
    /// Those that the last look at all sockets has noted.
    fn forget_listeners(&self) {
        let listeners = &self.tcp.maps.listeners;
        let keys: Vec<_> = listeners.keys().collect();
        for key in keys {
            let _ = listeners.delete(&key);
        }
    }

    /// The iterator of TCP in each network namespace; what it writes is appended.
    fn walk(&self, answer: &mut Vec<u8>) -> Result<(), Error> {
        let Some(all) = &self.all else {
            return Ok(());
        };
        let mut part = Vec::new();
        let left = namespaces::each(&self.proc, || {
            iterator::read(all, "the iterator of TCP", &mut part)?;
            answer.append(&mut part);
            Ok(())
        })?;
        self.tell(left);
        Ok(())
    }

    /// Says once that the walk left out namespaces.
    fn tell(&self, left: namespaces::LeftOut) {
        if self.look != tcp::Look::Walk || left == namespaces::LeftOut::default() {
            return;
        }
        if !self.told.replace(true) {
            let namespaces::LeftOut { closed, late } = left;
            tracing::warn!(
                "bytes of TCP connections in network namespaces that noctule does not walk count when \
                 these end: those of {closed} processes may not be entered (it takes CAP_SYS_ADMIN and \
                 CAP_SYS_PTRACE), for {late} there was no time"
            );
        }
    }
}

/// The objects, verified and not attached yet: loading takes most of the time of the start, and a
/// thread of its own can do it.
pub struct LoadedEvents {
    lifecycle: load::LoadedLifecycle,
    tcp: Option<tcp::LoadedTcp>,
}

#[allow(
    unsafe_code,
    reason = "a skeleton points into its object, which is Send, and libbpf-rs does not say that it is"
)]
// SAFETY: libbpf keeps nothing of an object with the thread that loads it, all pointers of a skeleton
// are into its own object and the maps' memory, and a value has one owner at a time.
unsafe impl Send for LoadedEvents {}

impl LoadedEvents {
    /// Loads what is wanted.
    pub fn load(facts: &Facts, wanted: &EventsWanted, cpus: &CpuSlots) -> Result<Self, Error> {
        let lifecycle = load::lifecycle(facts, wanted, cpus)?;
        let tcp = tcp::load(facts, wanted, &lifecycle.skel);
        Ok(Self { lifecycle, tcp })
    }
}

impl Events {
    /// Attaches; [`Events::survey_sockets`] comes after the filters are filled. With the accounts of
    /// the CPUs, which count from `started_ns` on, the end of a process has its run time.
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
            .context("the ring of events")?;
        let ring = builder.build().context("the ring of events")?;
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

    /// Status of each feature that these objects feed.
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// Becomes readable when there are events; the kernel does not wake again before they were
    /// read.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        abi::epoll_fd(&self.ring)
    }

    /// What happened since the last call, in order.
    pub fn drain(&self) -> Result<Vec<RawEvent>, Error> {
        self.ring.consume().context("the ring of events")?;
        Ok(self.records.take())
    }

    /// Events that found no room in the ring so far, by name.
    pub fn lost_events(&self) -> Vec<(&'static str, u64)> {
        let lifecycle = self.lifecycle.maps.bss_data.as_deref();
        let lifecycle = lifecycle.map(|bss| bss.lost_events);
        let tcp = self.sockets.as_ref();
        let tcp = tcp.and_then(|s| s.tcp.maps.bss_data.as_deref().map(|bss| bss.lost_events));
        let of = |kind: usize| lifecycle.map_or(0, |l| l[kind]) + tcp.map_or(0, |l| l[kind]);
        let names = record::NAMES.iter().enumerate();
        names.map(|(kind, &name)| (name, of(kind))).collect()
    }

    /// What else was lost, by kind; every kind is listed.
    pub fn losses(&self) -> Vec<Loss> {
        let lifecycle = self.lifecycle.maps.bss_data.as_deref();
        let lifecycle = lifecycle.map(|bss| bss.losses);
        let tcp = self.sockets.as_ref();
        let tcp = tcp.and_then(|s| s.tcp.maps.bss_data.as_deref().map(|bss| bss.losses));
        loss::named(lifecycle.into_iter().chain(tcp))
    }

    /// From now on the children of the process `pid` are followed, with all their descendants.
    pub fn follow_children_of(&mut self, pid: u32) {
        if let Some(bss) = self.lifecycle.maps.bss_data.as_deref_mut() {
            bss.follow_children_of = pid;
        }
    }

    /// From now on the process is followed, and what it starts.
    pub fn follow(&self, process: ProcessId) -> Result<(), Error> {
        let (pid, start) = (process.pid.to_ne_bytes(), process.start_ns.to_ne_bytes());
        let followed = &self.lifecycle.maps.followed;
        let done = followed.update(&pid, &start, MapFlags::ANY);
        done.context("the table of followed processes")
    }

    /// Whether the process is followed.
    pub fn follows(&self, process: ProcessId) -> bool {
        let key = process.pid.to_ne_bytes();
        let start = self.lifecycle.maps.followed.lookup(&key, MapFlags::ANY);
        matches!(start, Ok(Some(start)) if start == process.start_ns.to_ne_bytes())
    }

    /// From now on the events of the group and those below it are wanted.
    pub fn want_cgroup(&self, cgroup: CgroupId) -> Result<(), Error> {
        let wanted = &self.lifecycle.maps.wanted_cgroups;
        let done = wanted.update(&cgroup.0.to_ne_bytes(), &[1], MapFlags::ANY);
        done.context(format!(
            "the table of wanted cgroups, which has {} places",
            load::WANTED_CGROUPS
        ))
    }

    /// The group is gone. It is no error if it was not wanted.
    pub fn forget_cgroup(&self, cgroup: CgroupId) {
        let wanted = &self.lifecycle.maps.wanted_cgroups;
        // All that can fail is that it is not there.
        let _ = wanted.delete(&cgroup.0.to_ne_bytes());
    }

    /// Looks at each file of each process: makes the sockets known that nobody saw begin, and makes
    /// up for changes of others that nobody saw. Then at all sockets of TCP, for those that are in no
    /// file. Whether a new one is wanted is decided here.
    pub fn survey_sockets(&mut self) -> Result<(), Error> {
        let Some(sockets) = &mut self.sockets else {
            return Ok(());
        };
        iterator::read(&sockets.survey, FILES, &mut self.buffer)?;
        sockets.walk(&mut self.buffer)?;
        sockets.forget_listeners();
        // A connection that has no account from now on is one of which the begin was not seen.
        if let Some(bss) = sockets.tcp.maps.bss_data.as_deref_mut() {
            bss.changes_are_seen = true;
        }
        Ok(())
    }

    /// The same in steps of some milliseconds, however many files there are; true at the end.
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

    /// The sockets below one of Multipath TCP are in no file. After a survey that has met Multipath TCP, one look
    /// at all sockets reports their accepts and connects that no program saw.
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
            tcp::Look::Storage | tcp::Look::Walk => self.look(false),
            tcp::Look::Table => sockets.walk(&mut self.buffer),
        };
        let sockets = self.sockets.as_mut();
        if let Some(bss) = sockets.and_then(|s| s.tcp.maps.bss_data.as_deref_mut()) {
            bss.catches_up = false;
        }
        done
    }

    /// Brings the payload of the living connections into the tables, and counts what is open.
    pub fn settle_sockets(&mut self) -> Result<(), Error> {
        self.look(false)
    }

    /// The sockets that listen, those that are connected, and those that connect. One can be missing
    /// when another one has ended meanwhile.
    pub fn sockets(&mut self) -> Result<Vec<SocketSample>, Error> {
        self.look(true)?;
        let samples = self.buffer.chunks_exact(size_of::<types::socket_sample>());
        Ok(samples.filter_map(record::socket).collect())
    }

    fn look(&mut self, list: bool) -> Result<(), Error> {
        self.buffer.clear();
        let Some(sockets) = &mut self.sockets else {
            return Ok(());
        };
        if let Some(bss) = sockets.tcp.maps.bss_data.as_deref_mut() {
            bss.list_sockets = list;
            bss.look += 1;
        }
        match &sockets.look_link {
            Some(link) => iterator::read(link, "the iterator of sockets", &mut self.buffer),
            None => sockets.walk(&mut self.buffer),
        }
    }

    /// Whether [`Events::sockets`] lists each socket that is open.
    pub fn lists_all_sockets(&self) -> bool {
        let sockets = self.sockets.as_ref();
        sockets.is_some_and(|sockets| sockets.look.is_complete())
    }

    /// What the last look at the sockets of a group has found open.
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

    /// What happened to the processes of each cgroup so far; the last row is that of the groups
    /// that found no room.
    pub fn processes(&self) -> Result<Vec<(Option<CgroupId>, ProcessCounts)>, Error> {
        let overflow = self.lifecycle.maps.bss_data.as_deref();
        let overflow = overflow.map(|bss| bss.process_overflow);
        rows::by_cgroup(&self.lifecycle.maps.process_rows, overflow)
    }

    /// What happened to the sockets of each cgroup so far, in the same way.
    pub fn tcp(&self) -> Result<Vec<(Option<CgroupId>, TcpCounts)>, Error> {
        match &self.sockets {
            None => Ok(Vec::new()),
            Some(Sockets { tcp, .. }) => {
                let overflow = tcp.maps.bss_data.as_deref().map(|bss| bss.tcp_overflow);
                rows::by_cgroup(&tcp.maps.tcp_rows, overflow)
            }
        }
    }

    /// How long connecting took for each cgroup, in the same way.
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

    /// Where the cgroups connect to.
    pub fn destinations(&self) -> Result<Vec<DestinationCounts>, Error> {
        match &self.sockets {
            None => Ok(Vec::new()),
            Some(Sockets { tcp, .. }) => rows::destinations(tcp),
        }
    }

    /// Takes out what a cgroup left that is gone for good.
    pub fn take_cgroup(&self, id: CgroupId) -> CgroupCounts {
        let key = id.0.to_ne_bytes();
        let tcp = self.sockets.as_ref().map(|s| &s.tcp.maps);
        CgroupCounts {
            processes: rows::take(&self.lifecycle.maps.process_rows, &key),
            tcp: tcp.and_then(|maps| rows::take(&maps.tcp_rows, &key)),
            connect_times: tcp.and_then(|maps| rows::take(&maps.connect_time_rows, &key)),
        }
    }

    /// Takes out a destination, of which the cgroup is gone or that is not used any more; what it
    /// has is the last. `None` where another reader was first.
    pub fn take_destination(&self, destination: &DestinationCounts) -> Option<DestinationCounts> {
        let maps = &self.sockets.as_ref()?.tcp.maps;
        let counts = match destination.destination {
            Some(_) => rows::take(&maps.destinations, destination.key()),
            None => rows::take(&maps.other_destinations, destination.key()),
        };
        Some(destination.with(counts?))
    }

    /// Says whether a cgroup may have rows for more destinations. One that was not noted keeps what it has:
    /// the next batch tries again.
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
            tracing::debug!(%error, "the share of a cgroup");
        }
    }

    /// Whether TCP is watched.
    pub fn counts_tcp(&self) -> bool {
        self.sockets.is_some()
    }

    /// Destinations that have room in the table.
    pub fn destinations_capacity(&self) -> u32 {
        let sockets = self.sockets.as_ref();
        sockets.map_or(0, |s| s.tcp.maps.destinations.max_entries())
    }

    /// How full the tables are that can be full.
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

    /// The programs, for measuring what they cost.
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

    /// The tables that another object with the same filters shares.
    pub fn shared(&self) -> SharedMaps<'_> {
        SharedMaps {
            followed: self.lifecycle.maps.followed.as_fd(),
            wanted_cgroups: self.lifecycle.maps.wanted_cgroups.as_fd(),
        }
    }
}
