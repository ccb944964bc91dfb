//! UDP events: DNS queries with their responses, and the traffic between a socket and each of its
//! peers.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::rc::Rc;

use libbpf_rs::skel::{OpenSkel, Skel};
use libbpf_rs::{Link, MapCore, MapFlags, RingBuffer, RingBufferBuilder};
use noctule_model::{Feature, FeatureId};

use super::{RawEvent, SharedMaps, rows};
use crate::abi;
use crate::cost::ProgramHandle;
use crate::error::{Context, Error, ErrorKind};
use crate::facts::Facts;
use crate::kernel_types;
use crate::settings::configure;
use crate::skel::udp::{OpenUdpSkel, UdpSkel, UdpSkelBuilder, types};
use crate::table;

mod question;
pub(super) mod record;
pub(super) mod unread;

use unread::Unread;

/// The UDP events to load, and their filters.
#[derive(Clone, Copy, Debug)]
pub struct UdpOptions {
    /// Trace DNS queries.
    pub dns: bool,
    /// Flows: traffic of a socket with a peer.
    pub flows: bool,
    /// Report only events of processes in the table `followed`.
    pub filter_processes: bool,
    /// Report only events of cgroups in the table `wanted_cgroups`.
    pub filter_cgroups: bool,
    /// Size of the ring buffer, rounded up to a power of two.
    pub ring_bytes: u32,
}

/// Maximum number of pending questions, and of open flows.
const QUESTIONS: u32 = 4096;
const FLOWS: u32 = 16_384;

/// A DNS question is reported as unanswered if neither a response nor another attempt follows
/// within this time. libc retries after 5 s.
const PATIENCE_NS: u64 = 6_000_000_000;

/// A flow ends after this time without packets.
const IDLE_NS: u64 = 30_000_000_000;

const FEATURE: FeatureId = FeatureId::UdpEvents;

/// Programs and the functions that they trace. Without the last two, IPv6 is not traced.
const PROGRAMS: [(&str, &str); 5] = [
    ("send_4", "ip_send_skb()"),
    ("take_packet", "skb_consume_udp()"),
    ("close_4", "udp_destroy_sock()"),
    ("send_6", "ip6_send_skb()"),
    ("close_6", "udpv6_destroy_sock()"),
];

/// UDP events and unread packets, as read from the ring buffer.
#[derive(Default)]
struct Records {
    events: Vec<RawEvent>,
    unread: Unread,
}

/// The attached programs with their ring buffer and tables. Dropping this value detaches the
/// programs.
pub struct UdpEvents {
    // Links are declared first, because they must be dropped before their object.
    _links: Vec<Link>,
    ring: RingBuffer<'static>,
    records: Rc<RefCell<Records>>,
    skel: UdpSkel<'static>,
    programs: Vec<&'static str>,
}

impl UdpEvents {
    /// Loads and attaches the programs, and returns the status. Without `shared` the filter tables
    /// are empty.
    pub fn load(
        facts: &Facts,
        options: &UdpOptions,
        shared: Option<SharedMaps<'_>>,
    ) -> (Option<Self>, Feature) {
        // Only flows need the programs that run when a socket is closed.
        let (there, missing): (Vec<_>, Vec<_>) = PROGRAMS
            .iter()
            .filter(|(program, _)| options.flows || !program.starts_with("close"))
            .partition(|(_, hook)| facts.hooks.contains(hook));
        let needed = missing
            .iter()
            .find(|missing| PROGRAMS[..3].contains(missing));
        let names: Vec<&'static str> = there.iter().map(|(program, _)| *program).collect();
        let loaded = match needed {
            _ if !facts.task_storage => Err(Error::new(
                ErrorKind::Kernel,
                "before Linux 5.13, tracing programs cannot read the cookie of a socket",
            )),
            Some((_, hook)) => Err(Error::new(
                ErrorKind::Kernel,
                format!("this kernel does not have {hook}"),
            )),
            None => Self::load_programs(facts, options, shared, names),
        };
        match loaded {
            Ok(events) if missing.is_empty() => {
                let hooks: Vec<_> = there.iter().map(|(_, hook)| *hook).collect();
                (Some(events), Feature::on(FEATURE, hooks.join(", ")))
            }
            Ok(events) => {
                let reason =
                    "this kernel has no IPv6, or has it as a module: UDP over IPv6 is not seen";
                (Some(events), Feature::degraded(FEATURE, reason))
            }
            Err(error) => {
                let source = std::error::Error::source(&error);
                let source = source.map_or_else(String::new, |source| format!(": {source:#}"));
                (None, Feature::off(FEATURE, format!("{error}{source}")))
            }
        }
    }

