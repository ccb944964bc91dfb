//! Tables of cgroups and of the destinations of their connections.

use std::net::SocketAddr;

use noctule_model::{
    CgroupId, CgroupRow, DestinationCounter, DestinationRow, EventCounter, Measured, Sockets,
    ThreadRoom, Waiting,
};

use super::process::{BlockRecord, Energies, Figures, UseRecord, energies};
use super::{Keyed, OwnerNumber, Owners};
use crate::column::{Counted, Keeps, List, record};

pub(super) type EventFigures = Counted<EventCounter, { EventCounter::COUNT }>;
type DestinationFigures = Counted<DestinationCounter, { DestinationCounter::ALL.len() }>;

record! {
    /// A cgroup.
    pub(crate) struct GroupRecord {
        cgroup: u64,
        owner: OwnerNumber,
        counters: Figures,
        energy: Energies,
        events: EventFigures,
        connections: u64,
        listeners: u64,
        waiting_threads: u64,
        longest_waiting_ns: u64,
        blocked: List<BlockRecord>,
        packages: List<UseRecord>,
        threads: Option<u32>,
        usable_cpus: Option<u32>,
    }
}

impl Keyed for GroupRecord {
    type Key = u64;
    const COLUMNS: &[&str] = &["cgroup"];

    fn key(&self) -> Self::Key {
        self.cgroup
    }

    /// Counts and event counts of a cgroup can be reset in different batches.
    fn ends_in(&self, later: &Self) -> bool {
        let zero = |it: &Self| (it.counters.counts.is_zero(), it.events.counts.is_zero());
        let ((accounts, events), (later_accounts, later_events)) = (zero(self), zero(later));
        (later_accounts && !accounts) || (later_events && !events)
    }
}

impl GroupRecord {
    pub(crate) fn new(
        row: &CgroupRow,
        owners: &mut Owners,
        measured: Measured,
        metered: bool,
    ) -> Self {
        let CgroupRow {
            id,
            owner,
            counters,
            joules,
            packages,
            events,
            sockets,
            waiting,
            blocked,
            room,
        } = row;
        Self {
            cgroup: id.0,
            owner: owners.number(owner.as_ref()),
            counters: Counted::new(*counters, measured),
            energy: energies(*joules, metered),
            events: Counted::new(*events, measured),
            connections: sockets.connections,
            listeners: sockets.listeners,
            waiting_threads: waiting.threads,
            longest_waiting_ns: waiting.longest_ns,
            blocked: Keeps::keep(blocked),
            packages: Keeps::keep(packages),
            threads: room.map(|room| room.threads),
            usable_cpus: room.map(|room| room.cpus),
        }
    }

    pub(crate) fn row(&self, owners: &Owners) -> CgroupRow {
        CgroupRow {
            id: CgroupId(self.cgroup),
            owner: owners.owner(self.owner),
            counters: self.counters.counts,
            joules: self.energy.counts,
            packages: self.packages.value(),
            events: self.events.counts,
            sockets: Sockets {
                connections: self.connections,
                listeners: self.listeners,
            },
            waiting: Waiting {
                threads: self.waiting_threads,
                longest_ns: self.longest_waiting_ns,
            },
            blocked: self.blocked.value(),
            room: self
                .threads
                .zip(self.usable_cpus)
                .map(|(threads, cpus)| ThreadRoom { threads, cpus }),
        }
    }
}

record! {
    /// Counters of a cgroup for one destination. A row without an address sums up the destinations
    /// for which there was no room.
    pub(crate) struct DestinationRecord {
        cgroup: u64,
        destination: Option<String>,
        counters: DestinationFigures,
    }
}

impl Keyed for DestinationRecord {
    type Key = (u64, Option<SocketAddr>);

    fn key(&self) -> Self::Key {
        (self.cgroup, self.address())
    }
}

impl DestinationRecord {
    pub(crate) fn new(row: &DestinationRow, measured: Measured) -> Self {
        let DestinationRow {
            cgroup,
            destination,
            counters,
        } = row;
        Self {
            cgroup: cgroup.0,
            destination: destination.map(|address| address.to_string()),
            counters: Counted::new(*counters, measured),
        }
    }

    pub(crate) fn row(&self) -> DestinationRow {
        DestinationRow {
            cgroup: CgroupId(self.cgroup),
            destination: self.address(),
            counters: self.counters.counts,
        }
    }

    fn address(&self) -> Option<SocketAddr> {
        self.destination.as_deref()?.parse().ok()
    }
}
