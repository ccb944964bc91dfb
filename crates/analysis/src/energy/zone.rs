//! Divides the energy of one zone among everything that ran.

use std::hash::Hash;

use noctule_model::{CgroupId, Driver, IdMap, ProcessId, Zone, ZoneAccount, ZoneKind, ZoneReading};

use super::apportion::apportion;
use super::clock::{Clock, Metered};
use super::power::{Power, Span};
use super::work::Work;
use super::{IdleEnergy, IdleKnowledge};

/// A meter that does not move for this long has stopped. From then on, no energy is owed for that
/// time.
const STILL_SECONDS: f64 = 120.0;
/// Maximum idle energy, in seconds of idle power, that ticks below idle power leave as debt.
const DEBT_SECONDS: f64 = 10.0;
/// Minimum fraction of active energy in a tick if all CPUs were busy, because work always uses
/// energy. At lower loads the minimum is proportionally smaller.
const LEAST_ACTIVE: f64 = 0.05;
/// Decay factor of the sums over the last minutes: half is left after 70 ticks.
const RECENT: f64 = 0.99;

/// The work in a tick. Both lists of rows are in the order of [`Shares`].
#[derive(Debug, Default)]
pub(super) struct Tick {
    pub(super) batch_ns: u64,
    pub(super) seconds: f64,
    pub(super) processes: Ran<ProcessId>,
    pub(super) cgroups: Ran<CgroupId>,
    /// The node first, then each package if there are several.
    pub(super) scopes: Vec<Scope>,
}

/// Rows that ran, with their work.
#[derive(Debug)]
pub(super) struct Ran<K> {
    pub(super) ids: Vec<K>,
    /// The work of each row, by scope.
    pub(super) works: Vec<Vec<Work>>,
}

/// Totals of one part of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scope {
    /// Share of the CPU time that was not idle.
    pub(super) load: f64,
    /// Work that was counted but belongs to no process.
    pub(super) lost_processes: Work,
    /// Work that was counted but belongs to no cgroup.
    pub(super) lost_cgroups: Work,
    pub(super) interrupts: Work,
}

impl<K> Default for Ran<K> {
    fn default() -> Self {
        Self {
            ids: Vec::new(),
            works: Vec::new(),
        }
    }
}

impl<K> Ran<K> {
    /// Removes all rows, and sets the number of scopes.
    pub(super) fn clear(&mut self, scopes: usize) {
        self.ids.clear();
        self.works.iter_mut().for_each(Vec::clear);
        self.works.resize_with(scopes, Vec::new);
    }

    /// Adds a row with its work in each scope. Missing scopes count as no work.
    pub(super) fn push(&mut self, id: K, works: impl IntoIterator<Item = Work>) {
        self.ids.push(id);
        let mut works = works.into_iter();
        for list in &mut self.works {
            list.push(works.next().unwrap_or_default());
        }
    }
}

/// Division of a tick's energy, in microjoules.
#[derive(Debug, Default)]
pub(super) struct Shares {
    pub(super) energy_uj: u64,
    pub(super) idle_uj: u64,
    pub(super) interrupts_uj: u64,
    pub(super) unattributed_uj: u64,
    pub(super) other_uj: u64,
    pub(super) processes: Vec<u64>,
    pub(super) cgroups: Vec<u64>,
    pub(super) doubt: Doubt,
}

/// Possible error of the active energy of a tick.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Doubt {
    /// Energy that may be idle instead of active, or the reverse, in microjoules.
    idle_uj: f64,
    /// Squared error of the power model, in microjoules squared.
    residual_uj2: f64,
    /// Energy between the meter's reading and the batch, in microjoules; the largest of the last
    /// ticks.
    skew_uj: f64,
}

impl Doubt {
    /// Adds the uncertainty of another part of the machine in the same tick.
    fn add_part(&mut self, part: &Self) {
        self.idle_uj += part.idle_uj;
        self.residual_uj2 += part.residual_uj2;
        self.skew_uj += part.skew_uj;
    }

    /// Adds the uncertainty of another tick.
    fn add_tick(&mut self, tick: &Self) {
        self.idle_uj += tick.idle_uj;
        self.residual_uj2 += tick.residual_uj2;
        self.skew_uj = self.skew_uj.max(tick.skew_uj);
    }
}

