//! Charges the energy of the node's meters to processes and cgroups.
//!
//! For each zone and tick, the energy between two batches is split into idle energy and active
//! energy. Active energy is divided among everything that ran, by the zone's driver. All figures
//! are whole microjoules and add up exactly to the meter's reading.

mod apportion;
mod clock;
mod fit;
mod idle;
mod power;
mod report;
#[cfg(test)]
mod tests;
mod work;
mod zone;

use std::hash::Hash;

use noctule_model::{
    Batch, ByPackage, CgroupId, Counter, Counters, Driver, Energy, IdMap, IdSet, Joules, Measured,
    PackageRow, PackageUse, ProcessId, Zone, ZoneKind,
};

pub use report::{EnergyReport, KindReport, ZoneReport, charged_kinds};
use work::Work;
use zone::{Ran, Scope, Tick, ZoneState};

/// How to charge the energy that a zone takes even when nothing runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdleEnergy {
    /// The node. The charge of a process then does not depend on what else runs.
    #[default]
    Node,
    /// Everything that runs, in proportion to its active energy.
    Proportional,
}

/// Knowledge about the idle power of zones from before the first batch.
#[derive(Clone, Debug, Default)]
pub struct IdleKnowledge {
    /// Watts per zone of a kind, as the operator configured them.
    pub given: Vec<(ZoneKind, f64)>,
    /// Idle power that was learned before a restart.
    pub learned: Vec<LearnedIdle>,
    /// Published ratio of idle power to full power for machines with this processor, if the
    /// operator chose to use it.
    pub published_share: Option<f64>,
}

/// Idle power of a zone that was nearly idle when it was learned.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedIdle {
    pub path: String,
    /// Idle power in watts.
    pub watts: f64,
    /// Half-width of the confidence interval of the idle power, in watts.
    pub half_width: f64,
    /// Seconds since the idle power was last observed.
    pub age_seconds: u64,
}

/// Charges the energy of each zone, one batch after another.
#[derive(Debug, Default)]
pub struct Attribution {
    idle: IdleEnergy,
    knowledge: IdleKnowledge,
    zones: Vec<ZoneState>,
    processes: IdMap<ProcessId, Standing>,
    cgroups: IdMap<CgroupId, Standing>,
    before: Option<Totals>,
    tick: Tick,
    sequence: u64,
}

/// The energy charged to a row, and the usage that it was charged for.
#[derive(Debug, Default)]
struct Standing {
    /// Usage by scope: the whole node first, then each package.
    used: Vec<PackageUse>,
    joules: Joules,
    seen: u64,
}

impl Attribution {
    /// Creates an attribution that has seen no batch.
    pub fn new(idle: IdleEnergy) -> Self {
        Self {
            idle,
            ..Self::default()
        }
    }

    /// Sets what is known about idle power.
    #[must_use]
    pub fn knowing(self, knowledge: IdleKnowledge) -> Self {
        Self { knowledge, ..self }
    }

    /// Returns the idle power of zones that were nearly idle at some time, including before a
    /// restart.
    pub fn observed_idle(&self, zones: &[Zone]) -> Vec<LearnedIdle> {
        let zones = zones.iter().zip(&self.zones);
        let learned = zones.filter_map(|(zone, state)| {
            let (watts, half_width) = state.observed_idle()?;
            Some(LearnedIdle {
                path: zone.path.clone(),
                watts,
                half_width,
                age_seconds: 0,
            })
        });
        learned.collect()
    }

    /// Returns an attribution with empty accounts and the models learned so far. The copy can
    /// divide the batches of a short window again, using what was known at the end of the window,
    /// and does not learn.
    #[must_use]
    pub fn learned(&self, zones: &Energy) -> Self {
        let mut new = Self::new(self.idle);
        for (zone, known) in zones.zones.iter().zip(&self.zones) {
            let driver = known.account.driver;
            let mut state = ZoneState::new(driver, 0, Some(zone), self.idle);
            state.learn_from(known);
            state.account.sockets_mixed = known.account.sockets_mixed;
            new.zones.push(state);
        }
        new
    }

