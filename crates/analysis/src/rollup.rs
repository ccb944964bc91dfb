//! Sums up cgroups by the containers, units and cgroups that own them.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use noctule_model::{
    Batch, Blame, Blamed, BlockClass, Cause, CgroupId, CgroupRow, Counter, Counters,
    DestinationCounters, EventCounters, Group, IdMap, IdSet, Idle, Joules, Loss, Owner, Preemptor,
    Sockets, Subject, SubjectBlame, Waiting,
};

#[cfg(test)]
mod event_tests;
mod growth;
mod places;
mod standing;
#[cfg(test)]
mod tests;
mod waits;

use growth::Growth;
use places::Places;
use standing::Standing;
use waits::{Distributions, Matrix};

/// Maximum number of rows for victim-culprit pairs, over all subjects.
const MAX_PAIRS: usize = 1 << 14;

/// Maximum number of rows for destinations, over all subjects.
const MAX_DESTINATIONS: usize = 1 << 14;

/// Maximum number of subjects that are kept after their last cgroup was removed. Each subject takes
/// about 10 KB in the rollup and its series, which adds up if hundreds of cgroups come and go.
/// Above the limit, the subjects that ended first are dropped before their grace period ends.
const MAX_ENDED: usize = 1 << 10;

/// Minimum time for which an ended subject is kept regardless of the limit. Not every reader sees
/// each batch: verdicts use one every 4 s.
const LOOKED_AT_NS: u64 = 5_000_000_000;

/// Charges the growth of each cgroup to its subject.
///
/// Only growth is added, so a subject's counters are monotonic. The counters do not decrease when a
/// cgroup is removed, or when noctule learns its owner late.
///
/// The kernel side only knows cgroups. Therefore the waits of a cgroup for others are taken from
/// the blame matrix rather than from its counters. The culprit decides the cause: a cgroup of the
/// same subject, kernel threads, or a neighbour.
#[derive(Debug)]
pub struct Rollup {
    grace_ns: u64,
    /// Boxed like the subjects, because half of the slots of a table may be empty.
    cgroups: IdMap<CgroupId, Box<Charged>>,
    /// The members of the last batch.
    members: Members,
    waits: Distributions,
    connects: Distributions,
    matrix: Matrix,
    destinations: Growth<Option<SocketAddr>, DestinationCounters>,
    subjects: HashMap<Arc<Subject>, Box<Standing>>,
    /// The subject for cgroups whose own subject has no row, and for cgroups without a row on the
    /// kernel side.
    overflow: Arc<Subject>,
    places: Places,
    /// Sum over everything that was ever charged to a subject.
    total: Counters,
    /// Maximum number of subjects that are kept after their last cgroup was removed.
    max_ended: usize,
    /// Maximum number of rows for victim-culprit pairs, and how many more may be added.
    max_pairs: usize,
    room: usize,
    /// Tracks pairs that may lose their rows.
    idle: Idle<Pair, u64>,
    /// How many more rows for destinations may be added.
    destination_room: usize,
}

/// How much of a cgroup's figures was already charged.
#[derive(Debug, Default)]
struct Charged {
    counters: Counters,
    joules: Joules,
    events: EventCounters,
}

/// Cgroups that have an owner, with their subjects.
type Members = IdMap<CgroupId, Member>;

#[derive(Debug)]
struct Member {
    subject: Arc<Subject>,
    /// The owner that `subject` was derived from. If the cgroup's owner changes, the subject is
    /// looked up again.
    owner: Arc<Owner>,
}

impl Rollup {
    /// Creates a rollup. `grace_ns` is how long a subject is kept after its last cgroup was
    /// removed.
    pub fn new(grace_ns: u64) -> Self {
        Self {
            grace_ns,
            cgroups: IdMap::default(),
            members: Members::default(),
            waits: Distributions::new(),
            connects: Distributions::new(),
            matrix: Matrix::new(),
            destinations: Growth::new(Some(None)),
            subjects: HashMap::new(),
            overflow: Arc::new(Subject::Overflow),
            places: Places::new(places::MAX_BYTES),
            total: Counters::default(),
            max_ended: MAX_ENDED,
            max_pairs: MAX_PAIRS,
            room: MAX_PAIRS,
            idle: Idle::default(),
            destination_room: MAX_DESTINATIONS,
        }
    }

