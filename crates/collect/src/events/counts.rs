//! Counts events by cgroup. The kernel side deletes its rows with their cgroups; the counters here
//! stay.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

use noctule_kernel::{
    ConnectTimes, DestinationCounts, Error, Events, FileCounts, FileEvents, ProcessCounts,
    TcpCounts,
};
use noctule_model::{
    Batch, CgroupId, CgroupRow, ConnectError, DestinationCounter, DestinationCounters,
    DestinationRow, EventCounter, EventCounters, EventFamily, ExitKind, FeatureId, FeatureState,
    FileMode, Group, Histogram, Sockets, WaitRow,
};

use super::shares::{Bounds, Excess, Shares};
use crate::ledger::{Ledger, Released, Row};

/// Owner of counts for which a table had no room, or which have no owner.
const NOBODY: CgroupId = CgroupId::UNPLACED;
/// A destination that was unused for this long may be dropped when its table is nearly full.
const UNUSED_NS: u64 = 60_000_000_000;
/// How long released groups are remembered. Later counts come from sockets of the group that
/// another process still has open.
const FORGOTTEN_NS: u64 = 600_000_000_000;

pub(super) struct EventCounts {
    processes: Ledger<CgroupId, EventCounters>,
    tcp: Ledger<CgroupId, EventCounters>,
    /// Sockets that are currently open.
    sockets: HashMap<CgroupId, Sockets>,
    files: Ledger<CgroupId, EventCounters>,
    connects: Ledger<CgroupId, Histogram>,
    destinations: Ledger<(CgroupId, Option<SocketAddr>), DestinationCounters>,
    /// When the counts of a destination last changed.
    used_ns: HashMap<(CgroupId, SocketAddr), u64>,
    /// Groups that get no more destinations.
    bounds: Bounds,
    released: Released<CgroupId>,
    /// Sum over groups that are no longer listed.
    retired: EventCounters,
    retired_connects: Histogram,
}

impl EventCounts {
    pub(super) fn new(grace: Duration) -> Self {
        Self {
            processes: Ledger::new(),
            tcp: Ledger::new(),
            sockets: HashMap::new(),
            files: Ledger::new(),
            connects: Ledger::new(),
            destinations: Ledger::new(),
            used_ns: HashMap::new(),
            bounds: Bounds::default(),
            released: Released::new(grace),
            retired: EventCounters::default(),
            retired_connects: Histogram::default(),
        }
    }

    /// Reads the tables and adds the counts to the batch. `released` lists groups that were removed
    /// permanently.
    pub(super) fn add_to(
        &mut self,
        batch: &mut Batch,
        kernel: &Events,
        files: Option<&FileEvents>,
        released: &[CgroupId],
    ) -> Result<(), Error> {
        for id in released {
            self.released.note(*id, batch.taken_ns);
        }
        let mut listed = HashSet::new();
        for (id, counts) in kernel.processes()? {
            listed.extend(id);
            self.processes.row(id.unwrap_or(NOBODY)).row = of_processes(&counts);
        }
        let rows = kernel.tcp()?;
        self.sockets = open(rows.iter().map(|(id, row)| (*id, kernel.open_sockets(row))));
        for (id, counts) in rows {
            listed.extend(id);
            // Segments without an owner and the overflow row both count as unowned.
            let row = self.tcp.row(id.unwrap_or(NOBODY));
            match id {
                Some(_) => row.row = of_tcp(&counts),
                None => row.settled = of_tcp(&counts),
            }
        }
        if let Some(files) = files {
            self.take_files(files)?;
        }
        for (id, ConnectTimes { buckets }) in kernel.connect_times()? {
            self.connects.row(id.unwrap_or(NOBODY)).row.follow(&buckets);
        }
        self.take_destinations(kernel, batch.taken_ns)?;
        batch.agent.bounded_groups = Some(self.bounds.count() as u64);
        self.settle(kernel, &listed);
        self.retire(batch.taken_ns);
        batch.measured.extend(measured(kernel, files));
        self.fill(batch);
        Ok(())
    }