/// Weights to divide the energy of a tick.
#[derive(Debug, Default)]
struct Weights {
    processes: Vec<f64>,
    cgroups: Vec<f64>,
    lost_processes: f64,
    lost_cgroups: f64,
    interrupts: f64,
    /// Energy of the zone's parts that is not charged to rows, in microjoules.
    idle_uj: u64,
    other_uj: u64,
    doubt: Doubt,
}

/// Weights of ticks in which the meter did not move. The energy of these ticks comes with the next
/// step of the meter.
#[derive(Debug, Default)]
struct Owed {
    processes: IdMap<ProcessId, f64>,
    cgroups: IdMap<CgroupId, f64>,
    lost_processes: f64,
    lost_cgroups: f64,
    interrupts: f64,
    idle_uj: u64,
    other_uj: u64,
    doubt: Doubt,
}

/// Decaying sums, for the error over the last minutes.
#[derive(Debug, Default)]
struct Recent {
    active_uj: f64,
    residual_uj2: f64,
    idle_doubt_uj: f64,
}

#[derive(Debug)]
pub(super) struct ZoneState {
    clock: Clock,
    power: Power,
    idle: IdleEnergy,
    resolution_uj: u64,
    update_ns: u64,
    /// The scope whose work determines the power of the zone, as an index into [`Tick::scopes`].
    scope: usize,
    span: Span,
    owed: Option<Owed>,
    still: bool,
    /// Whether the readings had a gap since the meter last advanced. The energy of such a gap is
    /// late or lost.
    gap: bool,
    debt_uj: f64,
    watts: Option<f64>,
    recent: Recent,
    weights: Weights,
    pub(super) shares: Shares,
    pub(super) account: ZoneAccount,
}

impl ZoneState {
    /// Creates the state of a zone. Without a zone, nothing is known about the meter.
    pub(super) fn new(driver: Driver, scope: usize, zone: Option<&Zone>, idle: IdleEnergy) -> Self {
        Self {
            clock: Clock::default(),
            power: Power::new(driver, zone.map_or(ZoneKind::Other, |zone| zone.kind)),
            idle,
            resolution_uj: zone.map_or(1, |zone| zone.resolution_uj),
            update_ns: zone.map_or(0, |zone| zone.update_ns),
            scope,
            span: Span::default(),
            owed: None,
            still: false,
            gap: false,
            debt_uj: 0.0,
            watts: None,
            recent: Recent::default(),
            weights: Weights::default(),
            shares: Shares::default(),
            account: ZoneAccount {
                driver,
                ..ZoneAccount::default()
            },
        }
    }

    /// Takes over earlier knowledge about the zone's idle power.
    pub(super) fn know(&mut self, knowledge: &IdleKnowledge, zone: &Zone) {
        self.power.know(knowledge, zone);
    }

    /// Returns the observed idle power and its half-width, in watts.
    pub(super) fn observed_idle(&self) -> Option<(f64, f64)> {
        self.power.observed()
    }

    /// Takes over what another state learned about the same zone, but not its accounts.
    pub(super) fn learn_from(&mut self, other: &Self) {
        self.power = other.power.settled();
        self.scope = other.scope;
    }

    /// Returns the rows to charge for earlier ticks with the meter's next step.
    pub(super) fn owed(
        &self,
    ) -> Option<(
        impl Iterator<Item = ProcessId> + '_,
        impl Iterator<Item = CgroupId> + '_,
    )> {
        let owed = self.owed.as_ref()?;
        Some((owed.processes.keys().copied(), owed.cgroups.keys().copied()))
    }