    fn load_programs(
        facts: &Facts,
        options: &UdpOptions,
        shared: Option<SharedMaps<'_>>,
        programs: Vec<&'static str>,
    ) -> Result<Self, Error> {
        let mut skel = open(facts, options, shared, &programs)?
            .load()
            .context("loading the BPF object `udp`")?;
        let records = Rc::new(RefCell::new(Records::default()));
        let ring = ring(&skel, records.clone())?;
        let mut links = Vec::new();
        for program in skel.object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            if programs.contains(&name.as_str()) {
                let link = program.attach();
                links.push(link.context(format!("attaching {name}"))?);
            }
        }
        Ok(Self {
            _links: links,
            ring,
            records,
            skel,
            programs,
        })
    }

    /// Returns the records since the last call, in the order of the ring buffer, followed by
    /// questions whose responses could not be read.
    pub fn drain(&self) -> Result<Vec<RawEvent>, Error> {
        self.ring
            .consume()
            .context("reading the ring buffer of UDP events")?;
        let mut records = self.records.borrow_mut();
        let mut events = std::mem::take(&mut records.events);
        if records.unread.take_more() {
            events.extend(self.answered_unread(&mut records.unread)?);
        }
        Ok(events)
    }

    fn answered_unread(&self, unread: &mut Unread) -> Result<Vec<RawEvent>, Error> {
        let questions = &self.skel.maps.questions;
        let entries = table::entries(questions, "reading the table of DNS queries")?;
        let waiting = entries.iter().filter_map(|(key, value)| {
            let query: types::dns_query = abi::plain(value)?;
            Some((record::ends(&query), query.asked, key))
        });
        let mut events = Vec::new();
        for (time_ns, key) in unread.answered(waiting.collect()) {
            // In the meantime, the question may have been answered, and another question may have
            // reused its id.
            let Some(taken) = rows::take_bytes(questions, key) else {
                continue;
            };
            let Some(query) = abi::plain::<types::dns_query>(&taken) else {
                continue;
            };
            if query.asked <= time_ns || !put_back(questions, key, &taken) {
                events.push(record::unanswered(&query, time_ns, unread));
            }
        }
        Ok(events)
    }

    /// Returns a descriptor that becomes readable when there are records.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        abi::epoll_fd(&self.ring)
    }

    /// Returns the unanswered questions and ended flows. `now_ns` is a time of `CLOCK_BOOTTIME`.
    pub fn ended(&self, now_ns: u64) -> Result<Vec<RawEvent>, Error> {
        self.take(now_ns, now_ns)
    }

    /// Returns all remaining questions and flows. Called when the agent ends.
    pub fn rest(&self, now_ns: u64) -> Result<Vec<RawEvent>, Error> {
        self.take(now_ns, u64::MAX)
    }

    /// Returns the questions and flows that have ended by `until_ns`.
    fn take(&self, now_ns: u64, until_ns: u64) -> Result<Vec<RawEvent>, Error> {
        // The ring buffer is read before the questions, because an unreadable packet may be a
        // response.
        self.ring
            .consume()
            .context("reading the ring buffer of UDP events")?;
        let mut ended = self.unanswered(now_ns, until_ns)?;
        ended.extend(self.flows(now_ns, until_ns)?);
        Ok(ended)
    }

    fn unanswered(&self, now_ns: u64, until_ns: u64) -> Result<Vec<RawEvent>, Error> {
        let gone =
            |query: &types::dns_query| query.head.time.saturating_add(PATIENCE_NS) <= until_ns;
        let questions = &self.skel.maps.questions;
        let unread = &self.records.borrow().unread;
        let mut unanswered = Vec::new();
        for (key, value) in table::entries(questions, "reading the table of DNS queries")?.iter() {
            if !abi::plain(value).as_ref().is_some_and(gone) {
                continue;
            }
            // The question may have been answered or repeated in the meantime.
            let Some(taken) = rows::take_bytes(questions, key) else {
                continue;
            };
            let Some(query) = abi::plain(&taken) else {
                continue;
            };
            if gone(&query) || !put_back(questions, key, &taken) {
                unanswered.push(record::unanswered(&query, now_ns, unread));
            }
        }
        Ok(unanswered)
    }

    fn flows(&self, now_ns: u64, until_ns: u64) -> Result<Vec<RawEvent>, Error> {
        let idle = |flow: &types::udp_flow| flow.head.time.saturating_add(IDLE_NS) <= until_ns;
        // Closed sockets are read before the flows: a new flow of a later socket has another
        // cookie.
        let closed = self.take_closed()?;
        let flows = &self.skel.maps.flows;
        let mut ended = Vec::new();
        for (key, value) in table::entries(flows, "reading the table of UDP flows")?.iter() {
            let socket = key.first_chunk::<8>();
            let end = socket.and_then(|socket| closed.get(socket)).copied();
            if end.is_none() && !abi::plain(value).as_ref().is_some_and(idle) {
                continue;
            }
            // This value includes the packets that arrived in the meantime.
            let Some(taken) = rows::take_bytes(flows, key) else {
                continue;
            };
            let Some(flow) = abi::plain(&taken) else {
                continue;
            };
            if end.is_some() || idle(&flow) || !put_back(flows, key, &taken) {
                ended.push(record::flow(&flow, end.unwrap_or(now_ns), end.is_some()));
            }
        }
        Ok(ended)
    }

    /// Removes and returns the closed sockets, each with the time at which it was closed.
    fn take_closed(&self) -> Result<HashMap<[u8; 8], u64>, Error> {
        let table = &self.skel.maps.closed;
        let mut closed = HashMap::new();
        for (key, value) in table::entries(table, "reading the table of closed sockets")?.iter() {
            let _ = table.delete(key);
            if let (Some(key), Ok(value)) = (key.first_chunk::<8>(), value.try_into()) {
                closed.insert(*key, u64::from_ne_bytes(value));
            }
        }
        Ok(closed)
    }

    /// Returns the number of dropped records of the event with this name.
    pub fn lost(&self, name: &str) -> u64 {
        let bss = self.skel.maps.bss_data.as_deref();
        super::record::lost(name, bss.map(|bss| bss.lost_events.as_slice()))
    }

    /// Returns the programs, for measuring their cost.
    pub fn programs(&self) -> Vec<ProgramHandle> {
        ProgramHandle::all(self.skel.object(), &self.programs)
    }
}