    /// Reads the file counts. Deletes the rows of released groups, and adds the counts since they
    /// were read.
    fn take_files(&mut self, files: &FileEvents) -> Result<(), Error> {
        for (id, counts) in files.rows()? {
            let id = CgroupId(id);
            let row = self.files.row(id);
            row.row = of_files(&counts);
            if self.released.contains(&id) {
                if let Some(last) = files.take(id.0) {
                    row.row = of_files(&last);
                }
                row.settle();
            }
        }
        self.files.row(NOBODY).row = of_files(&files.overflow());
        Ok(())
    }

    fn take_destinations(&mut self, kernel: &Events, now_ns: u64) -> Result<(), Error> {
        let all = kernel.destinations()?;
        let capacity = u64::from(kernel.destinations_capacity());
        let full = all.len() as u64 * 4 > capacity * 3;
        let excess = match full {
            true => self.excess(&all, capacity),
            false => Excess::default(),
        };
        self.bound(kernel, &excess.groups, now_ns);
        for counts in &all {
            let (id, counters) = (counts.cgroup.unwrap_or(NOBODY), of_destination(counts));
            let key = (id, counts.destination);
            let row = self.destinations.row(key);
            let changed = row.row != counters;
            row.row = counters;
            let Some(address) = counts.destination else {
                if self.released.contains(&id) {
                    if let Some(last) = kernel.take_destination(counts) {
                        row.row = of_destination(&last);
                    }
                    row.settle();
                }
                continue;
            };
            let used = self.used_ns.entry((id, address)).or_insert(now_ns);
            if changed {
                *used = now_ns;
            }
            let unused = now_ns - *used > UNUSED_NS || excess.rows.contains(&(id, address));
            let released = self.released.contains(&id);
            if released || full && unused {
                if let Some(last) = kernel.take_destination(counts) {
                    row.row = of_destination(&last);
                }
                row.settle();
                self.used_ns.remove(&(id, address));
            }
            // Destinations of a removed group are kept during its grace period, like all its
            // figures.
            if !released && full && unused {
                let total = self.destinations.remove(&key);
                self.destinations.row((id, None)).settled += &total;
            }
        }
        Ok(())
    }

    /// Bounds `groups`, so that they get no further rows for destinations. They must be bounded
    /// before any of their rows is deleted. Otherwise, during a flood, a bounded group could take
    /// the free row before another group can.
    fn bound(&mut self, kernel: &Events, groups: &HashSet<CgroupId>, now_ns: u64) {
        for id in groups {
            kernel.bound_destinations(*id, true);
        }
        for id in self.bounds.renew(groups, now_ns) {
            kernel.bound_destinations(id, false);
        }
    }

    /// Returns the groups that get no more destinations from this batch.
    pub(super) fn newly_bounded(&self) -> &[CgroupId] {
        self.bounds.latest()
    }

    /// Returns the rows to drop and the groups to bound, because there was no room for other
    /// groups.
    fn excess(&self, all: &[DestinationCounts], capacity: u64) -> Excess {
        let mut shares = Shares::default();
        for counts in all {
            let id = counts.cgroup.unwrap_or(NOBODY);
            match counts.destination {
                Some(address) => {
                    let used = self.used_ns.get(&(id, address)).copied();
                    shares.holds(id, address, used.unwrap_or(u64::MAX));
                }
                None => {
                    let before = self.destinations.get(&(id, None)).map(|row| row.row);
                    if before.unwrap_or_default() != of_destination(counts) {
                        shares.wants(id);
                    }
                }
            }
        }
        shares.excess(capacity)
    }