    /// Fills the joules of the batch's processes and cgroups, and [`Batch::zone_accounts`].
    ///
    /// Each batch must be applied once, in order, because usage is the growth since the previous
    /// one. Without a meter, this does nothing.
    pub fn apply(&mut self, batch: &mut Batch) {
        let Some(energy) = batch.energy.take() else {
            return;
        };
        self.add_new_zones(&energy, batch);
        self.sequence += 1;
        self.work(batch);
        self.divide(&energy);
        self.charge(&energy);
        self.fill(batch);
        batch.zone_accounts = self.zones.iter().map(|zone| zone.account.clone()).collect();
        batch.energy = Some(energy);
    }

    /// Adds states for new zones.
    fn add_new_zones(&mut self, energy: &Energy, batch: &Batch) {
        for place in self.zones.len()..energy.zones.len() {
            let zone = &energy.zones[place];
            let driver = driver(place, &energy.zones, batch.measured);
            let scope = scope(zone, &batch.packages);
            let mut state = ZoneState::new(driver, scope, Some(zone), self.idle);
            state.know(&self.knowledge, zone);
            state.account.sockets_mixed = scope == 0 && is_one_of_several(zone, energy);
            self.zones.push(state);
        }
    }

    /// Computes the growth since the previous batch for all rows and scopes.
    fn work(&mut self, batch: &Batch) {
        let measured = batch.measured;
        let scopes = scopes(&batch.packages);
        let tick = &mut self.tick;
        tick.batch_ns = batch.taken_ns;
        tick.processes.clear(scopes);
        tick.cgroups.clear(scopes);
        let rows = batch.processes.iter().chain(&batch.exited);
        let rows = rows.map(|row| (row.id, &row.counters, &row.packages));
        let ran = &mut tick.processes;
        grow(&mut self.processes, rows, self.sequence, measured, ran);
        let rows = batch.cgroups.iter();
        let rows = rows.map(|row| (row.id, &row.counters, &row.packages));
        let ran = &mut tick.cgroups;
        grow(&mut self.cgroups, rows, self.sequence, measured, ran);
        for (processes, cgroups) in self.zones.iter().filter_map(ZoneState::owed) {
            let sequence = self.sequence;
            list(processes, &self.processes, sequence, &mut tick.processes);
            list(cgroups, &self.cgroups, sequence, &mut tick.cgroups);
        }
        let now = Totals::of(batch);
        let before = self.before.replace(now.clone()).unwrap_or(now.clone());
        tick.seconds = now.taken_ns.saturating_sub(before.taken_ns) as f64 / 1e9;
        now.since(&before, measured, tick);
    }

    fn divide(&mut self, energy: &Energy) {
        // Parts come before the zones that contain them.
        for place in 0..energy.zones.len() {
            let (reading, zone) = (&energy.readings[place], &mut self.zones[place]);
            match zone.account.driver {
                Driver::Parts => {}
                Driver::Nothing => zone.step_other(reading, &self.tick),
                Driver::Cycles | Driver::CpuTime | Driver::CacheMisses => {
                    zone.step(reading, &self.tick);
                }
            }
        }
        for place in 0..energy.zones.len() {
            if self.zones[place].account.driver != Driver::Parts {
                continue;
            }
            // Moved out of the list, because the list stays borrowed for the shares of the zone's
            // parts.
            let nothing = ZoneState::new(Driver::Nothing, 0, None, self.idle);
            let mut zone = std::mem::replace(&mut self.zones[place], nothing);
            let parts = parts(place, &energy.zones).map(|part| &self.zones[part].shares);
            let parts: Vec<_> = parts.collect();
            zone.step_parts(&energy.readings[place], &self.tick, &parts);
            self.zones[place] = zone;
        }
    }

    /// Adds the shares of the tick to the rows, by kind of zone.
    fn charge(&mut self, energy: &Energy) {
        for (place, zone) in energy.zones.iter().enumerate() {
            if !counts_in_rows(place, &energy.zones) {
                continue;
            }
            let shares = &self.zones[place].shares;
            let work = &self.tick;
            add(
                &mut self.processes,
                &work.processes.ids,
                &shares.processes,
                zone.kind,
            );
            add(
                &mut self.cgroups,
                &work.cgroups.ids,
                &shares.cgroups,
                zone.kind,
            );
        }
    }

