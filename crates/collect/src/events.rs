//! Provides events as a stream that reports its gaps and compares itself with the current state
//! after losses.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

use noctule_kernel::{
    Error, Events, FileEvents, ProgramHandle, RawEvent, RawProcess, SocketSample, UdpEvents,
};
use noctule_model::{
    Batch, CgroupId, Event, EventKind, EventKinds, EventProcess, Loss, Origin, Parent, ProcessId,
    ProcessRow, Socket, TcpChange, What,
};

mod counts;
#[cfg(test)]
mod interleavings;
mod known;
mod order;
mod program_names;
mod relist;
mod shares;

use counts::EventCounts;
use known::{Known, Missing};
use order::Order;
use program_names::ProgramNames;
use relist::Relist;

use crate::clock::{created_unix_ns, since_boot_ns, wall_clock};
use crate::cpu::Grace;

/// A function that returns whether the events of a process are wanted.
type Wanted<'a> = &'a dyn Fn(&ProcessRow) -> bool;

pub struct EventSource {
    kernel: Events,
    files: Option<FileEvents>,
    udp: Option<UdpEvents>,
    /// Kinds of events in the stream. Only the state behind these kinds is reconciled.
    stream: EventKinds,
    counts: EventCounts,
    known: Known,
    program_names: ProgramNames,
    /// Events that were read from tables rather than rings.
    drained: Vec<RawEvent>,
    /// Events that have not been reported yet.
    order: Order,
    /// Programs behind the events, and how often the kernel had skipped each program at the last
    /// check. Reading these counts is slow on a machine with many CPUs.
    programs: Vec<ProgramHandle>,
    skipped: u64,
    /// Events that the kernel side had lost at the last check, by name.
    lost: Vec<(&'static str, u64)>,
    /// Whether a gap was reported since the last batch.
    gap: bool,
    /// Decides how long after a loss the stream is compared with the current state.
    relist: Relist,
    /// Time since boot up to which the stream is complete. Everything that began before this time
    /// is in the stream, or began before the stream did.
    whole_ns: u64,
    /// Whether the state at the start is known, so that gaps can be compared with it.
    listed: bool,
    /// When to search open files again for sockets whose start was missed.
    survey_ns: u64,
    /// Second of the last port lookup, and the number of lookups in that second. Lookups are
    /// limited on kernels where each one walks the sockets of all network namespaces.
    walks: (u64, u32),
}

impl EventSource {
    /// Creates a source that reads from these programs, which were loaded for this stream. `grace`
    /// is how long processes and cgroups are kept after they are gone.
    pub fn new(
        kernel: Events,
        files: Option<FileEvents>,
        udp: Option<UdpEvents>,
        stream: EventKinds,
        grace: Grace,
    ) -> Self {
        let mut programs = kernel.programs();
        programs.extend(files.iter().flat_map(FileEvents::programs));
        programs.extend(udp.iter().flat_map(UdpEvents::programs));
        let mut this = Self {
            kernel,
            files,
            udp,
            stream,
            counts: EventCounts::new(grace.cgroup),
            known: Known::default(),
            program_names: ProgramNames::default(),
            drained: Vec::new(),
            order: Order::default(),
            skipped: skipped(&programs),
            programs,
            lost: Vec::new(),
            gap: false,
            relist: Relist::new(grace.process.as_nanos() as u64),
            whole_ns: 0,
            listed: false,
            survey_ns: 0,
            walks: (0, 0),
        };
        this.lost = this.lost();
        this
    }

    /// Returns the programs of this source.
    pub fn kernel(&self) -> &Events {
        &self.kernel
    }

    /// Registers the sockets that already exist. Filters must be set before this call.
    pub fn adopt_sockets(&mut self) -> Result<(), Error> {
        self.kernel.survey_sockets()
    }

    /// Returns what was lost so far: rows of tables by kind, and events by name.
    pub fn losses(&self) -> Vec<Loss> {
        let mut losses = self.kernel.losses();
        if let Some(files) = &self.files {
            let rows = losses.iter_mut().filter(|loss| loss.kind == "event_row");
            rows.for_each(|loss| loss.count += files.lost_rows());
        }
        losses.extend(self.lost().into_iter().map(|(kind, count)| Loss {
            kind,
            place: "events",
            count,
        }));
        losses
    }