    /// Deletes the rows of released groups from the tables of the kernel side.
    fn settle(&mut self, kernel: &Events, listed: &HashSet<CgroupId>) {
        for id in listed.iter().filter(|id| self.released.contains(id)) {
            let last = kernel.take_cgroup(*id);
            if let Some(counts) = last.processes {
                self.processes.row(*id).row = of_processes(&counts);
            }
            if let Some(counts) = last.tcp {
                self.tcp.row(*id).row = of_tcp(&counts);
            }
            if let Some(ConnectTimes { buckets }) = last.connect_times {
                self.connects.row(*id).row.follow(&buckets);
            }
            self.processes.settle(id);
            self.tcp.settle(id);
            self.connects.settle(id);
        }
    }

    fn retire(&mut self, now_ns: u64) {
        let released = &self.released;
        let over = |id: &CgroupId| released.is_over(id, now_ns);
        let retired = &mut self.retired;
        for table in [&mut self.processes, &mut self.tcp, &mut self.files] {
            table.retire(over, |_, total| *retired += &total);
        }
        let retired = &mut self.retired_connects;
        self.connects.retire(over, |_, total| *retired += &total);
        self.destinations.retire(|(id, _)| over(id), |_, _| ());
        self.released.forget(now_ns, FORGOTTEN_NS);
    }

    /// Returns the events of groups without a row on the kernel side.
    fn without_row(&self) -> EventCounters {
        let mut sum = EventCounters::default();
        for table in [&self.processes, &self.files] {
            sum += &table.get(&NOBODY).map(Row::total).unwrap_or_default();
        }
        // The row of this batch includes sockets without an owner.
        sum += &self
            .tcp
            .get(&NOBODY)
            .map(|row| row.settled)
            .unwrap_or_default();
        sum
    }

    fn fill(&self, batch: &mut Batch) {
        let mut groups: HashMap<CgroupId, EventCounters> = HashMap::new();
        let tables = [&self.processes, &self.tcp, &self.files];
        for (id, row) in tables.into_iter().flat_map(Ledger::iter) {
            *groups.entry(*id).or_default() += &row.total();
        }
        batch.node.events = self.retired;
        for counters in groups.values() {
            batch.node.events += counters;
        }
        for sockets in self.sockets.values() {
            batch.node.sockets += sockets;
        }
        let open = |id| self.sockets.get(&id).copied().unwrap_or_default();
        // Events without an owner are only included in the figures of the node.
        groups.insert(NOBODY, self.without_row());
        for row in &mut batch.cgroups {
            row.events = groups.remove(&row.id).unwrap_or_default();
            if row.id != NOBODY {
                row.sockets = open(row.id);
            }
        }
        let alone = groups.into_iter();
        let alone = alone.filter(|(id, events)| *id != NOBODY || !events.is_zero());
        batch.cgroups.extend(alone.map(|(id, events)| CgroupRow {
            id,
            events,
            sockets: if id == NOBODY {
                Sockets::default()
            } else {
                open(id)
            },
            ..CgroupRow::default()
        }));
        batch.all_connects = self.retired_connects.clone();
        for (id, row) in self.connects.iter() {
            let histogram = row.total();
            batch.all_connects += &histogram;
            let group = Group::Cgroup(*id);
            batch.connects.push(WaitRow { group, histogram });
        }
        let rows = self.destinations.iter();
        let rows = rows.filter(|((id, _), _)| *id != NOBODY);
        batch
            .destinations
            .extend(rows.map(|((cgroup, destination), row)| DestinationRow {
                cgroup: *cgroup,
                destination: *destination,
                counters: row.total(),
            }));
    }
}

/// Returns the open sockets by group. Adds up the row of sockets without an owner and the overflow
/// row.
fn open(rows: impl Iterator<Item = (Option<CgroupId>, Sockets)>) -> HashMap<CgroupId, Sockets> {
    let mut groups: HashMap<_, Sockets> = HashMap::new();
    for (id, sockets) in rows {
        *groups.entry(id.unwrap_or(NOBODY)).or_default() += &sockets;
    }
    groups
}