    /// Divides a tick of a zone whose energy is driven by work.
    pub(super) fn step(&mut self, reading: &ZoneReading, tick: &Tick) {
        self.shares.clear(tick);
        let Some(metered) = self.clock.advance(reading, tick.batch_ns) else {
            return;
        };
        self.gap |= metered.gap;
        let counted = self.forget(&metered, tick);
        let scope = &tick.scopes[self.scope];
        let everybody = tick.processes.works[self.scope].iter();
        let everybody = everybody.chain([&scope.lost_processes, &scope.interrupts]);
        self.power
            .extend(&mut self.span, counted, scope.load, everybody);
        self.weights.of_work(&self.power, tick, self.scope);
        if metered.energy_uj == 0 {
            self.wait(tick, counted);
            return;
        }
        let gap = std::mem::take(&mut self.gap);
        let most_idle = 1.0 - LEAST_ACTIVE * self.span.load();
        let seconds = self.learn(&metered, gap, tick.batch_ns);
        self.pay(tick);
        let idle_uj = self.power.idle().map_or(0.0, |idle| idle.watts * 1e6);
        // Adds the idle energy missing from earlier ticks. The meter is noisy, and cutting off at 0
        // would turn the noise into active energy.
        let due = idle_uj * seconds + self.debt_uj;
        let nobody = self.weights.is_nothing();
        let energy = metered.energy_uj;
        self.shares.energy_uj = energy;
        self.shares.idle_uj = match self.idle {
            _ if nobody => energy,
            IdleEnergy::Node => due.clamp(0.0, most_idle * energy as f64) as u64,
            IdleEnergy::Proportional => 0,
        };
        // Idle energy lost in a gap does not add to the debt.
        let most_uj = match gap {
            true => self.debt_uj,
            false => DEBT_SECONDS * idle_uj,
        };
        let debt_uj = (due - self.shares.idle_uj as f64).max(0.0);
        self.debt_uj = debt_uj.min(most_uj);
        self.shares
            .divide(energy - self.shares.idle_uj, &self.weights);
        if self.idle == IdleEnergy::Node {
            let doubt = self.power.idle().map_or(0.0, |idle| idle.half_width);
            self.shares.doubt.idle_uj = doubt * seconds * 1e6;
        }
        self.book(&metered, seconds);
    }

    /// Divides the energy of a zone in proportion to the energy that was charged to the rows by the
    /// zones inside this zone (`parts`).
    pub(super) fn step_parts(&mut self, reading: &ZoneReading, tick: &Tick, parts: &[&Shares]) {
        self.shares.clear(tick);
        let Some(metered) = self.clock.advance(reading, tick.batch_ns) else {
            return;
        };
        let counted = self.forget(&metered, tick);
        self.span.seconds += counted;
        self.weights.of_parts(parts, tick);
        if metered.energy_uj == 0 {
            self.wait(tick, counted);
            return;
        }
        let seconds = std::mem::take(&mut self.span).seconds;
        self.still = false;
        self.pay(tick);
        self.shares.energy_uj = metered.energy_uj;
        self.shares.divide_parts(metered.energy_uj, &self.weights);
        self.shares.doubt = self.weights.doubt;
        self.book(&metered, seconds);
    }

    /// Records that all energy was used by something other than work on the CPUs.
    pub(super) fn step_other(&mut self, reading: &ZoneReading, tick: &Tick) {
        self.shares.clear(tick);
        if let Some(metered) = self.clock.advance(reading, tick.batch_ns) {
            self.shares.energy_uj = metered.energy_uj;
            self.shares.other_uj = metered.energy_uj;
            self.book(&metered, tick.seconds);
        }
    }

    /// Drops work that was done while energy was lost, because no later step contains that energy.
    /// Returns how many seconds of work this tick includes.
    fn forget(&mut self, metered: &Metered, tick: &Tick) -> f64 {
        let Some(counted_ns) = metered.counted_ns else {
            return tick.seconds;
        };
        self.owed = None;
        self.span = Span::default();
        self.still = false;
        counted_ns as f64 / 1e9
    }

    /// Handles a tick in which the meter did not move. The work of the tick waits for the next step
    /// of the meter, unless the meter has stopped. `counted` is how much of the tick that step
    /// covers, in seconds.
    fn wait(&mut self, tick: &Tick, counted: f64) {
        if self.still || self.span.seconds > STILL_SECONDS {
            self.still = true;
            self.owed = None;
            self.span = Span::default();
        } else if !self.weights.is_nothing() || self.weights.idle_uj > 0 {
            let part = (counted / tick.seconds).min(1.0);
            let owed = self.owed.get_or_insert_default();
            owed.add(&self.weights, part, tick);
        }
    }

    /// Adds the owed weights to the weights of the tick. The share of rows that no longer exist is
    /// charged as lost work.
    fn pay(&mut self, tick: &Tick) {
        let Some(mut owed) = self.owed.take() else {
            return;
        };
        let weights = &mut self.weights;
        weights.lost_processes += owed.lost_processes
            + settle(
                &mut weights.processes,
                &tick.processes.ids,
                &mut owed.processes,
            );
        weights.lost_cgroups +=
            owed.lost_cgroups + settle(&mut weights.cgroups, &tick.cgroups.ids, &mut owed.cgroups);
        weights.interrupts += owed.interrupts;
        weights.idle_uj += owed.idle_uj;
        weights.other_uj += owed.other_uj;
        weights.doubt.add_tick(&owed.doubt);
    }

