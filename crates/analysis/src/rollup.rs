//! From cgroups to the containers, units and groups that own them.

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

/// Pairs of a victim and a culprit that have rows of their own, over all subjects.
const MAX_PAIRS: usize = 1 << 14;

/// Destinations that have rows of their own, over all subjects.
const MAX_DESTINATIONS: usize = 1 << 14;

/// Subjects that stay when their last group has gone: where groups come and go by the hundred, each has
/// some 10 KB here and in what is made of it. The longest gone leave before their time is over.
const MAX_ENDED: usize = 1 << 10;

/// Each stays for that long all the same: not everybody looks at each batch, verdicts every 4 s.
const LOOKED_AT_NS: u64 = 5_000_000_000;

/// Charges the growth of each cgroup to its subject.
///
/// Working with growth keeps a subject's counters monotonic whatever happens to its groups: one
/// that is removed, or whose owner becomes known late, takes nothing back.
///
/// The kernel side has cgroups only. Here, what a cgroup waited for others is taken from the
/// matrix instead of its counters, by who the culprit is: a group of the same subject, threads of the
/// kernel, or a neighbour.
#[derive(Debug)]
pub struct Rollup {
    grace_ns: u64,
    /// Boxed, as the subjects: half of the places of a table can be empty.
    cgroups: IdMap<CgroupId, Box<Charged>>,
    /// Of the last batch.
    members: Members,
    waits: Distributions,
    connects: Distributions,
    matrix: Matrix,
    destinations: Growth<Option<SocketAddr>, DestinationCounters>,
    subjects: HashMap<Arc<Subject>, Box<Standing>>,
    /// The subject of groups whose own has no place, and of what the kernel side had no row for.
    overflow: Arc<Subject>,
    places: Places,
    /// All that was ever charged to a subject.
    total: Counters,
    /// How many subjects stay when their last group has gone.
    max_ended: usize,
    /// How many pairs of a victim and a culprit can have rows of their own, and how many more.
    max_pairs: usize,
    room: usize,
    /// Pairs that can give their rows to others.
    idle: Idle<Pair, u64>,
    /// How many more destinations can be.
    destination_room: usize,
}

/// What was charged of a cgroup.
#[derive(Debug, Default)]
struct Charged {
    counters: Counters,
    joules: Joules,
    events: EventCounters,
}

/// The subject of each cgroup that has an owner.
type Members = IdMap<CgroupId, Member>;

/// A cgroup that has an owner.
#[derive(Debug)]
struct Member {
    subject: Arc<Subject>,
    /// Whose subject it is: as long as this is the owner, nobody else is.
    owner: Arc<Owner>,
}

impl Rollup {
    /// `grace_ns`: how long a subject stays after its last group has gone.
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

    /// Fills [`Batch::subjects`], and makes the waits, preemptions and blocked time of the node the sum over
    /// all subjects that ever were. The owners of the batch's cgroups must be set already; a group
    /// without one is skipped until it has one, and charged in full then.
    pub fn apply(&mut self, batch: &mut Batch) {
        for standing in self.subjects.values_mut() {
            standing.tick = Counters::default();
            standing.row.events.sockets = Sockets::default();
            standing.row.waiting = Waiting::default();
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

    /// A recorded batch has the count already.
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

    /// The cgroups that have an owner. Their subjects are there afterwards.
    fn members_of(&mut self, batch: &Batch) -> Members {
        let mut before = std::mem::take(&mut self.members);
        let mut members = Members::with_capacity_and_hasher(before.len(), <_>::default());
        self.places
            .begin(self.subjects.keys().map(|subject| &**subject));
        // Those that have waited for a place come first.
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

    /// Whom a cgroup is charged to. One that was without a place of its own gets one when it does something.
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

    /// Groups for which the kernel side had no row have their distributions, and what they waited for
    /// neighbours, in common.
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

    /// Forgets the destinations that none of the subject's groups has any more.
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

    /// Forgets the subjects whose grace is over or for which there is no room, also as culprits.
    fn forget(&mut self, batch: &Batch) {
        let (now, grace) = (batch.taken_ns, self.grace_ns);
        let before = self.subjects.len();
        self.subjects
            .retain(|_, s| now.saturating_sub(s.seen_ns) <= grace);
        self.forget_longest_gone(now);
        self.make_room(now);
        // A burst of groups leaves no empty places, each of a KiB, behind.
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

    /// Takes the places of subjects that do nothing for those that found none.
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

    /// How many pairs there are whose culprit is another subject.
    fn pairs(&self) -> usize {
        let lists = self.subjects.values().map(|s| &s.row.blame);
        lists.flatten().filter_map(named).count()
    }

    /// Forgets pairs that do not grow, where there is hardly room for others. What the victim waited stays in
    /// its counters. Returns how many are left.
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

    /// Leaves as many as may stay of those that everybody has met without a group.
    fn forget_longest_gone(&mut self, now: u64) {
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

/// A victim and a culprit.
type Pair = (Arc<Subject>, Arc<Subject>);

/// The culprit that has a name, and for how long others waited for it.
fn named(blame: &SubjectBlame) -> Option<(&Arc<Subject>, u64)> {
    match &blame.culprit {
        Blamed::Subject(culprit) => Some((culprit, blame.wait_ns)),
        Blamed::Kernel | Blamed::Unnamed => None,
    }
}

/// What a group waited in a tick, by index of [`Preemptor`]: those who preempt are those who are waited for.
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