    /// Fills [`Batch::subjects`]. The waits, preemptions and blocked time of the node become the
    /// sums over all subjects so far.
    ///
    /// The owners of the batch's cgroups must already be set. A cgroup without an owner is skipped,
    /// and charged in full as soon as it has one.
    pub fn apply(&mut self, batch: &mut Batch) {
        for standing in self.subjects.values_mut() {
            standing.tick = Counters::default();
            standing.row.events.sockets = Sockets::default();
            standing.row.waiting = Waiting::default();
            standing.row.ended = true;
        }
        let members = self.members_of(batch);
        self.charge_counters(batch, &members);
        self.charge_waits(batch, &members);
        self.charge_connections(batch, &members);
        self.charge_unnamed(batch);
        self.members = members;
        self.forget(batch);
        for standing in self.subjects.values_mut() {
            let hertz = standing
                .tick
                .frequency_hertz(batch.measured, batch.node.nominal_hertz);
            standing.row.frequency_hertz = hertz;
        }
        let waits = Cause::ALL.into_iter().map(Counter::Wait);
        let preempted = Preemptor::ALL.into_iter().map(Counter::PreemptedBy);
        let blocked = BlockClass::ALL.into_iter().map(Counter::Blocked);
        for counter in waits.chain(preempted).chain(blocked) {
            batch.node.total[counter] = self.total[counter];
        }
        self.note_refused(batch);
        batch.subjects = self.subjects.values().map(|s| s.row.clone()).collect();
        batch.subjects.sort_by(|a, b| a.subject.cmp(&b.subject));
    }

    /// Adds the number of refused subjects to the losses. A batch from a recording already includes
    /// that number.
    fn note_refused(&self, batch: &mut Batch) {
        const KIND: &str = "subject_row";
        if batch.losses.iter().all(|loss| loss.kind != KIND) {
            batch.losses.push(Loss {
                kind: KIND,
                place: "subjects",
                count: self.places.refused,
            });
        }
    }

    /// Returns the cgroups that have an owner, and creates their subjects.
    fn members_of(&mut self, batch: &Batch) -> Members {
        let mut before = std::mem::take(&mut self.members);
        let mut members = Members::with_capacity_and_hasher(before.len(), <_>::default());
        self.places
            .begin(self.subjects.keys().map(|subject| &**subject));
        // Cgroups that are waiting for a row come first.
        let (waiting, others): (Vec<_>, Vec<_>) = batch.cgroups.iter().partition(|row| {
            let known = before.get(&row.id);
            known.is_some_and(|known| self.is_unplaced(known))
        });
        for row in waiting.into_iter().chain(others) {
            let Some(owner) = &row.owner else { continue };
            let known = before.remove(&row.id);
            let subject = self.subject_of(row, owner, known);
            let standing = self
                .subjects
                .entry(subject.clone())
                .or_insert_with(|| Box::new(Standing::new(&subject, owner)));
            standing.seen_ns = batch.taken_ns;
            standing.row.ended &= row.removed;
            let known = &standing.row.owner;
            let nearer = owner.path.len() < known.path.len();
            if *subject != Subject::Overflow && (known.cgroup == owner.cgroup || nearer) {
                standing.row.owner = owner.clone();
            }
            let owner = owner.clone();
            members.insert(row.id, Member { subject, owner });
        }
        members
    }

    fn is_unplaced(&self, member: &Member) -> bool {
        !self.subjects.contains_key(&member.subject) || *member.subject == Subject::Overflow
    }

