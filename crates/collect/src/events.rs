//! What happens, as a stream that says where it has a gap and mends itself.

use std::time::Duration;

use noctule_kernel::{
    Error, Events, FileEvents, FileOpenRecord, RawEvent, RawProcess, SocketSample, Stream,
};
use noctule_model::{
    Batch, CgroupId, Comm, Event, EventProcess, FilePath, Loss, Origin, ProcessId, ProcessRow,
    TcpChange, What,
};

mod counts;
mod known;

use counts::EventCounts;
use known::Known;

/// Source of events.
pub struct EventSource {
    kernel: Events,
    files: Option<FileEvents>,
    /// What goes into the stream, and is compared with what is there.
    stream: Stream,
    counts: EventCounts,
    known: Known,
    /// Events that the kernel side had lost at the last look, by name.
    lost: Vec<(&'static str, u64)>,
    /// How often the state is still to be compared with what is there, because something was lost.
    looks: u32,
    /// The moment of boot, by which all events are told.
    boot_unix_ns: u64,
}

impl EventSource {
    /// Reads from these programs, which were loaded for this stream. What has gone is kept for the
    /// time of grace.
    pub fn new(kernel: Events, files: Option<FileEvents>, stream: Stream, grace: Duration) -> Self {
        Self {
            lost: lost(&kernel, files.as_ref()),
            kernel,
            files,
            stream,
            counts: EventCounts::new(grace),
            known: Known::default(),
            looks: 0,
            boot_unix_ns: 0,
        }
    }

    /// The programs behind this source.
    pub fn kernel(&self) -> &Events {
        &self.kernel
    }

    /// Makes the sockets known that were there before; after the filters are filled.
    pub fn adopt_sockets(&mut self) -> Result<(), Error> {
        self.kernel.adopt_sockets()
    }

    /// What was lost so far: rows of tables by kind, and events by name.
    pub fn losses(&self) -> Vec<Loss> {
        let mut losses = self.kernel.losses();
        if let Some(files) = &self.files {
            let rows = losses.iter_mut().filter(|loss| loss.kind == "event_row");
            rows.for_each(|loss| loss.count += files.lost_rows());
        }
        let events = lost(&self.kernel, self.files.as_ref()).into_iter();
        losses.extend(events.map(|(kind, count)| Loss {
            kind,
            place: "events",
            count,
        }));
        losses
    }

    /// The programs that watch file opens.
    pub fn files(&self) -> Option<&FileEvents> {
        self.files.as_ref()
    }

    /// From now on the children of the process `pid` are followed, with all their descendants.
    pub fn follow_children_of(&mut self, pid: u32) {
        self.kernel.follow_children_of(pid);
    }

    /// Adds to a batch what was counted until now. `released` are cgroups that are gone for good.
    pub fn count(&mut self, batch: &mut Batch, released: &[CgroupId]) -> Result<(), Error> {
        self.kernel.settle_sockets()?;
        let files = self.files.as_ref();
        self.counts.add_to(batch, &self.kernel, files, released)
    }

    /// What happened since the last call, in order. Where events were lost, a gap follows those
    /// that were there before.
    pub fn collect(&mut self) -> Result<Vec<Event>, Error> {
        let mut raw = self.kernel.drain()?;
        if let Some(files) = &self.files {
            raw.extend(files.drain()?.into_iter().map(file_open));
            raw.sort_by_key(|event| event.time_ns);
        }
        let clock = Clock::now(&mut self.boot_unix_ns);
        let mut events = Vec::with_capacity(raw.len());
        for event in raw {
            // A process can be in a list some microseconds before its start is told.
            if self.known.has_started(&event) {
                continue;
            }
            self.known.note(&event);
            events.push(clock.event(event, Origin::Seen));
        }
        // After the ring: what is lost by now came after what was in it.
        let lost = lost(&self.kernel, self.files.as_ref());
        if lost != self.lost {
            events.push(gap(&self.lost, &lost, clock.now_unix_ns));
            self.lost = lost;
            self.looks = LOOKS;
        }
        Ok(events)
    }

    /// Lists what is there and was not told: processes, sockets that listen, connections. For the
    /// start, with the first batch that was taken after it. Of a process that was there before and
    /// ends before the list is made only the end is told.
    pub fn existing(
        &mut self,
        batch: &Batch,
        wanted: &dyn Fn(&ProcessRow) -> bool,
    ) -> Result<Vec<Event>, Error> {
        let mut events = self.compare(batch, wanted)?;
        let there = self.known.take_new();
        self.tell(&mut events, there, Origin::Existing);
        Ok(events)
    }

    /// Tells what a gap has swallowed, by comparing what was told with what is there; nothing when
    /// there was no gap. A difference is told when two looks have found it: what happens between
    /// the list and the ring is in one of them alone.
    pub fn heal(
        &mut self,
        batch: &Batch,
        wanted: &dyn Fn(&ProcessRow) -> bool,
    ) -> Result<Vec<Event>, Error> {
        if self.looks == 0 {
            self.known.prune(batch);
            return Ok(Vec::new());
        }
        self.looks -= 1;
        let mut events = self.compare(batch, wanted)?;
        let differences = self.known.take_confirmed();
        self.tell(&mut events, differences, Origin::Reconciled);
        Ok(events)
    }

