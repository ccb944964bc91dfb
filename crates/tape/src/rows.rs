//! The state of all tables at one batch, reconstructed from the recording.

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use noctule_model::Batch;

use crate::changes::Entry;
use crate::error::Damage;
use crate::parts::Parts;
use crate::tables::kept::RecordOf;
use crate::tables::{
    CpuRecord, DestinationRecord, Distribution, FeatureRecord, GroupRecord, Keyed, LossRecord,
    MapRecord, MemoryRecord, NodeRecord, OwnerRecord, Owners, PackageRecord, PairRecord,
    ProcessRecord, ProgramRecord, QuotaRecord, WaitRecord, ZoneRecord,
};

/// A table that was written as changes.
#[derive(Debug)]
struct Rows<R: Keyed> {
    now: BTreeMap<R::Key, R>,
    /// Changes in later batches, in order.
    later: VecDeque<Entry<R>>,
    /// The changes of a flush that is being read.
    read: Vec<Entry<R>>,
}

impl<R: Keyed> Default for Rows<R> {
    fn default() -> Self {
        Self {
            now: BTreeMap::new(),
            later: VecDeque::new(),
            read: Vec::new(),
        }
    }
}

/// A table of any record.
trait Changing {
    /// Reads the changes of a flush, which [`Self::load`] then uses.
    fn read(&mut self, parts: &Parts<'_>, name: &str, last: bool) -> Result<(), Damage>;
    /// Replaces the later changes.
    fn load(&mut self);
    /// Applies the changes up to a batch.
    fn advance(&mut self, tick: u64);
}

impl<R: Keyed> Changing for Rows<R> {
    fn read(&mut self, parts: &Parts<'_>, name: &str, last: bool) -> Result<(), Damage> {
        self.read = parts.rows(name, last)?;
        Ok(())
    }

    fn load(&mut self) {
        self.read.sort_by_key(|entry| entry.tick);
        self.later = std::mem::take(&mut self.read).into();
    }

    fn advance(&mut self, tick: u64) {
        while let Some(entry) = pop_up_to(&mut self.later, tick) {
            // Rows are changed in place, because they are large and removing one moves its
            // neighbours.
            match self.now.entry(entry.row.key()) {
                Slot::Occupied(known) if entry.removed => drop(known.remove()),
                Slot::Occupied(mut known) => {
                    let row = entry.row_after(Some(known.get()));
                    known.insert(row);
                }
                Slot::Vacant(_) if entry.removed => {}
                Slot::Vacant(free) => {
                    free.insert(entry.row_after(None));
                }
            }
        }
    }
}

impl<R: Keyed> Rows<R> {
    fn values(&self) -> impl Iterator<Item = &R> + Clone {
        self.now.values()
    }

    fn rows(&self, owners: &Owners) -> Vec<R::Row>
    where
        R: RecordOf,
    {
        self.values().map(|record| record.row(owners)).collect()
    }
}

fn pop_up_to<R>(entries: &mut VecDeque<Entry<R>>, tick: u64) -> Option<Entry<R>> {
    entries.front().filter(|entry| entry.tick <= tick)?;
    entries.pop_front()
}

/// The state of all tables, within one segment.
#[derive(Debug, Default)]
pub(crate) struct State {
    owners: Owners,
    node: VecDeque<Entry<NodeRecord>>,
    exited: VecDeque<Entry<ProcessRecord>>,
    /// The loaded batches that lack rows of the previous batch.
    ends: BTreeSet<u64>,
    /// The current batch, and the processes that exited since the last batch that was returned.
    at: Option<Entry<NodeRecord>>,
    ended: Vec<ProcessRecord>,
    packages: Rows<PackageRecord>,
    cpus: Rows<CpuRecord>,
    processes: Rows<ProcessRecord>,
    groups: Rows<GroupRecord>,
    quotas: Rows<QuotaRecord>,
    memory: Rows<MemoryRecord>,
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
    /// Loads a flush. All data is read before the state changes.
    pub(crate) fn load(&mut self, parts: &Parts<'_>) -> Result<(), Damage> {
        let ends = self.ends(parts)?;
        self.take(parts, false)?;
        self.ends = ends;
        Ok(())
    }

    /// Returns the numbers of the batches that lack rows of the previous batch.
    pub(crate) fn ends(&self, parts: &Parts<'_>) -> Result<BTreeSet<u64>, Damage> {
        let mut ends = parts.removals()?;
        let mut groups = parts.all::<GroupRecord>("groups")?;
        groups.sort_by_key(|entry| entry.tick);
        let mut before: BTreeMap<u64, GroupRecord> = BTreeMap::new();
        for entry in groups {
            let (tick, removed, key) = (entry.tick, entry.removed, entry.row.key());
            let earlier = before.remove(&key);
            let earlier = earlier.as_ref().or(self.groups.now.get(&key));
            let row = entry.row_after(earlier);
            if removed || earlier.is_some_and(|earlier| earlier.ends_in(&row)) {
                ends.insert(tick);
            }
            before.insert(key, row);
        }
        Ok(ends)
    }

    /// Loads a flush and goes directly to its last batch. Skips earlier states of rows.
    pub(crate) fn pass_all(&mut self, parts: &Parts<'_>) -> Result<(), Damage> {
        self.take(parts, true)?;
        self.go_to_last();
        Ok(())
    }