    /// Writes the charged energy into the batch, and drops the totals of rows that the batch no
    /// longer lists.
    fn fill(&mut self, batch: &mut Batch) {
        for row in batch.processes.iter_mut().chain(&mut batch.exited) {
            row.joules = self.processes.get(&row.id).map_or(row.joules, |s| s.joules);
        }
        for row in &mut batch.cgroups {
            row.joules = self.cgroups.get(&row.id).map_or(row.joules, |s| s.joules);
        }
        let sequence = self.sequence;
        self.processes
            .retain(|_, standing| standing.seen == sequence);
        self.cgroups.retain(|_, standing| standing.seen == sequence);
    }
}

/// Collects the growth of all rows that did something.
fn grow<'a, K: Copy + Eq + Hash>(
    standings: &mut IdMap<K, Standing>,
    rows: impl Iterator<Item = (K, &'a Counters, &'a ByPackage)>,
    sequence: u64,
    measured: Measured,
    ran: &mut Ran<K>,
) {
    let packages = ran.works.len() - 1;
    for (id, counters, by_package) in rows {
        let standing = standings.entry(id).or_default();
        standing.seen = sequence;
        // The source dropped the row, which counts from 0 again.
        if counters.is_zero() {
            standing.used.clear();
        }
        standing.used.resize(1 + packages, PackageUse::default());
        let now = |scope: usize| match scope {
            0 => counters.into(),
            scope => by_package.of(scope - 1, counters),
        };
        let used = standing.used.iter_mut().enumerate();
        // The final figures of a process may be listed together with older figures of its zombie.
        // Values never decrease.
        let grown = used.map(|(scope, used)| {
            let growth = now(scope).since(used);
            *used += &growth;
            Work::new(&growth, measured)
        });
        let mut grown = grown.peekable();
        let nothing = grown.peek().is_none_or(Work::is_nothing);
        if nothing {
            grown.for_each(drop);
        } else {
            ran.push(id, grown);
        }
    }
}

/// Lists the rows that did nothing in the tick but are owed energy from earlier ticks, if they
/// still exist.
fn list<K: Copy + Eq + Hash>(
    owed: impl Iterator<Item = K>,
    standings: &IdMap<K, Standing>,
    sequence: u64,
    ran: &mut Ran<K>,
) {
    let known: IdSet<K> = ran.ids.iter().copied().collect();
    let there = |id: &K| standings.get(id).is_some_and(|s| s.seen == sequence);
    for id in owed.filter(|id| !known.contains(id) && there(id)) {
        ran.push(id, []);
    }
}

fn add<K: Eq + Hash>(
    standings: &mut IdMap<K, Standing>,
    ids: &[K],
    shares: &[u64],
    kind: ZoneKind,
) {
    for (id, share) in ids.iter().zip(shares) {
        if let Some(standing) = standings.get_mut(id) {
            standing.joules[kind] += share;
        }
    }
}

/// Totals of each scope at one time.
#[derive(Clone, Debug, Default)]
struct Totals {
    taken_ns: u64,
    interrupt_ns: Option<u64>,
    scopes: Vec<Total>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Total {
    elapsed_ns: u64,
    idle_ns: u64,
    used: PackageUse,
}

impl Totals {
    fn of(batch: &Batch) -> Self {
        let node = Total {
            elapsed_ns: batch.node.elapsed_ns,
            idle_ns: batch.node.idle_ns,
            used: (&batch.node.total).into(),
        };
        let packages = batch.packages.iter().map(|package| Total {
            elapsed_ns: package.elapsed_ns,
            idle_ns: package.idle_ns,
            used: package.used,
        });
        let packages = packages.take(scopes(&batch.packages) - 1);
        Self {
            taken_ns: batch.taken_ns,
            interrupt_ns: batch.node.interrupt_ns,
            scopes: std::iter::once(node).chain(packages).collect(),
        }
    }