    /// Returns the subject to which a cgroup is charged. A cgroup without its own subject gets one
    /// as soon as it does something.
    fn subject_of(
        &mut self,
        row: &CgroupRow,
        owner: &Arc<Owner>,
        known: Option<Member>,
    ) -> Arc<Subject> {
        let was_unplaced = known.as_ref().is_some_and(|it| self.is_unplaced(it));
        let known = known.filter(|known| Arc::ptr_eq(&known.owner, owner));
        if let Some(known) = known.filter(|_| !was_unplaced) {
            return known.subject;
        }
        let charged = self.cgroups.get(&row.id);
        let did = row.counters.without_blocked();
        let grew = charged
            .is_none_or(|it| it.counters.without_blocked() != did || it.events != row.events);
        if was_unplaced && !grew {
            return self.overflow.clone();
        }
        let subject = Arc::new(owner.subject());
        if let Some((known, _)) = self.subjects.get_key_value(&subject) {
            return known.clone();
        }
        if *subject == Subject::Overflow || self.places.take(&subject) {
            return subject;
        }
        if grew {
            self.places.want(&subject);
        }
        self.places.refused += u64::from(!was_unplaced);
        self.overflow.clone()
    }

    fn charge_counters(&mut self, batch: &Batch, members: &Members) {
        for row in &batch.cgroups {
            let Some(member) = members.get(&row.id) else {
                continue;
            };
            let charged = self.cgroups.entry(row.id).or_default();
            let events = growth::step(&mut charged.events, &row.events);
            let joules = growth::step(&mut charged.joules, &row.joules);
            let counters = row.counters_at(batch.taken_ns);
            let mut growth = growth::step(&mut charged.counters, &counters);
            growth[Counter::Wait(Cause::Neighbour)] = 0;
            growth[Counter::PreemptedBy(Preemptor::Neighbour)] = 0;
            if let Some(standing) = self.subjects.get_mut(&member.subject) {
                if !growth.without_blocked().is_zero() || !events.is_zero() {
                    standing.grown_ns = batch.taken_ns;
                }
                standing.charge(&growth, &mut self.total);
                standing.row.joules += &joules;
                standing.row.events.counters += &events;
                standing.row.events.sockets += &row.sockets;
                standing.row.waiting += &row.waiting;
                let kernel_ns = growth[Counter::Wait(Cause::Kernel)];
                standing.blame(Blamed::Kernel, kernel_ns, &mut self.room);
            }
        }
        let present: IdSet<CgroupId> = batch.cgroups.iter().map(|row| row.id).collect();
        self.cgroups.retain(|id, _| present.contains(id));
        self.cgroups.shrink_to(2 * self.cgroups.len());
    }

    /// Charges the cgroups without a row on the kernel side. These cgroups share one histogram and
    /// one sum of waits for neighbours.
    fn charge_unnamed(&mut self, batch: &Batch) {
        let waits = self.waits.unnamed(&batch.waits);
        let connects = self.connects.unnamed(&batch.connects);
        let growth = self.matrix.unnamed(&batch.blames);
        let overflow = self.overflow.clone();
        let known = self.subjects.contains_key(&overflow);
        let nothing = waits.is_empty() && connects.is_empty() && growth == Blame::default();
        if !known && nothing {
            return;
        }
        let standing = self.subjects.entry(overflow.clone()).or_insert_with(|| {
            let nobody = Arc::new(Owner::unknown(CgroupId::UNPLACED));
            Box::new(Standing::new(&overflow, &nobody))
        });
        standing.seen_ns = batch.taken_ns;
        standing.row.waits += &waits;
        standing.row.connects += &connects;
        let mut counters = Counters::default();
        counters[Counter::Wait(Cause::Neighbour)] = growth.wait_ns;
        counters[Counter::PreemptedBy(Preemptor::Neighbour)] = growth.preemptions;
        self.charge(&overflow, &counters);
        self.blame(&overflow, Blamed::Unnamed, growth.wait_ns);
    }