    /// Returns the programs that trace file opens.
    pub fn files(&self) -> Option<&FileEvents> {
        self.files.as_ref()
    }

    /// Returns the programs that trace UDP.
    pub fn udp(&self) -> Option<&UdpEvents> {
        self.udp.as_ref()
    }

    /// Follows all future children of process `pid`, with their descendants.
    pub fn follow_children_of(&mut self, pid: u32) {
        self.kernel.follow_children_of(pid);
    }

    /// Adds the event counts to a batch. `released` lists cgroups that were removed permanently.
    pub fn count(&mut self, batch: &mut Batch, released: &[CgroupId]) -> Result<(), Error> {
        self.kernel.settle_sockets()?;
        let files = self.files.as_ref();
        self.counts.add_to(batch, &self.kernel, files, released)
    }

    /// Returns the cgroups that get no more rows for destinations, starting with this batch,
    /// because there was no room for other cgroups. Further destinations of these cgroups are
    /// counted in one row until no other cgroup has been short of room for one minute.
    pub fn newly_bounded(&self) -> &[CgroupId] {
        self.counts.newly_bounded()
    }

    /// Returns the events since the last call, in order. The most recent events are held back for a
    /// later call. If events were lost, the result contains a gap record after the events that
    /// preceded the loss.
    pub fn collect(&mut self) -> Result<Vec<Event>, Error> {
        let begun_ns = since_boot_ns();
        self.read()?;
        let clock = Clock::now();
        let events = self.order.take(begun_ns, since_boot_ns()).into_iter();
        Ok(events
            .map(|(event, origin)| clock.event(event, origin))
            .collect())
    }

    /// Returns the time after which the next call of `collect` has events, even if nothing else
    /// happens.
    pub fn waits(&self) -> Option<Duration> {
        self.order.waits()
    }

    /// Reads all ring buffers of events, and converts their records.
    fn read(&mut self) -> Result<(), Error> {
        self.drained.extend(self.kernel.drain()?);
        if let Some(files) = &self.files {
            self.drained.extend(files.drain()?);
        }
        if let Some(udp) = &self.udp {
            self.drained.extend(udp.drain()?);
        }
        let mut raw = std::mem::take(&mut self.drained);
        if let Err(error) = self.find_ports(&mut raw) {
            tracing::warn!(%error, "a listening socket is reported without its port");
        }
        raw.sort_by_key(|event| event.time_ns);
        for mut event in raw {
            self.program_names.apply(&mut event);
            // A list may include a process or socket, or omit one, some microseconds before the
            // record of its start or end arrives.
            if self.known.is_repeated(&event) {
                continue;
            }
            self.known.note(&event, true);
            self.order.add(event, Origin::Seen);
        }
        // Losses are checked after the rings are read, so that the gap record comes after the
        // events that preceded the gap.
        let lost = self.lost();
        if lost != self.lost {
            self.order.add(gap(&self.lost, &lost), Origin::Seen);
            self.gap |= has_lost_state(&self.lost, &lost);
            self.lost = lost;
        }
        Ok(())
    }

    /// Returns the lost events by name, and an upper bound of how often the kernel skipped the
    /// programs. It is unknown which events a skipped program would have reported.
    fn lost(&self) -> Vec<(&'static str, u64)> {
        let mut lost = self.kernel.lost_events();
        if let Some(files) = &self.files {
            let names = lost.iter_mut();
            names.for_each(|(name, count)| *count += files.lost(name));
        }
        if let Some(udp) = &self.udp {
            let names = lost.iter_mut();
            names.for_each(|(name, count)| *count += udp.lost(name));
        }
        lost.push((SKIPPED, self.skipped));
        lost
    }

