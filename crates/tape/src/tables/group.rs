//! Tables of cgroups and of the destinations of their connections.

use std::net::SocketAddr;

use noctule_model::{
    CgroupRow, DestinationCounter, DestinationRow, EventCounter, Sockets, ThreadRoom,
};

use super::kept::{Flat, RecordOf, Writing, record_of};
use super::process::{BlockRecord, Energies, Figures, UseRecord, WaitingRecord};
use super::{Keyed, OwnerNumber, Owners};
use crate::column::{Counted, List, record};

pub(super) type EventFigures = Counted<EventCounter, { EventCounter::COUNT }>;
type DestinationFigures = Counted<DestinationCounter, { DestinationCounter::ALL.len() }>;

record_of! {
    /// Sockets of a group.
    pub(crate) struct SocketsRecord of Sockets {
        connections: u64,
        listeners: u64,
    }
}

record! {
    /// How many CPUs the busy threads of a group may use. Both columns are null if it is unknown.
    pub(crate) struct RoomRecord {
        threads: Option<u32>,
        usable_cpus: Option<u32>,
    }
}

impl RecordOf for RoomRecord {
    type Row = Option<ThreadRoom>;

    fn new(room: &Self::Row, _: &mut Writing<'_>) -> Self {
        Self {
            threads: room.map(|room| room.threads),
            usable_cpus: room.map(|room| room.cpus),
        }
    }

    fn row(&self, _: &Owners) -> Self::Row {
        let (threads, cpus) = self.threads.zip(self.usable_cpus)?;
        Some(ThreadRoom { threads, cpus })
    }
}

record_of! {
    pub(crate) struct GroupRecord of CgroupRow {
        id as "cgroup": u64,
        owner: OwnerNumber,
        removed as "ended": bool,
        counters: Figures,
        joules: Energies,
        events: EventFigures,
        sockets: Flat<SocketsRecord>,
        waiting: Flat<WaitingRecord>,
        blocked: List<BlockRecord>,
        packages: List<UseRecord>,
        room: Flat<RoomRecord>,
    }
}

impl Keyed for GroupRecord {
    type Key = u64;
    const COLUMNS: &[&str] = &["cgroup"];

    fn key(&self) -> Self::Key {
        self.id
    }

    /// Counts and event counts of a cgroup can be reset in different batches.
    fn ends_in(&self, later: &Self) -> bool {
        let zero = |it: &Self| (it.counters.counts.is_zero(), it.events.counts.is_zero());
        let ((accounts, events), (later_accounts, later_events)) = (zero(self), zero(later));
        (later_accounts && !accounts) || (later_events && !events)
    }
}

record_of! {
    /// Counters of a cgroup for one destination. A row without an address sums up the destinations
    /// for which there was no room.
    pub(crate) struct DestinationRecord of DestinationRow {
        cgroup: u64,
        destination: Option<String>,
        counters: DestinationFigures,
    }
}

impl Keyed for DestinationRecord {
    type Key = (u64, Option<SocketAddr>);

    fn key(&self) -> Self::Key {
        let address = self.destination.as_deref();
        (self.cgroup, address.and_then(|it| it.parse().ok()))
    }
}
