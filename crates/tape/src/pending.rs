//! Builds the rows of all tables from batches and events.

use std::collections::BTreeSet;

use noctule_model::{Batch, Event, ProcessRow};

use crate::changes::{Changes, Log, Pending};
use crate::tables::kept::{RecordOf as _, Writing};
use crate::tables::{
    CpuRecord, DestinationRecord, Distribution, EventRecord, FeatureRecord, GroupRecord,
    LossRecord, MapRecord, MemoryRecord, NodeRecord, OwnerRecord, Owners, PackageRecord,
    PairRecord, ProcessRecord, ProgramRecord, QuotaRecord, WaitRecord, ZoneRecord,
};

/// The unwritten rows of all tables.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    node: Log<NodeRecord>,
    owners: Log<OwnerRecord>,
    packages: Changes<PackageRecord>,
    cpus: Changes<CpuRecord>,
    processes: Changes<ProcessRecord>,
    exited: Log<ProcessRecord>,
    groups: Changes<GroupRecord>,
    quotas: Changes<QuotaRecord>,
    memory: Changes<MemoryRecord>,
    waits: Changes<WaitRecord>,
    pairs: Changes<PairRecord>,
    destinations: Changes<DestinationRecord>,
    zones: Changes<ZoneRecord>,
    features: Changes<FeatureRecord>,
    losses: Changes<LossRecord>,
    programs: Changes<ProgramRecord>,
    maps: Changes<MapRecord>,
    events: Log<EventRecord>,
}

impl Tables {
    /// Returns the tables of a recording. Tables with many rows write counts as differences.
    /// Complete counts have more low bytes, which do not compress, and would make a recording a
    /// quarter larger.
    pub(crate) fn of_differences() -> Self {
        let mut tables = Self::default();
        tables.processes.write_differences();
        tables.groups.write_differences();
        tables.quotas.write_differences();
        tables.memory.write_differences();
        tables.waits.write_differences();
        tables.pairs.write_differences();
        tables.destinations.write_differences();
        tables
    }