    /// Finds the ports of sockets that listen without being bound. The kernel chooses such a port
    /// only after the program has run, so the port is read from the socket or from the record of
    /// its close. If that requires a walk over all sockets of the machine, only a limited number of
    /// sockets get their port.
    fn find_ports(&mut self, events: &mut [RawEvent]) -> Result<(), Error> {
        let mut times = events
            .iter_mut()
            .filter_map(|event| portless(event).is_some().then_some(event.time_ns));
        let Some(time_ns) = times.next() else {
            return Ok(());
        };
        if !self.kernel.lists_all_sockets() && !may_walk(&mut self.walks, time_ns) {
            return Ok(());
        }
        let there = self.kernel.sockets()?;
        let mut known: HashMap<u64, SocketAddr> = HashMap::new();
        let ended = events.iter().filter_map(|event| match event.what {
            What::Tcp {
                change: TcpChange::ListenClose,
                socket,
            } => Some(socket),
            _ => None,
        });
        for socket in there.iter().map(|sample| sample.socket).chain(ended) {
            known.extend(socket.local.map(|local| (socket.id, local)));
        }
        for socket in events.iter_mut().filter_map(portless) {
            socket.local = known.get(&socket.id).copied();
        }
        Ok(())
    }

    /// Records the existing processes, listening sockets and connections. If `reported` is set, the
    /// stream also lists them. Must be called at the start, with the first batch taken after the
    /// programs were attached. If an older process ends before it is listed, only its exit is
    /// reported.
    pub fn existing(
        &mut self,
        batch: &Batch,
        wanted: Wanted<'_>,
        reported: bool,
    ) -> Result<(), Error> {
        self.whole_ns = 0;
        self.relist(Some((batch, wanted)), reported.then_some(Origin::Existing))?;
        self.whole_ns = since_boot_ns();
        self.listed = true;
        Ok(())
    }

    /// Reports what was lost in a gap: the difference between the stream and the current state.
    /// Does nothing without a gap.
    pub fn reconcile(&mut self, batch: &Batch, wanted: Wanted<'_>) -> Result<(), Error> {
        let now_ns = batch.taken_ns;
        if self.udp.is_some() {
            let ended = self.udp.as_ref().map(|udp| udp.ended(since_boot_ns()));
            self.drained.extend(ended.transpose()?.unwrap_or_default());
        }
        let surveyed = self.survey(now_ns)?;
        if std::mem::take(&mut self.gap) {
            self.relist.begin(now_ns);
        }
        let losing = has_lost_state(&self.lost, &self.lost());
        let waits = self.known.awaits_exit(batch);
        let whole = self.relist.is_over(now_ns, losing, waits);
        if whole {
            self.whole_ns = since_boot_ns();
            self.known.prune(batch);
        }
        match whole && !surveyed {
            true => Ok(()),
            // A gap before the first list needs no comparison. The first list will record
            // everything, and nothing in it counts as new.
            false if !self.listed => Ok(()),
            // Without a loss only sockets are compared. A process that was only moved into a group
            // did not start there.
            false => self.relist(
                (!whole).then_some((batch, wanted)),
                Some(Origin::Reconciled),
            ),
        }
    }

    /// Ends the stream. The next call of [`Self::collect`] also returns the events that are held
    /// back until the stream ends.
    pub fn end(&mut self) -> Result<(), Error> {
        let rest = self.udp.as_ref().map(|udp| udp.rest(since_boot_ns()));
        self.drained.extend(rest.transpose()?.unwrap_or_default());
        self.order.end();
        Ok(())
    }

    /// Searches for sockets whose start was missed. The search runs after the kernel has skipped
    /// programs, and also at intervals. Some kernels do not trace certain processes, nor interrupts
    /// that occur while these processes run, and do not count what they skip. Each batch performs
    /// one step of the search. Returns `true` when all files were searched.
    fn survey(&mut self, now_ns: u64) -> Result<bool, Error> {
        let skipped = skipped(&self.programs);
        // The first list has recorded everything that existed at the start.
        if self.survey_ns == 0 {
            self.survey_ns = now_ns + SURVEY_NS;
        }
        if skipped > self.skipped {
            self.skipped = skipped;
            self.survey_ns = self.survey_ns.min(now_ns);
        }
        let over = now_ns >= self.survey_ns && self.kernel.survey_step()?;
        if over {
            self.survey_ns = now_ns + SURVEY_NS;
        }
        Ok(over)
    }