    fn charge_waits(&mut self, batch: &Batch, members: &Members) {
        let known = |id| members.contains_key(&id);
        for (id, growth) in self.waits.of(&batch.waits, known) {
            if let Some(standing) = standing_of(&mut self.subjects, members, id) {
                standing.row.waits += &growth;
            }
        }
        let mut sums: IdMap<CgroupId, Waited> = IdMap::default();
        for (victim, culprit, growth) in self.matrix.of(&batch.blames, known) {
            let Some(Member { subject, .. }) = members.get(&victim) else {
                continue;
            };
            let member = match culprit {
                Group::Cgroup(id) => members.get(&id).map(|member| &member.subject),
                _ => None,
            };
            let member = member.filter(|subject| ***subject != Subject::Overflow);
            let (by, blamed) = match (culprit, member) {
                (_, Some(culprit)) if culprit == subject => (Preemptor::Own, None),
                (_, Some(culprit)) => {
                    (Preemptor::Neighbour, Some(Blamed::Subject(culprit.clone())))
                }
                (Group::Kernel, None) => (Preemptor::Kernel, Some(Blamed::Kernel)),
                (_, None) => (Preemptor::Neighbour, Some(Blamed::Unnamed)),
            };
            sums.entry(victim).or_default()[by as usize] += &growth;
            if let Some(blamed) = blamed {
                self.blame(subject, blamed, growth.wait_ns);
            }
        }
        for (victim, waited) in sums {
            if let Some(member) = members.get(&victim) {
                self.charge(&member.subject, &counted(&waited));
            }
        }
    }

    fn charge_connections(&mut self, batch: &Batch, members: &Members) {
        let known = |id| members.contains_key(&id);
        for (id, growth) in self.connects.of(&batch.connects, known) {
            if let Some(standing) = standing_of(&mut self.subjects, members, id) {
                standing.row.connects += &growth;
            }
        }
        let rows = batch.destinations.iter();
        let rows = rows.map(|row| (row.cgroup, row.destination, &row.counters));
        for (id, destination, growth) in self.destinations.of(rows, |id, _| known(id)) {
            if let Some(standing) = standing_of(&mut self.subjects, members, id) {
                standing.connect(destination, &growth, &mut self.destination_room);
            }
        }
        self.forget_destinations(batch, members);
    }

    /// Drops destinations that none of the subject's cgroups has any more.
    fn forget_destinations(&mut self, batch: &Batch, members: &Members) {
        let mut present: HashMap<&Subject, HashSet<SocketAddr>> = HashMap::new();
        for row in &batch.destinations {
            if let (Some(member), Some(address)) = (members.get(&row.cgroup), row.destination) {
                let present = present.entry(&*member.subject).or_default();
                present.insert(address);
            }
        }
        let mut taken = 0;
        for (subject, standing) in &mut self.subjects {
            let present = present.get(&**subject);
            let lives =
                |address: &SocketAddr| present.is_some_and(|present| present.contains(address));
            let list = &mut standing.row.destinations;
            list.retain(|known| lives(&known.destination));
            taken += list.len();
        }
        self.destination_room = MAX_DESTINATIONS.saturating_sub(taken);
    }

    fn charge(&mut self, subject: &Subject, growth: &Counters) {
        if let Some(standing) = self.subjects.get_mut(subject) {
            standing.charge(growth, &mut self.total);
        }
    }

    fn blame(&mut self, subject: &Subject, culprit: Blamed, wait_ns: u64) {
        if let Some(standing) = self.subjects.get_mut(subject) {
            standing.blame(culprit, wait_ns, &mut self.room);
        }
    }

    /// Drops subjects whose grace period has ended or that exceed the limit, and drops them as
    /// culprits, too.
    fn forget(&mut self, batch: &Batch) {
        let (now, grace) = (batch.taken_ns, self.grace_ns);
        let before = self.subjects.len();
        self.subjects
            .retain(|_, s| now.saturating_sub(s.seen_ns) <= grace);
        self.forget_first_ended(now);
        self.make_room(now);
        // Frees the slots of a burst of cgroups; each slot takes 1 KiB.
        self.subjects.shrink_to(2 * self.subjects.len());
        if self.subjects.len() < before {
            let left: HashSet<Arc<Subject>> = self.subjects.keys().cloned().collect();
            for standing in self.subjects.values_mut() {
                standing.row.blame.retain(|blame| match &blame.culprit {
                    Blamed::Subject(subject) => left.contains(subject),
                    Blamed::Kernel | Blamed::Unnamed => true,
                });
            }
        }
        let pairs = self.forget_idle_pairs(now);
        self.room = self.max_pairs.saturating_sub(pairs);
    }