    /// Returns each table with its name.
    pub(crate) fn each(&mut self) -> [(&'static str, &mut dyn Pending); 18] {
        [
            ("node", &mut self.node),
            ("owners", &mut self.owners),
            ("packages", &mut self.packages),
            ("cpus", &mut self.cpus),
            ("processes", &mut self.processes),
            ("exited", &mut self.exited),
            ("groups", &mut self.groups),
            ("quotas", &mut self.quotas),
            ("memory", &mut self.memory),
            ("waits", &mut self.waits),
            ("pairs", &mut self.pairs),
            ("destinations", &mut self.destinations),
            ("zones", &mut self.zones),
            ("features", &mut self.features),
            ("losses", &mut self.losses),
            ("programs", &mut self.programs),
            ("maps", &mut self.maps),
            ("events", &mut self.events),
        ]
    }

    /// Returns the number of unwritten rows.
    pub(crate) fn rows(&mut self) -> usize {
        self.each().iter().map(|(_, table)| table.rows()).sum()
    }

    /// Writes every row of the next batch.
    pub(crate) fn rewrite(&mut self) {
        self.each()
            .iter_mut()
            .for_each(|(_, table)| table.rewrite());
    }

    /// Records the rows that changed in a batch. Returns whether the batch contains every row of
    /// the previous batch, apart from processes that it reports as exited.
    pub(crate) fn step(&mut self, batch: &Batch, owners: &mut Owners) -> bool {
        let Batch {
            sequence,
            time_unix_ns: _,
            taken_ns: _,
            boot_unix_ns: _,
            node: _,
            packages,
            cpus,
            measured,
            processes,
            exited,
            followed_pending: _,
            cgroups,
            waits,
            all_waits,
            connects,
            all_connects,
            destinations,
            blames,
            // Recordings do not contain these fields.
            releases: _,
            disks: _,
            quotas,
            memory,
            // Readers rebuild the subjects from the cgroups.
            subjects: _,
            energy,
            zone_accounts,
            features,
            losses,
            agent,
        } = batch;
        let tick = *sequence;
        let to = &mut Writing {
            owners,
            measured: *measured,
            metered: energy.is_some(),
        };
        self.node.push(tick, [NodeRecord::new(batch, to)]);
        let rows = packages.iter().enumerate();
        let rows = rows.map(|(place, row)| PackageRecord::new(place, row, to));
        self.packages.step(tick, rows);
        let rows = cpus.iter().map(|row| CpuRecord::new(row, to));
        self.cpus.step(tick, rows);
        let mut kept = self.step_processes(tick, (processes, exited), to);
        let rows = cgroups.iter().map(|row| GroupRecord::new(row, to));
        kept &= self.groups.step(tick, rows).is_empty();
        let rows = quotas.iter().map(|row| QuotaRecord::new(row, to));
        kept &= self.quotas.step(tick, rows).is_empty();
        let rows = memory.iter().map(|row| MemoryRecord::new(row, to));
        self.memory.step(tick, rows);
        let mut rows = WaitRecord::of_groups(Distribution::Waits, waits, all_waits, to);
        rows.extend(WaitRecord::of_groups(
            Distribution::Connects,
            connects,
            all_connects,
            to,
        ));
        kept &= self.waits.step(tick, rows.into_iter()).is_empty();
        let rows = blames.iter().map(|row| PairRecord::new(row, to));
        kept &= self.pairs.step(tick, rows).is_empty();
        let rows = destinations.iter();
        let rows = rows.map(|row| DestinationRecord::new(row, to));
        self.destinations.step(tick, rows);
        let zones = energy.iter();
        let zones = zones.flat_map(|energy| ZoneRecord::all(energy, zone_accounts, to));
        self.zones.step(tick, zones);
        let rows = features.iter().enumerate();
        let rows = rows.map(|(place, feature)| FeatureRecord::new(place, feature));
        self.features.step(tick, rows);
        let rows = losses.iter().enumerate();
        let rows = rows.map(|(place, loss)| LossRecord::new(place, loss, to));
        self.losses.step(tick, rows);
        let rows = agent.programs.iter().flatten().enumerate();
        let rows = rows.map(|(place, cost)| ProgramRecord::new(place, cost, to));
        self.programs.step(tick, rows);
        let rows = agent.maps.iter().enumerate();
        let rows = rows.map(|(place, fill)| MapRecord::new(place, fill, to));
        self.maps.step(tick, rows);
        self.owners.push(tick, owners.take());
        kept
    }

    /// Records the processes of a batch. Returns whether the batch contains, or reports as exited,
    /// every process of the previous batch.
    fn step_processes(
        &mut self,
        tick: u64,
        (processes, exited): (&[ProcessRow], &[ProcessRow]),
        to: &mut Writing<'_>,
    ) -> bool {
        let rows = processes.iter().map(|row| ProcessRecord::new(row, to));
        let gone = self.processes.step(tick, rows);
        let rows = exited.iter().map(|row| ProcessRecord::new(row, to));
        self.exited.push(tick, rows);
        let reported = exited.iter().map(|it| (it.id.pid, it.id.start_ns));
        let reported: BTreeSet<_> = reported.collect();
        gone.iter().all(|key| reported.contains(key))
    }

    /// Adds events that follow the batch `tick`.
    pub(crate) fn events(&mut self, tick: u64, events: &[Event], owners: &mut Owners) {
        let records = events.iter().map(|event| EventRecord::new(event, owners));
        self.events.push(tick, records);
        self.owners.push(tick, owners.take());
    }

    /// Returns the name of each unwritten event.
    pub(crate) fn pending_events(&self) -> impl Iterator<Item = &'static str> {
        self.events.pending().map(EventRecord::name)
    }

    /// Returns the number of unwritten process exits.
    pub(crate) fn pending_ends(&self) -> u64 {
        self.exited.pending().count() as u64
    }

    /// Drops the last states of all rows, so that the next batch is written in full.
    pub(crate) fn restart(&mut self) {
        self.each()
            .iter_mut()
            .for_each(|(_, table)| table.restart());
    }
}