    /// Compares the stream with the current state and reports the difference. If `origin` is
    /// `None`, only records the state. `processes` contains the processes of a batch, and the
    /// filter that selects the wanted ones.
    fn relist(
        &mut self,
        processes: Option<(&Batch, Wanted<'_>)>,
        origin: Option<Origin>,
    ) -> Result<(), Error> {
        let processes = processes.filter(|_| self.stream.has(EventKind::Process));
        let mut missing = Missing::default();
        if let Some((batch, _)) = processes {
            missing.processes = self.known.missing_processes(batch);
        }
        let mut sockets = Vec::new();
        if self.stream.has(EventKind::Tcp) {
            sockets = self.kernel.sockets()?;
            missing.sockets = self.known.missing_sockets(&sockets);
        }
        // If the lists are incomplete, a socket that is missing from them may still be open.
        if !self.kernel.lists_all_sockets() {
            self.known
                .forget_sockets(&std::mem::take(&mut missing.sockets));
        }
        if !missing.sockets.is_empty() {
            for sample in self.kernel.sockets()? {
                missing.sockets.remove(&sample.socket.id);
            }
        }
        // The rings are read after the lists are made. A process in none of the lists has ended. By
        // now its exit has been reported, or the record was lost.
        self.read()?;
        let mut found = self.known.ends(&missing);
        if let Some((batch, wanted)) = processes {
            let began = |row: &ProcessRow| row.id.start_ns + START_NS > self.whole_ns;
            found.extend(self.known.starts(batch, |row| wanted(row) && began(row)));
        }
        found.extend(self.known.begins(&sockets));
        for mut event in found {
            self.program_names.apply(&mut event);
            if self.known.is_repeated(&event) {
                continue;
            }
            self.known.note(&event, origin.is_some());
            if let Some(origin) = origin {
                self.order.add(event, origin);
            }
        }
        Ok(())
    }

    /// Follows a process and its descendants in the batch. If a parent is followed, the kernel side
    /// follows the children that start in the meantime. Returns whether any process was not
    /// followed before.
    pub fn follow_tree(&self, root: ProcessId, batch: &Batch) -> Result<bool, Error> {
        let mut more = !self.kernel.follows(root);
        self.kernel.follow(root)?;
        let mut tree = vec![root.pid];
        while let Some(parent) = tree.pop() {
            for row in batch
                .processes
                .iter()
                .filter(|row| row.parent_pid == parent)
            {
                tree.push(row.id.pid);
                if !self.kernel.follows(row.id) {
                    self.kernel.follow(row.id)?;
                    more = true;
                }
            }
        }
        Ok(more)
    }
}

/// If the event is the start of a listening socket whose port is unknown, returns the socket.
fn portless(event: &mut RawEvent) -> Option<&mut Socket> {
    match &mut event.what {
        What::Tcp {
            change: TcpChange::Listen,
            socket,
        } if socket.local.is_none() => Some(socket),
        _ => None,
    }
}

/// Maximum number of walks over all sockets per second. Any user can make sockets listen
/// repeatedly.
const WALKS_PER_SECOND: u32 = 5;

/// Counts a walk, and returns whether the budget of the current second allows it.
fn may_walk((second, walks): &mut (u64, u32), time_ns: u64) -> bool {
    let now = time_ns / 1_000_000_000;
    if now != *second {
        (*second, *walks) = (now, 0);
    }
    *walks += 1;
    *walks <= WALKS_PER_SECOND
}

/// Name in a gap for skipped programs, in addition to the names of events.
const SKIPPED: &str = "skipped";

fn skipped(programs: &[ProgramHandle]) -> u64 {
    programs.iter().map(ProgramHandle::skipped).sum()
}

/// Returns whether any of the lost events can be recovered by reconciliation. File events, DNS
/// queries and UDP flows leave no state to compare.
fn has_lost_state(before: &[(&'static str, u64)], now: &[(&'static str, u64)]) -> bool {
    let leaves_nothing = |name: &str| {
        let families = ["file.", "dns.", "udp."];
        families.iter().any(|family| name.starts_with(family))
    };
    let mut both = before.iter().zip(now);
    both.any(|(before, now)| before != now && !leaves_nothing(now.0))
}

fn gap(before: &[(&'static str, u64)], now: &[(&'static str, u64)]) -> RawEvent {
    let growth = before.iter().zip(now);
    let growth = growth.map(|(b, n)| (n.0, n.1.saturating_sub(b.1)));
    RawEvent {
        time_ns: 0,
        process: None,
        what: What::Gap {
            lost: growth.filter(|(_, count)| *count > 0).collect(),
            since_unix_ns: None,
        },
    }
}

/// Interval between searches of open files if no program is known to have been skipped.
const SURVEY_NS: u64 = 60_000_000_000;

/// Maximum delay between the start of a process and its record.
const START_NS: u64 = 1_000_000_000;

/// Converts times since boot to dates.
struct Clock {
    boot_unix_ns: u64,
}

impl Clock {
    fn now() -> Self {
        let (_, boot_unix_ns) = wall_clock();
        Self { boot_unix_ns }
    }