    fn compare(
        &mut self,
        batch: &Batch,
        wanted: &dyn Fn(&ProcessRow) -> bool,
    ) -> Result<Vec<Event>, Error> {
        self.known.begin_look();
        let sockets = match self.stream.tcp {
            true => Some(self.kernel.sockets()?),
            false => None,
        };
        // After the lists: whatever is in them was told by now, or its record was lost.
        let events = self.collect()?;
        if self.stream.processes {
            self.known.compare_processes(batch, wanted);
        }
        if let Some(sockets) = sockets {
            self.known.compare_sockets(&sockets);
        }
        Ok(events)
    }

    fn tell(&mut self, events: &mut Vec<Event>, raw: Vec<RawEvent>, origin: Origin) {
        let clock = Clock::now(&mut self.boot_unix_ns);
        for event in raw {
            self.known.note(&event);
            events.push(clock.event(event, origin));
        }
    }

    /// Follows a process and its descendants, as the batch shows them. Those that start meanwhile
    /// are followed by the kernel side when their parent is.
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

/// Events that were lost so far, by name.
fn lost(kernel: &Events, files: Option<&FileEvents>) -> Vec<(&'static str, u64)> {
    let mut lost = kernel.lost_events();
    let opens = lost.iter_mut().filter(|(name, _)| *name == "file.open");
    opens.for_each(|(_, count)| *count += files.map_or(0, FileEvents::lost));
    lost
}

fn file_open(record: FileOpenRecord) -> RawEvent {
    RawEvent {
        time_ns: record.time_ns,
        process: Some(RawProcess {
            id: ProcessId {
                pid: record.pid,
                start_ns: record.start_ns,
            },
            cgroup: CgroupId(record.cgroup),
            comm: Comm::new(&record.comm),
        }),
        what: What::FileOpen {
            path: FilePath {
                bytes: record.path,
                truncated: record.truncated,
            },
            flags: record.flags,
            error: record.error,
        },
    }
}

fn gap(before: &[(&'static str, u64)], now: &[(&'static str, u64)], time_unix_ns: u64) -> Event {
    let growth = before.iter().zip(now).map(|(b, n)| (n.0, n.1 - b.1));
    Event {
        time_unix_ns,
        process: None,
        origin: Origin::Seen,
        what: What::Gap {
            lost: growth.filter(|(_, count)| *count > 0).collect(),
        },
    }
}

/// Comparisons after a loss: two find a difference, and one more finds what was only about to be told
/// at the first.
const LOOKS: u32 = 3;

/// How far the moment of boot may move before it is believed: the wall clock was set. It moves a
/// little at each look, and the date at which a process started is its name.
const SET_NS: u64 = 100_000_000;

/// Turns moments since boot into dates.
struct Clock {
    now_unix_ns: u64,
    boot_unix_ns: u64,
}

impl Clock {
    /// Now, by the moment of boot that was told before, if that still holds.
    fn now(known_boot: &mut u64) -> Self {
        let (now_unix_ns, boot_unix_ns) = crate::cpu::wall_clock();
        if boot_unix_ns.abs_diff(*known_boot) > SET_NS {
            *known_boot = boot_unix_ns;
        }
        Self {
            now_unix_ns,
            boot_unix_ns: *known_boot,
        }
    }

    /// A moment of 0 is now.
    fn event(&self, raw: RawEvent, origin: Origin) -> Event {
        Event {
            time_unix_ns: match raw.time_ns {
                0 => self.now_unix_ns,
                time => self.boot_unix_ns + time,
            },
            process: raw.process.map(|process| self.process(&process)),
            origin,
            what: raw.what,
        }
    }

    fn process(&self, raw: &RawProcess) -> EventProcess {
        EventProcess {
            id: raw.id,
            start_unix_ns: self.boot_unix_ns + raw.id.start_ns,
            comm: raw.comm,
            cgroup: raw.cgroup,
            owner: None,
        }
    }
}

/// How a socket that is there came to be. Of one that is older than the agent the side is not known:
/// it was accepted if somebody listens on its port.
fn beginning(sample: &SocketSample, all: &[SocketSample]) -> TcpChange {
    let listened = |sample: &SocketSample| {
        let port = |s: &SocketSample| s.socket.local.map(|local| local.port());
        let same = |other: &&SocketSample| {
            other.listens
                && other.socket.netns_cookie == sample.socket.netns_cookie
                && port(other) == port(sample)
        };
        all.iter().find(same).is_some()
    };
    if sample.listens {
        TcpChange::Listen
    } else if sample.accepted.unwrap_or_else(|| listened(sample)) {
        TcpChange::Accept
    } else {
        TcpChange::Connect { duration_ns: None }
    }
}
