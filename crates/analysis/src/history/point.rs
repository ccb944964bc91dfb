//! The growth between two batches, in compact form.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use noctule_model::{
    Batch, Blamed, Cause, CgroupId, Counter, Cumulative, EventCounters, FeatureState, Histogram,
    Level, Measured, Node, Owner, Subject, SubjectRow, ZoneReading,
};

use super::cpu;
use super::packed::{Lengths, OwnerLengths, OwnerPoint, PackedRows, PairPoint, PointRows};
use super::{OwnerId, PartyRef, TimelineLimits};
use crate::{EnergyReport, Party};

pub(super) type Micros = u64;

/// The growth of all counters between two batches.
#[derive(Clone, Debug, Default)]
pub struct TimePoint {
    /// Sequence number of the batch that ends the interval.
    pub sequence: u64,
    /// End of the interval, in nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// Length of the interval, in nanoseconds of `CLOCK_MONOTONIC`.
    pub length_ns: u64,
    pub node: NodePoint,
    /// Rows of owners, of victim-culprit pairs, and of CPUs.
    pub rows: PackedRows,
    /// Number of owners beyond the limit. Only the figures of the node include these owners.
    pub more_owners: u32,
    /// Number of pairs beyond the limit. The figures of the victims include the waits of these
    /// pairs.
    pub more_pairs: u32,
    /// Energy of each zone in microjoules, in the order of the batch's zones; empty without a
    /// meter. `None` if the meter could not be read at the start, at the end or in between.
    pub zones: Box<[Option<u64>]>,
    /// Whether energy was charged to owners.
    pub power: Power,
}

/// Whether the energy that the meters counted between two batches was charged to owners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Power {
    /// There is no meter, or its energy cannot be charged.
    #[default]
    Unknown,
    /// A meter did not move. A later point contains the energy.
    Still,
    /// The energy was charged.
    Charged,
}

/// How the machine was used between two batches.
#[derive(Clone, Debug, Default)]
pub struct NodePoint {
    /// CPUs online at the end.
    pub cpus: u32,
    /// Elapsed time summed over all CPUs, in nanoseconds.
    pub elapsed_ns: u64,
    /// Part of `elapsed_ns` in which the CPUs were idle.
    pub idle_ns: u64,
    /// Part of `elapsed_ns` in which threads ran.
    pub used_ns: u64,
    /// Time that interrupts took; `None` if the kernel does not account for it separately.
    pub interrupt_ns: Option<u64>,
    /// Time that the host took; `None` if the kernel does not account for it separately.
    pub steal_ns: Option<u64>,
    /// Time that the host took, if the kernel includes it in used and idle time; `None` otherwise.
    pub steal_included_ns: Option<u64>,
    /// Waits by index of [`Cause`], in nanoseconds; 0 for a cause that is not in `measured`.
    pub wait_ns: [u64; Cause::ALL.len()],
    /// Histogram of the lengths of all waits.
    pub lengths: Histogram,
    pub events: EventCounters,
    /// Number of losses.
    pub losses: u64,
    /// Which counters are measured.
    pub measured: Measured,
    /// CPU time of the agent itself, in nanoseconds.
    pub agent_ns: u64,
}

/// Assigns numbers to owners.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    subjects: HashMap<Subject, Numbered>,
    kernel: Option<OwnerId>,
    unnamed: Option<OwnerId>,
    next: OwnerId,
    parties: Arc<HashMap<OwnerId, Party>>,
    /// The newest container with each name.
    containers: HashMap<String, OwnerId>,
    restarts: VecDeque<Restart>,
}

/// A group that was created again under the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    pub id: OwnerId,
    /// The new cgroup of the group that was created again.
    pub cgroup: CgroupId,
    /// End of the interval in which the new cgroup first ran, in nanoseconds since 1970.
    pub time_unix_ns: u64,
}

/// Maximum number of restarts that are kept.
const RESTARTS: usize = 256;

#[derive(Debug)]
struct Numbered {
    id: OwnerId,
    /// Sequence number of the last batch that contained the subject.
    seen: u64,
}