/// Puts an entry back into the table. Returns false if the table already has a new entry or is
/// full.
fn put_back(table: &impl MapCore, key: &[u8], value: &[u8]) -> bool {
    table.update(key, value, MapFlags::NO_EXIST).is_ok()
}

fn open(
    facts: &Facts,
    options: &UdpOptions,
    shared: Option<SharedMaps<'_>>,
    programs: &[&str],
) -> Result<OpenUdpSkel<'static>, Error> {
    use types::event_kind as kind;
    let mut open = kernel_types::open::<UdpSkelBuilder>(&facts.kernel_types)
        .context("opening the BPF object `udp`")?;
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.filter_processes = options.filter_processes;
        rodata.filter_cgroups = options.filter_cgroups;
        rodata.stream_kinds = u32::from(options.dns) << kind::EVENT_DNS_QUERY.0
            | u32::from(options.flows) << kind::EVENT_UDP_FLOW.0;
    }
    configure!(open, facts).context("setting up the BPF object `udp`")?;
    let size = |on: bool, size: u32| if on { size } else { 1 };
    let maps = &mut open.maps;
    let ring = options.ring_bytes.max(rustix::param::page_size() as u32);
    let sizes = [
        maps.packets.set_max_entries(ring.next_power_of_two()),
        maps.questions.set_max_entries(size(options.dns, QUESTIONS)),
        maps.flows.set_max_entries(size(options.flows, FLOWS)),
        maps.with_flows.set_max_entries(size(options.flows, FLOWS)),
        maps.closed.set_max_entries(size(options.flows, FLOWS)),
    ];
    let sized: Result<(), _> = sizes.into_iter().collect();
    sized.context("sizing the maps")?;
    if let Some(shared) = shared {
        let reused = maps
            .followed
            .reuse_fd(shared.followed.as_fd())
            .and_then(|()| maps.wanted_cgroups.reuse_fd(shared.wanted_cgroups.as_fd()));
        reused.context("sharing the filter maps")?;
    }
    for mut program in open.open_object_mut().progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        program.set_autoload(programs.contains(&name.as_str()));
    }
    Ok(open)
}

fn ring(
    skel: &UdpSkel<'static>,
    records: Rc<RefCell<Records>>,
) -> Result<RingBuffer<'static>, Error> {
    let mut builder = RingBufferBuilder::new();
    let take = move |bytes: &[u8]| {
        let Records { events, unread } = &mut *records.borrow_mut();
        events.extend(record::parse(bytes, unread));
        0
    };
    builder
        .add(&skel.maps.packets, take)
        .context("creating the ring buffer of UDP events")?;
    builder
        .build()
        .context("creating the ring buffer of UDP events")
}