    fn event(&self, mut raw: RawEvent, origin: Origin) -> Event {
        if let Some(parent) = parent(&mut raw.what) {
            parent.start_unix_ns = created_unix_ns(parent.id.start_ns);
        }
        Event {
            time_unix_ns: self.boot_unix_ns + raw.time_ns,
            process: raw.process.map(|process| process_of(&process)),
            origin,
            what: raw.what,
        }
    }
}

fn process_of(raw: &RawProcess) -> EventProcess {
    EventProcess {
        id: raw.id,
        start_unix_ns: created_unix_ns(raw.id.start_ns),
        comm: raw.comm,
        thread: raw.thread,
        cgroup: raw.cgroup,
        owner: None,
    }
}

fn parent(what: &mut What) -> Option<&mut Parent> {
    match what {
        What::ProcessStart { parent, .. }
        | What::ProcessExecFailed { parent, .. }
        | What::ProcessExit { parent, .. } => parent.as_mut(),
        What::ProcessExec { context, .. } => context.parent.as_mut(),
        What::ProcessSignal { sender, .. } => sender.as_mut(),
        _ => None,
    }
}

/// Ports with a listening socket, by network namespace.
struct Listeners(HashSet<(Option<u64>, u16)>);

impl Listeners {
    fn among(sockets: &[SocketSample]) -> Self {
        let listening = sockets.iter().filter(|sample| sample.listens);
        Self(listening.filter_map(port).collect())
    }

    /// Returns how an open socket began. For a connection older than the agent, the side is
    /// unknown. The connection counts as accepted if there is a listening socket on its port.
    fn beginning(&self, sample: &SocketSample) -> TcpChange {
        let listened = || port(sample).is_some_and(|port| self.0.contains(&port));
        if sample.listens {
            TcpChange::Listen
        } else if sample.accepted.unwrap_or_else(listened) {
            TcpChange::Accept
        } else {
            TcpChange::Connect { duration_ns: None }
        }
    }
}

fn port(sample: &SocketSample) -> Option<(Option<u64>, u16)> {
    let Socket {
        local,
        netns_cookie,
        ..
    } = sample.socket;
    local.map(|local| (netns_cookie, local.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_recoverable_losses_cause_a_relist() {
        let lost = |process, file, flow, skipped| {
            [
                ("process.start", process),
                ("file.open", file),
                ("udp.flow", flow),
                (SKIPPED, skipped),
            ]
        };
        let before = lost(1, 1, 1, 1);
        for (now, looks) in [
            (before, false),
            (lost(1, 2, 1, 1), false),
            (lost(1, 1, 2, 1), false),
            (lost(2, 2, 1, 1), true),
            (lost(1, 1, 1, 2), true),
        ] {
            assert_eq!(has_lost_state(&before, &now), looks, "{now:?}");
        }
    }

    #[test]
    fn walks_are_limited_per_second() {
        let mut walks = (0, 0);
        for second in [7, 8] {
            let times = (0..20).map(|n| second * 1_000_000_000 + n);
            let allowed = times.filter(|time| may_walk(&mut walks, *time)).count();
            assert_eq!(allowed, WALKS_PER_SECOND as usize);
        }
    }
}