/// Returns the counters that are measured. A counter that was not requested or has no hook is left
/// out rather than 0.
fn measured(kernel: &Events, files: Option<&FileEvents>) -> Vec<EventCounter> {
    let on = |id: FeatureId| {
        let mut features = kernel.features().iter();
        features.any(|f| f.id == id && f.state != FeatureState::Off)
    };
    let has = |counter: &EventCounter| match counter {
        EventCounter::OomKills | EventCounter::ProcessExits(ExitKind::OomKilled) => {
            on(FeatureId::OomEvents)
        }
        EventCounter::TcpRetransmits => on(FeatureId::TcpRetransmits),
        EventCounter::FileOpens(FileMode::Read) => files.is_some_and(FileEvents::counts_reads),
        EventCounter::FileOpenFailures => files.is_some_and(FileEvents::counts_failures),
        counter => match counter.family() {
            EventFamily::Processes => true,
            EventFamily::Tcp => kernel.counts_tcp(),
            EventFamily::Files => files.is_some(),
        },
    };
    EventCounter::all().filter(has).collect()
}

fn of_processes(counts: &ProcessCounts) -> EventCounters {
    use EventCounter::{OomKills, ProcessExits, ProcessStarts};
    let mut counters = EventCounters::default();
    counters[ProcessStarts] = counts.starts;
    counters[ProcessExits(ExitKind::Completed)] = counts.completed;
    counters[ProcessExits(ExitKind::Failed)] = counts.failed;
    counters[ProcessExits(ExitKind::Killed)] = counts.killed;
    counters[ProcessExits(ExitKind::OomKilled)] = counts.oom;
    counters[OomKills] = counts.oom + counts.oom_late;
    counters
}

fn of_tcp(counts: &TcpCounts) -> EventCounters {
    let mut counters = EventCounters::default();
    counters[EventCounter::TcpConnects] = counts.connects;
    for (reason, count) in ConnectError::ALL.into_iter().zip(counts.failures) {
        counters[EventCounter::TcpConnectFailures(reason)] = count;
    }
    counters[EventCounter::TcpConnectNs] = counts.connect_ns;
    counters[EventCounter::TcpAccepts] = counts.accepts;
    counters[EventCounter::TcpRetransmits] = counts.retransmits;
    counters[EventCounter::TcpBytesSent] = counts.sent;
    counters[EventCounter::TcpBytesReceived] = counts.received;
    counters
}

fn of_files(counts: &FileCounts) -> EventCounters {
    let mut counters = EventCounters::default();
    counters[EventCounter::FileOpens(FileMode::Read)] = counts.reads;
    counters[EventCounter::FileOpens(FileMode::Write)] = counts.writes;
    counters[EventCounter::FileOpenFailures] = counts.failures;
    counters
}

fn of_destination(counts: &DestinationCounts) -> DestinationCounters {
    let counts = &counts.counts;
    let mut counters = DestinationCounters::default();
    counters[DestinationCounter::Connects] = counts.connects;
    counters[DestinationCounter::Failures] = counts.failures;
    counters[DestinationCounter::ConnectNs] = counts.connect_ns;
    counters[DestinationCounter::Retransmits] = counts.retransmits;
    counters[DestinationCounter::BytesSent] = counts.sent;
    counters[DestinationCounter::BytesReceived] = counts.received;
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflowed_sockets_are_added_to_those_without_an_owner() {
        let sockets = |connections, listeners| Sockets {
            connections,
            listeners,
        };
        let rows = [
            (Some(NOBODY), sockets(2, 1)),
            (Some(CgroupId(7)), sockets(3, 0)),
            (None, sockets(0, 4)),
        ];
        let open = open(rows.into_iter());
        assert_eq!(open[&NOBODY], sockets(2, 5));
        assert_eq!(open[&CgroupId(7)], sockets(3, 0));
    }
}