    /// Writes the growth into the scopes of the tick.
    fn since(&self, before: &Self, measured: Measured, tick: &mut Tick) {
        let interrupt_ns = self.interrupt_ns.zip(before.interrupt_ns);
        let interrupt_ns = interrupt_ns.map_or(0, |(now, before)| now.saturating_sub(before));
        tick.scopes.clear();
        let mut node = Work::default();
        for (place, now) in self.scopes.iter().enumerate() {
            let before = before.scopes.get(place).copied().unwrap_or(*now);
            let elapsed = now.elapsed_ns.saturating_sub(before.elapsed_ns);
            let idle = now.idle_ns.saturating_sub(before.idle_ns);
            let work = Work::new(&now.used.since(&before.used), measured);
            if place == 0 {
                node = work;
            }
            // Interrupt time is only known for the node, and is divided among packages in
            // proportion to their work.
            let share = match node.seconds {
                0.0 => 0.0,
                all => work.seconds / all,
            };
            let sum = |works: &[Work]| {
                let mut sum = Work::default();
                works.iter().for_each(|work| sum += work);
                sum
            };
            tick.scopes.push(Scope {
                load: 1.0 - (idle as f64 / elapsed.max(1) as f64).min(1.0),
                lost_processes: work.without(&sum(&tick.processes.works[place])),
                lost_cgroups: work.without(&sum(&tick.cgroups.works[place])),
                interrupts: work.scaled_to(interrupt_ns as f64 / 1e9 * share),
            });
        }
    }
}

/// Returns the number of scopes: the node, and each package if there are several.
fn scopes(packages: &[PackageRow]) -> usize {
    match packages.len() {
        0 | 1 => 1,
        several => 1 + several,
    }
}

/// Returns the scope whose work drives the zone: its package if known, otherwise the node.
fn scope(zone: &Zone, packages: &[PackageRow]) -> usize {
    let of_socket = |package: &PackageRow| u32::try_from(package.id).ok() == zone.socket;
    match packages {
        [] | [_] => 0,
        several => several.iter().position(of_socket).map_or(0, |at| at + 1),
    }
}

/// Returns the quantity in proportion to which the zone's energy is divided.
fn driver(place: usize, zones: &[Zone], measured: Measured) -> Driver {
    let work = if measured.has(Counter::Cycles) {
        Driver::Cycles
    } else {
        Driver::CpuTime
    };
    match zones[place].kind {
        ZoneKind::Package | ZoneKind::Core => work,
        ZoneKind::Dram if measured.has(Counter::CacheMisses) => Driver::CacheMisses,
        ZoneKind::Dram => Driver::CpuTime,
        ZoneKind::Psys | ZoneKind::Platform if parts(place, zones).next().is_some() => {
            Driver::Parts
        }
        ZoneKind::Psys | ZoneKind::Platform => work,
        ZoneKind::Uncore | ZoneKind::Gpu | ZoneKind::Other => Driver::Nothing,
    }
}

/// Yields the indexes of the zones directly below the zone at index `place`.
fn parts(place: usize, zones: &[Zone]) -> impl Iterator<Item = usize> {
    let inner = zones.iter().enumerate();
    inner
        .filter(move |(_, zone)| zone.parent == Some(place))
        .map(|(part, _)| part)
}

/// Returns whether rows include the zone in their sum of its kind. A zone inside another of the
/// same kind is not included, because the outer one contains its energy.
pub fn counts_in_rows(place: usize, zones: &[Zone]) -> bool {
    let around = std::iter::successors(zones[place].parent, |&outer| zones[outer].parent);
    around
        .take(zones.len())
        .all(|outer| zones[outer].kind != zones[place].kind)
}

/// Returns whether another socket has a zone of the same kind.
fn is_one_of_several(zone: &Zone, energy: &Energy) -> bool {
    let mut others = energy.zones.iter();
    others.any(|other| {
        other.kind == zone.kind && other.socket.is_some_and(|s| zone.socket != Some(s))
    })
}