    /// Drops idle subjects in favour of active subjects that have no row.
    fn make_room(&mut self, now: u64) {
        let subjects = self.subjects.iter();
        let placed = subjects.filter(|(subject, _)| ***subject != Subject::Overflow);
        let idle = placed.map(|(subject, standing)| {
            let used = standing.row.counters[Counter::CpuTime];
            (standing.grown_ns, used, subject.clone())
        });
        for subject in self.places.give_way(now, idle) {
            self.places.refused += 1;
            self.subjects.remove(&subject);
        }
    }

    /// Returns the number of pairs whose culprit is another subject.
    fn pairs(&self) -> usize {
        let lists = self.subjects.values().map(|s| &s.row.blame);
        lists.flatten().filter_map(named).count()
    }

    /// Drops pairs that do not grow if there is hardly any room for new pairs, and returns how many
    /// more may be added. The waits stay in the victim's counters.
    fn forget_idle_pairs(&mut self, now: u64) -> usize {
        let taken = self.pairs();
        let subjects = &self.subjects;
        let rows = || {
            subjects.iter().flat_map(|(victim, standing)| {
                let named = standing.row.blame.iter().filter_map(named);
                named.map(|(culprit, ns)| ((victim.clone(), culprit.clone()), ns))
            })
        };
        let idle = self.idle.of(now, taken, self.max_pairs, rows);
        if idle.is_empty() {
            return taken;
        }
        let left = taken - idle.len();
        let idle: HashSet<Pair> = idle.into_iter().collect();
        for (victim, standing) in &mut self.subjects {
            standing.row.blame.retain(|blame| {
                named(blame)
                    .is_none_or(|(culprit, _)| !idle.contains(&(victim.clone(), culprit.clone())))
            });
        }
        left
    }

    /// Above the limit, drops the subjects that ended first. Subjects that ended so recently that a
    /// reader may have missed it are kept.
    fn forget_first_ended(&mut self, now: u64) {
        let gone = |s: &Standing| now.saturating_sub(s.seen_ns) > LOOKED_AT_NS;
        let ended = self.subjects.iter().filter(|(_, s)| gone(s));
        let mut ended: Vec<(u64, Arc<Subject>)> =
            ended.map(|(name, s)| (s.seen_ns, name.clone())).collect();
        let over = ended.len().saturating_sub(self.max_ended);
        if over == 0 {
            return;
        }
        ended.select_nth_unstable(over - 1);
        for (_, name) in &ended[..over] {
            self.subjects.remove(name);
        }
    }
}

/// A victim and its culprit.
type Pair = (Arc<Subject>, Arc<Subject>);

/// Returns the culprit, and how long the victim waited for this culprit, in nanoseconds. Returns
/// `None` if the culprit is the kernel or unknown.
fn named(blame: &SubjectBlame) -> Option<(&Arc<Subject>, u64)> {
    match &blame.culprit {
        Blamed::Subject(culprit) => Some((culprit, blame.wait_ns)),
        Blamed::Kernel | Blamed::Unnamed => None,
    }
}

/// Waits of a cgroup in one tick, by index of [`Preemptor`], because each kind of preemptor is also
/// a cause of waits.
type Waited = [Blame; Preemptor::ALL.len()];

fn counted(waited: &Waited) -> Counters {
    let mut counters = Counters::default();
    for (by, cause) in [
        (Preemptor::Own, Cause::Own),
        (Preemptor::Neighbour, Cause::Neighbour),
        (Preemptor::Kernel, Cause::Kernel),
    ] {
        counters[Counter::Wait(cause)] = waited[by as usize].wait_ns;
        counters[Counter::PreemptedBy(by)] = waited[by as usize].preemptions;
    }
    counters
}

fn standing_of<'a>(
    subjects: &'a mut HashMap<Arc<Subject>, Box<Standing>>,
    members: &Members,
    id: CgroupId,
) -> Option<&'a mut Standing> {
    let standing = subjects.get_mut(&members.get(&id)?.subject)?;
    Some(&mut **standing)
}