    /// Lets the model learn, unless the tick has a gap. Returns the time that the energy belongs
    /// to, in seconds.
    fn learn(&mut self, metered: &Metered, gap: bool, batch_ns: u64) -> f64 {
        let span = std::mem::take(&mut self.span);
        let gap = gap || self.still;
        self.still = false;
        if !gap {
            let expected = self.power.learn(batch_ns, &span, metered.energy_uj);
            if let Some(expected) = expected {
                let missed = metered.energy_uj as f64 - expected;
                self.shares.doubt.residual_uj2 = missed * missed;
            }
        }
        self.account.ticks += 1;
        span.seconds
    }

    /// Adds the energy of the tick to the account.
    fn book(&mut self, metered: &Metered, seconds: f64) {
        let (account, shares) = (&mut self.account, &self.shares);
        let active_uj: u64 = shares.cgroups.iter().sum();
        account.total_uj += shares.energy_uj;
        account.idle_uj += shares.idle_uj;
        account.active_uj += active_uj;
        account.interrupts_uj += shares.interrupts_uj;
        account.other_uj += shares.other_uj;
        account.unattributed_uj += shares.unattributed_uj;
        account.idle_watts = self.power.idle().map(|idle| idle.watts);
        account.exponent = self.power.exponent();
        let doubt = shares.doubt;
        account.idle_doubt_uj += doubt.idle_uj;
        account.residual_uj2 += doubt.residual_uj2;
        // After a loss, the rest of a tick may be too short to measure power.
        let watts = match metered.counted_ns {
            None => Some(shares.energy_uj as f64 / 1e6 / seconds.max(1e-9)),
            Some(_) => self.watts,
        };
        // Before the first tick, power is unknown.
        let change = watts.map_or(0.0, |now| (now - self.watts.unwrap_or(0.0)).abs());
        self.watts = watts;
        let skew_uj = change * (metered.skew_ns + self.update_ns) as f64 / 1e3;
        let skew_uj = skew_uj.max(doubt.skew_uj);
        account.skew_uj = skew_uj.max(account.skew_uj * RECENT);
        let recent = &mut self.recent;
        let spent = active_uj + shares.interrupts_uj + shares.unattributed_uj;
        recent.active_uj = recent.active_uj * RECENT + spent as f64;
        recent.residual_uj2 = recent.residual_uj2 * RECENT + doubt.residual_uj2;
        recent.idle_doubt_uj = recent.idle_doubt_uj * RECENT + doubt.idle_uj;
        account.error_ratio = ZoneAccount {
            active_uj: recent.active_uj as u64,
            residual_uj2: recent.residual_uj2,
            idle_doubt_uj: recent.idle_doubt_uj,
            skew_uj: account.skew_uj,
            ..ZoneAccount::default()
        }
        .relative_error(self.resolution_uj);
        self.shares.doubt.skew_uj = account.skew_uj;
    }
}

impl Shares {
    fn clear(&mut self, tick: &Tick) {
        let (mut processes, mut cgroups) = (
            std::mem::take(&mut self.processes),
            std::mem::take(&mut self.cgroups),
        );
        processes.clear();
        processes.resize(tick.processes.ids.len(), 0);
        cgroups.clear();
        cgroups.resize(tick.cgroups.ids.len(), 0);
        *self = Self {
            processes,
            cgroups,
            ..Self::default()
        };
    }

    /// Divides active energy. The energy is divided among cgroups first, and processes share the
    /// sum. Both lists therefore have the same sum, except for processes without a record.
    fn divide(&mut self, energy_uj: u64, weights: &Weights) {
        let groups = weights.cgroups.iter().copied();
        let all: Vec<f64> = groups
            .chain([weights.lost_cgroups, weights.interrupts])
            .collect();
        let left = apportion(energy_uj, &all, &mut self.cgroups);
        self.interrupts_uj += self.cgroups.pop().unwrap_or(0);
        self.unattributed_uj += self.cgroups.pop().unwrap_or(0) + left;
        let active_uj = self.cgroups.iter().sum();
        let processes = weights.processes.iter().copied();
        let all: Vec<f64> = processes.chain([weights.lost_processes]).collect();
        apportion(active_uj, &all, &mut self.processes);
        self.processes.pop();
    }