    /// Starts over at the last batch of a flush that contains all rows. `ended` lists the processes
    /// that exited in the skipped flushes.
    pub(crate) fn begin_at(
        &mut self,
        parts: &Parts<'_>,
        ended: Vec<ProcessRecord>,
    ) -> Result<(), Damage> {
        let mut begun = Self::default();
        begun.take(parts, true)?;
        begun.owners.add(&mut self.owners);
        begun.ended = std::mem::take(&mut self.ended);
        begun.ended.extend(ended);
        begun.go_to_last();
        *self = begun;
        Ok(())
    }

    fn go_to_last(&mut self) {
        if let Some(last) = self.node.pop_back() {
            self.node.clear();
            self.advance(last);
        }
    }

    /// Adds owners.
    pub(crate) fn learn(&mut self, owners: Vec<Entry<OwnerRecord>>) {
        owners
            .into_iter()
            .for_each(|entry| self.owners.learn(entry.row));
    }

    fn take(&mut self, parts: &Parts<'_>, last: bool) -> Result<(), Damage> {
        let owners = parts.all::<OwnerRecord>("owners")?;
        let node = parts.all("node")?;
        let exited = parts.all("exited")?;
        for (name, table) in self.each() {
            table.read(parts, name, last)?;
        }
        self.learn(owners);
        self.node = node.into();
        self.exited = exited.into();
        for (_, table) in self.each() {
            table.load();
        }
        Ok(())
    }

    /// Returns each table that was written as changes, with its name.
    fn each(&mut self) -> [(&'static str, &mut dyn Changing); 14] {
        [
            ("packages", &mut self.packages),
            ("cpus", &mut self.cpus),
            ("processes", &mut self.processes),
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
        ]
    }

    /// Wall-clock time of the next batch, nanoseconds since 1970.
    pub(crate) fn next_unix_ns(&self) -> Option<u64> {
        self.node.front().map(|entry| entry.row.time.0)
    }

    /// Number of the next batch.
    pub(crate) fn next_tick(&self) -> Option<u64> {
        self.node.front().map(|entry| entry.tick)
    }

    /// Number and time of the batch after the next one, if it is loaded.
    pub(crate) fn second(&self) -> Option<(u64, u64)> {
        let second = self.node.get(1);
        second.map(|entry| (entry.tick, entry.row.time.0))
    }

    /// Returns whether there is a current batch. There is none at the start of a segment.
    pub(crate) fn has_batch(&self) -> bool {
        self.at.is_some()
    }

    /// Returns whether the next batch contains every row of the current batch.
    pub(crate) fn next_keeps_rows(&self) -> bool {
        let next = self.next_tick();
        self.at.is_some() && next.is_some_and(|tick| !self.ends.contains(&tick))
    }

    /// Advances to the next batch and returns it.
    pub(crate) fn next(&mut self) -> Option<Batch> {
        self.forget_ended();
        self.pass();
        self.current()
    }

    /// Advances to the next batch without building it.
    pub(crate) fn pass(&mut self) {
        if let Some(node) = self.node.pop_front() {
            self.advance(node);
        }
    }

    /// Drops the processes that exited in skipped batches.
    pub(crate) fn forget_ended(&mut self) {
        self.ended.clear();
    }

    fn advance(&mut self, node: Entry<NodeRecord>) {
        let tick = node.tick;
        while let Some(entry) = pop_up_to(&mut self.exited, tick) {
            self.ended.push(entry.row);
        }
        for (_, table) in self.each() {
            table.advance(tick);
        }
        self.at = Some(node);
    }

    /// Returns the current batch, with the processes that exited since the last batch that was
    /// returned.
    pub(crate) fn current(&mut self) -> Option<Batch> {
        let exited = std::mem::take(&mut self.ended);
        let at = self.at.as_ref()?;
        Some(self.batch(&at.row, at.tick, &exited))
    }

    fn batch(&self, node: &NodeRecord, tick: u64, exited: &[ProcessRecord]) -> Batch {
        let owners = &self.owners;
        let waits = self.waits.values();
        let (waits, all_waits) = WaitRecord::distributions(Distribution::Waits, waits, owners);
        let connects = self.waits.values();
        let (connects, all_connects) =
            WaitRecord::distributions(Distribution::Connects, connects, owners);
        let (energy, zone_accounts) = ZoneRecord::energy(self.zones.values(), owners);
        let mut batch = node.batch(tick, owners);
        if let Some(programs) = &mut batch.agent.programs {
            programs.extend(self.programs.values().map(|it| it.row(owners)));
        }
        batch.agent.maps = self.maps.values().map(|it| it.row(owners)).collect();
        let features = self.features.values().filter_map(FeatureRecord::feature);
        let features: Vec<_> = features.collect();
        Batch {
            packages: self.packages.values().map(|it| it.row(owners)).collect(),
            cpus: self.cpus.rows(owners),
            processes: self.processes.rows(owners),
            exited: exited.iter().map(|it| it.row(owners)).collect(),
            cgroups: self.groups.rows(owners),
            waits,
            all_waits,
            connects,
            all_connects,
            destinations: self.destinations.rows(owners),
            quotas: QuotaRecord::rows(self.quotas.values(), owners),
            memory: MemoryRecord::rows(self.memory.values(), owners),
            blames: self.pairs.rows(owners),
            energy: node.metered.then_some(energy),
            zone_accounts,
            features: Arc::from(features),
            losses: self.losses.values().map(|it| it.row(owners)).collect(),
            ..batch
        }
    }
}
