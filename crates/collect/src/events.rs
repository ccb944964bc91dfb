//! What happens, as a stream that says where it has a gap and mends itself.

use noctule_kernel::{Error, Events, RawEvent, RawProcess, SocketSample};
use noctule_model::{Batch, Event, EventProcess, Origin, ProcessId, ProcessRow, TcpChange, What};

mod known;

use known::Known;

/// Source of events.
pub struct EventSource {
    kernel: Events,
    known: Known,
    /// Events that the kernel side had lost at the last look, by name.
    lost: Vec<(&'static str, u64)>,
    /// Something was lost since the state was last compared with what is there.
    torn: bool,
}

impl EventSource {
    /// Reads from these programs.
    pub fn new(kernel: Events) -> Self {
        Self {
            lost: kernel.lost_events(),
            kernel,
            known: Known::default(),
            torn: false,
        }
    }

    /// The programs behind this source.
    pub fn kernel(&self) -> &Events {
        &self.kernel
    }

    /// From now on the children of the process `pid` are followed, with all their descendants.
    pub fn follow_children_of(&mut self, pid: u32) {
        self.kernel.follow_children_of(pid);
    }

    /// What happened since the last call, in order. Where events were lost, a gap follows those
    /// that were there before.
    pub fn collect(&mut self) -> Result<Vec<Event>, Error> {
        let raw = self.kernel.drain()?;
        let clock = Clock::now();
        let mut events = Vec::with_capacity(raw.len());
        for event in raw {
            self.known.note(&event);
            events.push(clock.event(event, Origin::Seen));
        }
        // After the ring: what is lost by now came after what was in it.
        let lost = self.kernel.lost_events();
        if lost != self.lost {
            events.push(gap(&self.lost, &lost, clock.now_unix_ns));
            self.lost = lost;
            self.torn = true;
        }
        Ok(events)
    }

    /// Lists what is there and was not told: processes, sockets that listen, connections. For the
    /// start, with the first batch that was taken after it.
    pub fn existing(
        &mut self,
        batch: &Batch,
        wanted: &dyn Fn(&ProcessRow) -> bool,
    ) -> Result<Vec<Event>, Error> {
        self.compare(batch, wanted, Origin::Existing)
    }

    /// Tells what a gap has swallowed, by comparing what was told with what is there; nothing when
    /// there was no gap.
    pub fn heal(
        &mut self,
        batch: &Batch,
        wanted: &dyn Fn(&ProcessRow) -> bool,
    ) -> Result<Vec<Event>, Error> {
        if !std::mem::take(&mut self.torn) {
            self.known.prune(batch);
            return Ok(Vec::new());
        }
        self.compare(batch, wanted, Origin::Reconciled)
    }

    fn compare(
        &mut self,
        batch: &Batch,
        wanted: &dyn Fn(&ProcessRow) -> bool,
        origin: Origin,
    ) -> Result<Vec<Event>, Error> {
        // What came while the batch was taken: otherwise it would look like a loss.
        let mut events = self.collect()?;
        let clock = Clock::now();
        let (sockets, numbered) = self.kernel.sockets()?;
        let mut raw = self.known.compare_processes(batch, wanted);
        raw.extend(self.known.compare_sockets(&sockets, numbered));
        events.extend(raw.into_iter().map(|event| clock.event(event, origin)));
        Ok(events)
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

/// Turns moments since boot into dates.
struct Clock {
    now_unix_ns: u64,
    boot_unix_ns: u64,
}

impl Clock {
    fn now() -> Self {
        let (now_unix_ns, boot_unix_ns) = crate::cpu::wall_clock();
        Self {
            now_unix_ns,
            boot_unix_ns,
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