impl Numbers {
    pub(super) fn id(
        &mut self,
        who: PartyRef<'_>,
        batch: &Batch,
        owner: Option<&Arc<Owner>>,
    ) -> OwnerId {
        let sequence = batch.sequence;
        let next = &mut self.next;
        let mut number = || {
            *next += 1;
            *next
        };
        let (id, party) = match who {
            PartyRef::Kernel => (*self.kernel.get_or_insert_with(number), Some(Party::Kernel)),
            PartyRef::Unnamed => (
                *self.unnamed.get_or_insert_with(number),
                Some(Party::Unnamed),
            ),
            PartyRef::Subject(subject) => {
                let id = match self.subjects.get_mut(subject) {
                    Some(known) => {
                        known.seen = sequence;
                        known.id
                    }
                    None => {
                        let id = number();
                        let seen = sequence;
                        self.subjects.insert(subject.clone(), Numbered { id, seen });
                        id
                    }
                };
                (id, owner.cloned().map(Party::Group))
            }
        };
        // A later batch can contain a name of the owner that earlier ones lack.
        if let Some(party) = party
            && self.parties.get(&id) != Some(&party)
        {
            if let Some(cgroup) = self.restarted(id, &party) {
                self.restarts.push_back(Restart {
                    id,
                    cgroup,
                    time_unix_ns: batch.time_unix_ns,
                });
                if self.restarts.len() > RESTARTS {
                    self.restarts.pop_front();
                }
            }
            Arc::make_mut(&mut self.parties).insert(id, party);
        }
        id
    }

    /// Returns the new cgroup of a party that replaces another cgroup at the same path, or another
    /// container with the same name.
    fn restarted(&mut self, id: OwnerId, party: &Party) -> Option<CgroupId> {
        let Party::Group(owner) = party else {
            return None;
        };
        let replaces = match self.parties.get(&id) {
            Some(Party::Group(before)) => {
                owner.path.starts_with('/')
                    && (before.path == owner.path && before.cgroup < owner.cgroup)
            }
            _ => false,
        };
        let is_known = |it: &Restart| (it.id, it.cgroup) == (id, owner.cgroup);
        let is_restart =
            (replaces || self.is_newer_container(id, owner)) && !self.restarts.iter().any(is_known);
        is_restart.then_some(owner.cgroup)
    }

    /// Returns whether an older container has the same name. The name of a container can arrive
    /// after its number was assigned.
    fn is_newer_container(&mut self, id: OwnerId, owner: &Owner) -> bool {
        let named = owner.container.as_ref().and_then(|it| it.name.as_ref());
        let (Subject::Container(_), Some(_)) = (owner.subject(), named) else {
            return false;
        };
        let last = self.containers.entry(owner.name(Level::Container));
        let last = last.or_insert(id);
        let is_newer = *last < id;
        *last = (*last).max(id);
        is_newer
    }

    /// Returns the number of a party at the level of containers, if one was assigned.
    pub(super) fn of(&self, party: &Party) -> Option<OwnerId> {
        match party {
            Party::Group(owner) => match PartyRef::from(&owner.subject()) {
                PartyRef::Subject(subject) => self.subjects.get(subject).map(|known| known.id),
                PartyRef::Unnamed => self.unnamed,
                PartyRef::Kernel => self.kernel,
            },
            Party::Kernel => self.kernel,
            Party::Unnamed => self.unnamed,
            Party::Command | Party::Below { .. } => None,
        }
    }

    pub(super) fn restarts(&self) -> Vec<Restart> {
        self.restarts.iter().copied().collect()
    }

    /// Drops subjects that no point contains, and restarts before the oldest point.
    pub(super) fn forget(&mut self, oldest: &TimePoint) {
        self.restarts
            .retain(|it| it.time_unix_ns >= oldest.time_unix_ns);
        let oldest = oldest.sequence;
        let before = self.subjects.len();
        let parties = &mut self.parties;
        self.subjects.retain(|_, named| {
            let stays = named.seen >= oldest;
            if !stays {
                Arc::make_mut(parties).remove(&named.id);
            }
            stays
        });
        if self.subjects.len() < before {
            self.subjects.shrink_to(2 * self.subjects.len());
            let parties = &self.parties;
            self.containers.retain(|_, id| parties.contains_key(id));
        }
    }

    pub(super) fn parties(&self) -> Arc<HashMap<OwnerId, Party>> {
        self.parties.clone()
    }
}

/// An owner that competes for one of the rows of a point.
struct Candidate<'a> {
    row: &'a SubjectRow,
    before: Option<&'a SubjectRow>,
    cpu_ns: u64,
    hurts_ns: u64,
    wait_ns: [u64; Cause::ALL.len()],
    energy_uj: u64,
}

impl Candidate<'_> {
    fn waited_ns(&self) -> u64 {
        self.wait_ns.iter().sum()
    }

    fn weight(&self) -> u64 {
        self.cpu_ns + self.hurts_ns + self.waited_ns()
    }
}

