//! Which pairs of a subject and a partner have series of their own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::Arc;

use noctule_model::{Cumulative, Subject, SubjectRow};

use super::budget::{Shown, Table};
use super::figures::Figures;
use super::view::{Born, YOUNG_NS};

/// The labels of a subject that can be named in the series of another one, escaped; `None` while they are
/// not settled.
pub(super) type Named<'a> = dyn Fn(&Subject) -> Option<Arc<str>> + 'a;

/// The figures of a subject for each of its partners.
pub(super) trait Relation {
    /// With whom.
    type Partner: Ord + Clone + Debug + 'static;
    /// What is counted.
    type Amount: Cumulative + Copy + Debug;
    /// What decides who gets a place: the largest first.
    type Rank: Ord;

    /// Whether a pair that gets a place before anything of it was shown begins with what it has;
    /// else at 0, and what it has is with all others.
    const WHOLE: bool;

    /// Labels of the series of all partners that have none of their own.
    const OTHER: &'static str;

    /// The partners of a subject that have rows of their own.
    fn of(row: &SubjectRow) -> impl Iterator<Item = (&Self::Partner, Self::Amount)>;

    /// Whether it can have series.
    fn is_named(partner: &Self::Partner) -> bool;

    /// Labels of the partner, escaped; `None` while they are not settled.
    fn labels(partner: &Self::Partner, named: &Named<'_>) -> Option<Arc<str>>;

    /// `None` while there is too little for series.
    fn rank(amount: &Self::Amount) -> Option<Self::Rank>;

    /// The amount of all partners together, those with rows of their own and others. Grows by no less
    /// than these do.
    fn all(figures: &Figures) -> Self::Amount;
}

/// One set of series.
#[derive(Clone, Debug)]
pub(super) struct PairLine<A> {
    /// Identity labels of the subject, escaped.
    pub(super) labels: Arc<str>,
    /// Labels of the partner, escaped.
    pub(super) partner: Arc<str>,
    pub(super) born: Born,
    pub(super) amount: A,
}

/// The pairs of all levels: they share one number of places.
#[derive(Debug)]
pub(super) struct Pairs<R: Relation> {
    room: usize,
    grace_ns: u64,
    subjects: HashMap<Subject, Partners<R>>,
    /// Pairs that should have a series and found no place.
    overflowed: usize,
    other: Arc<str>,
    /// When the batch before this one was taken, nanoseconds since 1970.
    before_unix_ns: u64,
}

#[derive(Debug)]
struct Partners<R: Relation> {
    seen_ns: u64,
    /// It had series in the batch before: what its pairs had then was shown.
    shown_before: bool,
    pairs: BTreeMap<R::Partner, Pair<R::Amount>>,
    /// What its pairs added while they had series, those that are gone included.
    shown: R::Amount,
    /// When it had a partner for the first time; 0: never.
    began_ns: u64,
    /// What the series of all others had when the subject got its name.
    unnamed_rest: R::Amount,
    /// The series that its pairs had before the subject got its name.
    unnamed: Vec<PairLine<R::Amount>>,
}

impl<R: Relation> Default for Partners<R> {
    fn default() -> Self {
        Self {
            seen_ns: 0,
            shown_before: false,
            pairs: BTreeMap::new(),
            shown: R::Amount::default(),
            began_ns: 0,
            unnamed_rest: R::Amount::default(),
            unnamed: Vec::new(),
        }
    }
}

impl<R: Relation> Partners<R> {
    /// Its series under these labels. `other`: the labels of all others.
    fn lines(&self, at: u64, row: &Shown<'_>, other: &Arc<str>) -> Vec<PairLine<R::Amount>> {
        let line = |partner: &Arc<str>, born, amount| PairLine {
            labels: row.labels.clone(),
            partner: partner.clone(),
            born,
            amount,
        };
        let listed = self.pairs.values().filter(|pair| pair.is_listed(at));
        let pairs = listed.filter_map(|pair| Some((pair, pair.labels.as_ref()?)));
        let mut lines: Vec<_> = pairs
            .map(|(pair, name)| line(name, pair.born, pair.shown()))
            .collect();
        let mut born = row.born;
        if R::WHOLE {
            if self.began_ns == 0 {
                // Most subjects have no partner.
                return lines;
            }
            born.began_ns = born.began_ns.max(self.began_ns);
        }
        lines.push(line(other, born, self.rest(row).since(&self.unnamed_rest)));
        lines
    }