    /// Distributes the zone's energy by the charges of its parts, which are whole microjoules. If
    /// the zone has at least the energy of its parts, each row gets exactly the sum of its charges.
    fn divide_parts(&mut self, energy_uj: u64, weights: &Weights) {
        let driven: f64 = weights.cgroups.iter().sum::<f64>();
        let driven = (driven + weights.lost_cgroups + weights.interrupts) as u64;
        let parts_uj = weights.idle_uj + weights.other_uj + driven;
        let (idle, other, driven) = if energy_uj >= parts_uj {
            let other = weights.other_uj + (energy_uj - parts_uj);
            (weights.idle_uj, other, driven)
        } else {
            let all = [weights.idle_uj, weights.other_uj, driven].map(|uj| uj as f64);
            let mut parts = Vec::with_capacity(3);
            apportion(energy_uj, &all, &mut parts);
            (parts[0], parts[1], parts[2])
        };
        self.idle_uj = idle;
        self.other_uj = other;
        self.divide(driven, weights);
    }
}

impl Weights {
    fn of_work(&mut self, power: &Power, tick: &Tick, scope: usize) {
        self.processes.clear();
        self.cgroups.clear();
        let weight = |work: &Work| power.weight(work);
        let processes = tick.processes.works[scope].iter().map(weight);
        self.processes.extend(processes);
        let cgroups = tick.cgroups.works[scope].iter().map(weight);
        self.cgroups.extend(cgroups);
        let scope = &tick.scopes[scope];
        self.lost_processes = weight(&scope.lost_processes);
        self.lost_cgroups = weight(&scope.lost_cgroups);
        self.interrupts = weight(&scope.interrupts);
    }

    fn of_parts(&mut self, parts: &[&Shares], tick: &Tick) {
        let sum = |uj: fn(&Shares) -> u64| parts.iter().map(|part| uj(part)).sum::<u64>();
        let add = |list: fn(&Shares) -> &Vec<u64>, sums: &mut Vec<f64>, count: usize| {
            sums.clear();
            sums.resize(count, 0.0);
            for part in parts {
                for (sum, uj) in sums.iter_mut().zip(list(part)) {
                    *sum += *uj as f64;
                }
            }
            sums.iter().sum::<f64>()
        };
        let processes = add(
            |p| &p.processes,
            &mut self.processes,
            tick.processes.ids.len(),
        );
        let cgroups = add(|p| &p.cgroups, &mut self.cgroups, tick.cgroups.ids.len());
        self.lost_processes = (cgroups - processes).max(0.0);
        self.lost_cgroups = sum(|part| part.unattributed_uj) as f64;
        self.interrupts = sum(|part| part.interrupts_uj) as f64;
        self.idle_uj = sum(|part| part.idle_uj);
        self.other_uj = sum(|part| part.other_uj);
        self.doubt = Doubt::default();
        for part in parts {
            self.doubt.add_part(&part.doubt);
        }
    }

    /// Returns whether nothing ran in the tick.
    fn is_nothing(&self) -> bool {
        let sum: f64 = self.cgroups.iter().sum();
        sum + self.lost_cgroups + self.interrupts <= 0.0
    }
}

impl Owed {
    /// Adds a fraction of the weights of a tick.
    fn add(&mut self, weights: &Weights, part: f64, tick: &Tick) {
        for (id, weight) in tick.processes.ids.iter().zip(&weights.processes) {
            *self.processes.entry(*id).or_default() += part * weight;
        }
        for (id, weight) in tick.cgroups.ids.iter().zip(&weights.cgroups) {
            *self.cgroups.entry(*id).or_default() += part * weight;
        }
        self.lost_processes += part * weights.lost_processes;
        self.lost_cgroups += part * weights.lost_cgroups;
        self.interrupts += part * weights.interrupts;
        self.idle_uj += (part * weights.idle_uj as f64) as u64;
        self.other_uj += (part * weights.other_uj as f64) as u64;
        self.doubt.add_tick(&weights.doubt);
    }
}

/// Adds the owed energy to the rows that still exist. Returns the energy owed to rows that no
/// longer exist.
fn settle<K: Copy + Eq + Hash>(
    weights: &mut [f64],
    present: &[K],
    owed: &mut IdMap<K, f64>,
) -> f64 {
    for (weight, id) in weights.iter_mut().zip(present) {
        *weight += owed.remove(id).unwrap_or(0.0);
    }
    owed.values().sum()
}