impl TimePoint {
    pub(super) fn between(
        first: &Batch,
        last: &Batch,
        limits: &TimelineLimits,
        names: &mut Numbers,
    ) -> Self {
        let before = |row: &SubjectRow| row_of(&row.subject, first);
        let mut pairs: Vec<(PartyRef<'_>, PartyRef<'_>, u64)> = Vec::new();
        let mut hurts: HashMap<PartyRef<'_>, u64> = HashMap::new();
        for row in &last.subjects {
            for (culprit, wait_ns) in blamed(before(row), row) {
                let culprit = PartyRef::from(culprit);
                *hurts.entry(culprit).or_default() += wait_ns;
                pairs.push((PartyRef::from(&row.subject), culprit, wait_ns));
            }
        }
        let energy = EnergyReport::between(first, last);
        let mut drafts: Vec<Candidate<'_>> = last
            .subjects
            .iter()
            .map(|row| Candidate::new(before(row), row, &hurts, energy.as_ref()))
            .filter(|draft| draft.weight() > 0)
            .collect();
        drafts.sort_unstable_by_key(|draft| std::cmp::Reverse(draft.weight()));
        let more_owners = drafts.len().saturating_sub(limits.owners);
        drafts.truncate(limits.owners);
        let owners = drafts.iter().map(|draft| draft.point(last, names));
        let owners: Vec<OwnerPoint> = owners.collect();
        let lengths = lengths(&drafts, &owners, limits.lengths);
        pairs.sort_unstable_by_key(|(.., wait_ns)| std::cmp::Reverse(*wait_ns));
        let more_pairs = pairs.len().saturating_sub(limits.pairs);
        pairs.truncate(limits.pairs);
        let pairs = pairs.into_iter();
        let pairs = pairs.map(|(victim, culprit, wait_ns)| {
            let mut id = |who: PartyRef<'_>| {
                let row = match who {
                    PartyRef::Subject(subject) => row_of(subject, last),
                    PartyRef::Kernel | PartyRef::Unnamed => None,
                };
                names.id(who, last, row.map(|row| &row.owner))
            };
            PairPoint {
                victim: id(victim),
                culprit: id(culprit),
                wait_us: micros(wait_ns),
            }
        });
        let rows = PointRows {
            owners,
            pairs: pairs.collect(),
            cpus: cpu::points(first, last, names),
        };
        Self {
            sequence: last.sequence,
            time_unix_ns: last.time_unix_ns,
            length_ns: last.taken_ns.saturating_sub(first.taken_ns),
            node: NodePoint::between(first, last),
            rows: PackedRows::new(&rows, &lengths),
            more_pairs: more_pairs as u32,
            more_owners: more_owners as u32,
            zones: zones(first, last),
            power: power(energy.as_ref()),
        }
    }
}

impl<'a> Candidate<'a> {
    fn new(
        before: Option<&'a SubjectRow>,
        row: &'a SubjectRow,
        hurts: &HashMap<PartyRef<'_>, u64>,
        energy: Option<&EnergyReport>,
    ) -> Self {
        let charged = |energy: &EnergyReport| {
            let earlier = before.map_or(0, |before| energy.total_uj(&before.joules));
            energy.total_uj(&row.joules).saturating_sub(earlier)
        };
        let grown = |counter| {
            let earlier = before.map_or(0, |before| before.counters[counter]);
            row.counters[counter].saturating_sub(earlier)
        };
        Self {
            cpu_ns: grown(Counter::CpuTime),
            hurts_ns: hurts
                .get(&PartyRef::from(&row.subject))
                .copied()
                .unwrap_or(0),
            wait_ns: Cause::ALL.map(|cause| grown(Counter::Wait(cause))),
            energy_uj: energy.map_or(0, charged),
            before,
            row,
        }
    }

    fn point(&self, batch: &Batch, names: &mut Numbers) -> OwnerPoint {
        let who = PartyRef::from(&self.row.subject);
        OwnerPoint {
            id: names.id(who, batch, Some(&self.row.owner)),
            cpu_us: micros(self.cpu_ns),
            hurts_us: micros(self.hurts_ns),
            wait_us: self.wait_ns.map(micros),
            energy_uj: self.energy_uj,
        }
    }

    fn lengths(&self) -> Histogram {
        match self.before {
            Some(before) => self.row.waits.since(&before.waits),
            None => self.row.waits.clone(),
        }
    }
}