    /// What the series of all others have had under all labels of the subject.
    fn rest(&self, row: &Shown<'_>) -> R::Amount {
        let [now, overflowed] = row.figures;
        R::all(now).since(&R::all(overflowed)).since(&self.shown)
    }

    /// Ends the series before the subject had a name and begins those with its name at 0.
    fn begin_named(&mut self, at: u64, row: &Shown<'_>, unnamed: Shown<'_>, other: &Arc<str>) {
        self.unnamed = self.lines(at, &unnamed, other);
        self.unnamed_rest = self.rest(row);
        for pair in self.pairs.values_mut() {
            pair.begin_again(row.born);
        }
    }
}

/// The pairs that have places and grow, by subject.
struct Holders<'a, A>(HashMap<&'a Subject, Held<'a, A>>);

struct Held<'a, A> {
    places: usize,
    pairs: Vec<&'a mut Pair<A>>,
}

impl<A> Default for Holders<'_, A> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<'a, A> Holders<'a, A> {
    fn hold(&mut self, subject: &'a Subject, pairs: Vec<&'a mut Pair<A>>) {
        let places = pairs.len();
        if places > 0 {
            self.0.insert(subject, Held { places, pairs });
        }
    }

    fn count(&mut self, subject: &'a Subject) {
        let held = self.0.entry(subject).or_insert_with(|| Held {
            places: 0,
            pairs: Vec::new(),
        });
        held.places += 1;
    }

    fn sort(&mut self) {
        for held in self.0.values_mut() {
            held.pairs.sort_by_key(|pair| pair.shown_ns);
        }
    }

    /// A pair of the subject with the most places, if that has at least two more than this one.
    fn give_way(&mut self, to: &Subject) -> Option<&'a mut Pair<A>> {
        let own = self.0.get(to).map_or(0, |held| held.places);
        let holders = self.0.iter_mut();
        let able = holders.filter(|(_, held)| held.places >= own + 2 && !held.pairs.is_empty());
        let (_, most) = able.max_by(|a, b| (a.1.places, a.0).cmp(&(b.1.places, b.0)))?;
        most.places -= 1;
        most.pairs.pop()
    }
}

#[derive(Debug)]
struct Pair<A> {
    first_ns: u64,
    /// When its series began, which goes on where it was with each later place; `began_ns` is 0 before.
    born: Born,
    seen_ns: u64,
    grown_ns: u64,
    /// Kept once they are settled.
    labels: Option<Arc<str>>,
    now: A,
    /// The part that is in the series of all others.
    charged: A,
    shown: bool,
    /// When it got its place.
    shown_ns: u64,
    /// Nothing of it was shown before it got its place.
    fresh: bool,
    /// When its series got its value or its place.
    changed_ns: u64,
    /// Its row as of the last batch. Rows that were taken out come again from 0 on.
    row: A,
}

impl<R: Relation> Pairs<R> {
    /// `grace_ns`: how long a pair that does not grow keeps its place when others want it.
    pub(super) fn new(room: usize, grace_ns: u64) -> Self {
        Self {
            room,
            grace_ns,
            subjects: HashMap::new(),
            overflowed: 0,
            other: R::OTHER.into(),
            before_unix_ns: 0,
        }
    }

    /// As [`Table::begin`].
    pub(super) fn begin(&mut self, before_unix_ns: u64) {
        self.before_unix_ns = before_unix_ns;
    }

    /// How many pairs should have a series and found no place.
    pub(super) fn overflowed(&self) -> usize {
        self.overflowed
    }

    /// Takes the subjects of a batch and gives places away. `shown` says whether a subject has
    /// series, and then its figures and the part of them that is in the overflow; the series of its pairs
    /// come with them or later.
    pub(super) fn observe<'a>(
        &mut self,
        at: u64,
        rows: &[SubjectRow],
        shown: impl Fn(&Subject) -> Option<[&'a Figures; 2]>,
        named: &Named<'_>,
    ) {
        for row in rows {
            self.see(at, row);
        }
        self.subjects.retain(|_, partners| partners.seen_ns == at);
        for partners in self.subjects.values_mut() {
            partners.pairs.retain(|_, pair| {
                let is_there = pair.seen_ns == at;
                if !is_there {
                    pair.leave();
                }
                is_there || pair.is_listed(at)
            });
        }
        self.place(at, shown, named);
    }

