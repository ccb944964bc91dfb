//! The state of the tables at one batch, made from what was written.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use noctule_model::Batch;

use crate::changes::Entry;
use crate::error::Damage;
use crate::index::Flush;
use crate::segment::Segment;
use crate::tables::{
    DestinationRecord, Distribution, FeatureRecord, GroupRecord, Keyed, LossRecord, MapRecord,
    NodeRecord, OwnerRecord, Owners, PackageRecord, PairRecord, ProcessRecord, ProgramRecord,
    WaitRecord, ZoneRecord,
};

/// A table whose rows stay until they change.
#[derive(Debug)]
struct Rows<R: Keyed> {
    now: BTreeMap<R::Key, R>,
    /// What changes in later batches, in their order.
    later: VecDeque<Entry<R>>,
}

impl<R: Keyed> Default for Rows<R> {
    fn default() -> Self {
        Self {
            now: BTreeMap::new(),
            later: VecDeque::new(),
        }
    }
}

impl<R: Keyed> Rows<R> {
    fn load(&mut self, mut entries: Vec<Entry<R>>) {
        entries.sort_by_key(|entry| entry.tick);
        self.later = entries.into();
    }

    fn advance(&mut self, tick: u64) {
        while let Some(entry) = pop_up_to(&mut self.later, tick) {
            match entry.removed {
                true => drop(self.now.remove(&entry.row.key())),
                false => drop(self.now.insert(entry.row.key(), entry.row)),
            }
        }
    }

    fn values(&self) -> impl Iterator<Item = &R> + Clone {
        self.now.values()
    }
}

fn pop_up_to<R>(entries: &mut VecDeque<Entry<R>>, tick: u64) -> Option<Entry<R>> {
    entries.front().filter(|entry| entry.tick <= tick)?;
    entries.pop_front()
}

/// All tables, within one segment.
#[derive(Debug, Default)]
pub(crate) struct State {
    owners: Owners,
    node: VecDeque<Entry<NodeRecord>>,
    exited: VecDeque<Entry<ProcessRecord>>,
    packages: Rows<PackageRecord>,
    processes: Rows<ProcessRecord>,
    groups: Rows<GroupRecord>,
    waits: Rows<WaitRecord>,
    pairs: Rows<PairRecord>,
    destinations: Rows<DestinationRecord>,
    zones: Rows<ZoneRecord>,
    features: Rows<FeatureRecord>,
    losses: Rows<LossRecord>,
    programs: Rows<ProgramRecord>,
    maps: Rows<MapRecord>,
}

impl State {
    /// Takes what was written at one time. All of it is read before any of it is used.
    pub(crate) fn load(&mut self, segment: &Segment, flush: &Flush) -> Result<(), Damage> {
        let owners = segment.read::<OwnerRecord>(flush, "owners")?;
        let node = segment.read(flush, "node")?;
        let exited = segment.read(flush, "exited")?;
        let packages = segment.read(flush, "packages")?;
        let processes = segment.read(flush, "processes")?;
        let groups = segment.read(flush, "groups")?;
        let waits = segment.read(flush, "waits")?;
        let pairs = segment.read(flush, "pairs")?;
        let destinations = segment.read(flush, "destinations")?;
        let zones = segment.read(flush, "zones")?;
        let features = segment.read(flush, "features")?;
        let losses = segment.read(flush, "losses")?;
        let programs = segment.read(flush, "programs")?;
        let maps = segment.read(flush, "maps")?;
        owners
            .into_iter()
            .for_each(|entry| self.owners.learn(entry.row));
        self.node = node.into();
        self.exited = exited.into();
        self.packages.load(packages);
        self.processes.load(processes);
        self.groups.load(groups);
        self.waits.load(waits);
        self.pairs.load(pairs);
        self.destinations.load(destinations);
        self.zones.load(zones);
        self.features.load(features);
        self.losses.load(losses);
        self.programs.load(programs);
        self.maps.load(maps);
        Ok(())
    }

    /// Wall-clock time of the next batch, nanoseconds since 1970.
    pub(crate) fn next_unix_ns(&self) -> Option<u64> {
        self.node.front().map(|entry| entry.row.time.0)
    }

    /// The same of the one behind it, if it is loaded.
    pub(crate) fn second_unix_ns(&self) -> Option<u64> {
        self.node.get(1).map(|entry| entry.row.time.0)
    }

    /// The next batch.
    pub(crate) fn next(&mut self) -> Option<Batch> {
        let (tick, node, exited) = self.step()?;
        Some(self.batch(&node, tick, &exited))
    }

    /// Goes past the next batch without making it.
    pub(crate) fn skip(&mut self) {
        self.step();
    }

    fn step(&mut self) -> Option<(u64, NodeRecord, Vec<ProcessRecord>)> {
        let Entry { tick, row, .. } = self.node.pop_front()?;
        let mut exited = Vec::new();
        while let Some(entry) = pop_up_to(&mut self.exited, tick) {
            exited.push(entry.row);
        }
        self.packages.advance(tick);
        self.processes.advance(tick);
        self.groups.advance(tick);
        self.waits.advance(tick);
        self.pairs.advance(tick);
        self.destinations.advance(tick);
        self.zones.advance(tick);
        self.features.advance(tick);
        self.losses.advance(tick);
        self.programs.advance(tick);
        self.maps.advance(tick);
        Some((tick, row, exited))
    }

    fn batch(&self, node: &NodeRecord, tick: u64, exited: &[ProcessRecord]) -> Batch {
        let owners = &self.owners;
        let (waits, all_waits) =
            WaitRecord::distributions(Distribution::Waits, self.waits.values());
        let (connects, all_connects) =
            WaitRecord::distributions(Distribution::Connects, self.waits.values());
        let (energy, zone_accounts) = ZoneRecord::energy(self.zones.values());
        let mut batch = node.batch(tick);
        if let Some(programs) = &mut batch.agent.programs {
            programs.extend(self.programs.values().map(ProgramRecord::cost));
        }
        batch.agent.maps = self.maps.values().map(MapRecord::fill).collect();
        let features: Vec<_> = self
            .features
            .values()
            .filter_map(FeatureRecord::feature)
            .collect();
        Batch {
            packages: self.packages.values().map(PackageRecord::row).collect(),
            processes: self.processes.values().map(|row| row.row(owners)).collect(),
            exited: exited.iter().map(|row| row.row(owners)).collect(),
            cgroups: self.groups.values().map(|row| row.row(owners)).collect(),
            waits,
            all_waits,
            connects,
            all_connects,
            destinations: self
                .destinations
                .values()
                .map(DestinationRecord::row)
                .collect(),
            blames: self.pairs.values().map(PairRecord::row).collect(),
            energy: node.metered.then_some(energy),
            zone_accounts,
            features: Arc::from(features),
            losses: self.losses.values().map(LossRecord::loss).collect(),
            ..batch
        }
    }
}