/// Returns the wait histograms of the owners that waited most, as far as `room` allows.
fn lengths(drafts: &[Candidate<'_>], owners: &[OwnerPoint], mut room: usize) -> Vec<OwnerLengths> {
    let mut by_wait: Vec<usize> = (0..drafts.len()).collect();
    by_wait.sort_unstable_by_key(|&at| std::cmp::Reverse(drafts[at].waited_ns()));
    let mut lengths = Vec::new();
    for at in by_wait {
        let packed: Lengths = drafts[at]
            .lengths()
            .buckets()
            .map(|(bound, count)| (Histogram::bucket(bound) as u16, saturated(count)))
            .collect();
        if packed.len() <= room {
            room -= packed.len();
            lengths.push((owners[at].id, packed));
        }
    }
    lengths
}

/// Yields the growth of the wait for each culprit.
fn blamed<'a>(
    before: Option<&'a SubjectRow>,
    row: &'a SubjectRow,
) -> impl Iterator<Item = (&'a Blamed, u64)> {
    let earlier = move |culprit: &Blamed| {
        let before = &before?.blame;
        let at = before.binary_search_by(|blame| blame.culprit.cmp(culprit));
        Some(before[at.ok()?].wait_ns)
    };
    let grown = row.blame.iter().map(move |blame| {
        let earlier =
            earlier(&blame.culprit).filter(|earlier| !blame.wait_ns.restarted_since(earlier));
        (&blame.culprit, blame.wait_ns - earlier.unwrap_or(0))
    });
    grown.filter(|(_, wait_ns)| *wait_ns > 0)
}

/// Returns the row of a subject. Rows are sorted by subject.
fn row_of<'a>(subject: &Subject, batch: &'a Batch) -> Option<&'a SubjectRow> {
    let rows = &batch.subjects;
    let at = rows.binary_search_by(|row| row.subject.cmp(subject)).ok()?;
    Some(&rows[at])
}

fn zones(first: &Batch, last: &Batch) -> Box<[Option<u64>]> {
    let before = first.energy.as_ref().map_or(&[][..], |e| &e.readings);
    let now = last.energy.as_ref().map_or(&[][..], |e| &e.readings);
    let grown = now.iter().enumerate().map(|(at, reading)| {
        // A zone that just appeared has no growth yet.
        let earlier = before.get(at)?;
        // If the state is not on, the reading is from an earlier batch.
        let is_on = |it: &ZoneReading| it.state == FeatureState::On;
        let known = is_on(reading) && is_on(earlier) && reading.gaps == earlier.gaps;
        known.then(|| reading.energy_uj.saturating_sub(earlier.energy_uj))
    });
    grown.collect()
}

fn power(energy: Option<&EnergyReport>) -> Power {
    let Some(energy) = energy.filter(|energy| !energy.kinds.is_empty()) else {
        return Power::Unknown;
    };
    match energy.zones.iter().any(|zone| zone.still) {
        true => Power::Still,
        false => Power::Charged,
    }
}

impl NodePoint {
    fn between(first: &Batch, last: &Batch) -> Self {
        let (a, b): (&Node, &Node) = (&first.node, &last.node);
        let grown = |counter| b.total[counter].saturating_sub(a.total[counter]);
        let known = |b: Option<u64>, a: Option<u64>| Some(b?.saturating_sub(a?));
        let lost = |batch: &Batch| batch.losses.iter().map(|loss| loss.count).sum::<u64>();
        Self {
            cpus: b.cpus,
            elapsed_ns: b.elapsed_ns.saturating_sub(a.elapsed_ns),
            idle_ns: b.idle_ns.saturating_sub(a.idle_ns),
            used_ns: grown(Counter::CpuTime),
            interrupt_ns: known(b.interrupt_ns, a.interrupt_ns),
            steal_ns: known(b.steal_ns, a.steal_ns),
            steal_included_ns: known(b.steal_included_ns, a.steal_included_ns),
            wait_ns: Cause::ALL.map(|cause| grown(Counter::Wait(cause))),
            lengths: last.all_waits.since(&first.all_waits),
            events: b.events.since(&a.events),
            losses: lost(last).saturating_sub(lost(first)),
            measured: last.measured,
            agent_ns: last.agent.cpu_ns.saturating_sub(first.agent.cpu_ns),
        }
    }
}

pub(super) fn micros(ns: u64) -> Micros {
    ns.saturating_add(500) / 1000
}

/// Converts to nanoseconds, for adding up.
pub(super) fn nanos(us: Micros) -> u64 {
    us.saturating_mul(1000)
}

fn saturated(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