    fn see(&mut self, at: u64, row: &SubjectRow) {
        if !self.subjects.contains_key(&row.subject) {
            let partners = Partners::default();
            self.subjects.insert(row.subject.clone(), partners);
        }
        let Some(partners) = self.subjects.get_mut(&row.subject) else {
            return;
        };
        partners.seen_ns = at;
        let Partners { pairs, shown, .. } = partners;
        // Both are in the order of partners, and mostly have the same: nothing is searched then.
        let mut known = pairs.iter_mut().peekable();
        let mut others = Vec::new();
        for (partner, amount) in R::of(row) {
            while known
                .next_if(|(key, _)| *key != partner && *key < partner)
                .is_some()
            {}
            match known.next_if(|(key, _)| *key == partner) {
                Some((_, pair)) => pair.count(at, &amount, shown),
                None => others.push((partner, amount)),
            }
        }
        for (partner, amount) in others {
            if R::is_named(partner) {
                let new = || Pair::new(at, self.before_unix_ns);
                let pair = pairs.entry(partner.clone()).or_insert_with(new);
                pair.count(at, &amount, shown);
            }
        }
    }

    /// Places go to the pairs that rank first. A pair that has a place keeps it while it grows, and as long as
    /// no other pair wants it; but a subject with fewer places than another takes one from the subject that has
    /// most, so that no subject can have all of them.
    ///
    /// Series of pairs without a place stay until all readers have their last value. There are at most as many of these
    /// as places: no more pairs change places until then.
    fn place<'a>(
        &mut self,
        at: u64,
        shown: impl Fn(&Subject) -> Option<[&'a Figures; 2]>,
        named: &Named<'_>,
    ) {
        let (grace_ns, before_unix_ns) = (self.grace_ns, self.before_unix_ns);
        let quiet_ns = |pair: &Pair<_>| at.saturating_sub(pair.grown_ns);
        let (mut taken, mut listed) = (0, 0);
        let mut quiet = Vec::new();
        let mut waiting = Vec::new();
        let mut holders = Holders::default();
        for (subject, partners) in &mut self.subjects {
            let figures = shown(subject);
            let has_series = figures.is_some();
            let none = R::Amount::default();
            if partners.began_ns == 0 && figures.is_some_and(|[now, _]| R::all(now) != none) {
                partners.began_ns = at;
            }
            // What is in the overflow stays there.
            let whole = figures.is_some_and(|[_, overflowed]| R::all(overflowed) == none);
            let began = !std::mem::replace(&mut partners.shown_before, has_series);
            let mut held = Vec::new();
            for (partner, pair) in &mut partners.pairs {
                pair.fresh = R::WHOLE && whole && !pair.shown && (began || pair.first_ns == at);
                taken += usize::from(pair.shown);
                listed += usize::from(pair.is_listed(at));
                let is_quiet = quiet_ns(pair) > grace_ns;
                if pair.shown && is_quiet {
                    quiet.push((subject, pair));
                } else if pair.shown {
                    held.push(pair);
                } else if pair.seen_ns == at && !is_quiet && has_series {
                    let Some(rank) = R::rank(&pair.now) else {
                        continue;
                    };
                    if pair.labels.is_none() {
                        pair.labels = R::labels(partner, named);
                    }
                    if pair.labels.is_some() {
                        waiting.push((Reverse(rank), subject, partner, pair));
                    }
                }
            }
            holders.hold(subject, held);
        }
        waiting.sort_by(|a, b| (&a.0, a.1, a.2).cmp(&(&b.0, b.1, b.2)));
        quiet.sort_by_key(|(_, pair)| quiet_ns(pair));
        if !waiting.is_empty() {
            // The newest gives way first.
            holders.sort();
        }
        self.overflowed = 0;
        for (_, subject, _, pair) in waiting {
            let wanted = listed + usize::from(!pair.is_listed(at));
            let has_room = wanted <= 2 * self.room;
            let leaves = |it: &Pair<_>| has_room || !it.stays(at);
            if taken < self.room && has_room {
                taken += 1;
                listed = wanted;
            } else if taken < self.room {
                self.overflowed += 1;
                continue;
            } else if let Some((_, longest)) = quiet.pop_if(|(_, pair)| leaves(pair)) {
                listed = wanted - usize::from(!longest.stays(at));
                longest.shown = false;
            } else if let Some(other) = has_room.then(|| holders.give_way(subject)).flatten() {
                listed = wanted;
                other.shown = false;
            } else {
                self.overflowed += 1;
                continue;
            }
            holders.count(subject);
            pair.take_place(at, before_unix_ns);
        }
        for partners in self.subjects.values_mut() {
            for pair in partners.pairs.values_mut() {
                if std::mem::take(&mut pair.fresh) && pair.shown {
                    pair.charged = R::Amount::default();
                    partners.shown += &pair.now;
                }
            }
        }
    }

    /// The series of a level, as of now.
    pub(super) fn lines(
        &mut self,
        at: u64,
        table: &Table<Subject>,
        overflow: &Arc<str>,
    ) -> Vec<PairLine<R::Amount>> {
        let mut lines = Vec::new();
        for (subject, row) in table.shown() {
            let nobody = &mut Partners::default();
            let partners = self.subjects.get_mut(subject).unwrap_or(nobody);
            if let Some(unnamed) = row.before_named(at) {
                partners.begin_named(at, &row, unnamed, &self.other);
            }
            lines.extend(partners.lines(at, &row, &self.other));
            match row.unnamed(at) {
                Some(_) => lines.extend(partners.unnamed.iter().cloned()),
                None => partners.unnamed = Vec::new(),
            }
        }
        let overflowed = table.overflow();
        lines.extend(overflowed.map(|(figures, born)| PairLine {
            labels: overflow.clone(),
            partner: self.other.clone(),
            born,
            amount: R::all(figures),
        }));
        lines
    }
}

impl<A: Cumulative> Pair<A> {
    /// Takes what it has now; what it grew by goes to `shown` if it has series.
    fn count(&mut self, at: u64, amount: &A, shown: &mut A) {
        let growth = amount.since(&self.row);
        self.seen_ns = at;
        if growth == A::default() {
            return;
        }
        self.grown_ns = at;
        self.row += &growth;
        self.now += &growth;
        if self.shown {
            self.changed_ns = at;
            *shown += &growth;
        } else {
            self.charged += &growth;
        }
    }

    /// Gives it a place. All it had is in the series of all others and stays there, unless it is fresh.
    fn take_place(&mut self, at: u64, before_unix_ns: u64) {
        if self.born.began_ns == 0 {
            self.born.began_ns = at;
            if !self.fresh {
                self.born.start_unix_ns = before_unix_ns;
            }
        }
        self.shown = true;
        self.shown_ns = at;
        self.changed_ns = at;
    }

    /// Its row is gone, and its place.
    fn leave(&mut self) {
        self.shown = false;
        self.row = A::default();
    }

    /// Whether it has a series: with a place, or since it had one.
    fn is_listed(&self, at: u64) -> bool {
        self.shown || self.stays(at)
    }

    /// Whether its series stays without a place: until a reader that looks every five minutes has its last value.
    fn stays(&self, at: u64) -> bool {
        self.born.began_ns > 0 && at.saturating_sub(self.changed_ns) <= YOUNG_NS
    }

    /// What its series has.
    fn shown(&self) -> A {
        self.now.since(&self.charged)
    }

    /// Its series begins now, at 0. What it had is in another series.
    fn begin_again(&mut self, born: Born) {
        self.charged = self.now.clone();
        self.born = Born {
            began_ns: if self.shown { born.began_ns } else { 0 },
            ..born
        };
    }

    fn new(at: u64, start_unix_ns: u64) -> Self {
        Self {
            first_ns: at,
            born: Born {
                began_ns: 0,
                start_unix_ns,
            },
            seen_ns: at,
            grown_ns: at,
            labels: None,
            now: A::default(),
            charged: A::default(),
            shown: false,
            shown_ns: 0,
            fresh: false,
            changed_ns: 0,
            row: A::default(),
        }
    }
}

#[cfg(test)]
mod tests;
