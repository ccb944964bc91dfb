//! Decides which pairs of a subject and a partner get their own series.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use std::sync::Arc;

use noctule_model::{Cumulative, Subject, SubjectRow};

use super::budget::{Shown, Table};
use super::figures::Figures;
use super::view::{Born, YOUNG_NS};

/// Returns the escaped labels that identify this subject in the series of other subjects; `None`
/// until the labels are final.
pub(super) type Named<'a> = dyn Fn(&Subject) -> Option<Arc<str>> + 'a;

/// A relation between subjects and partners, with an amount for each pair.
pub(super) trait Relation {
    /// The other side of the pair.
    type Partner: Ord + Clone + Debug + 'static;
    /// Type of the amount of a pair, such as a time or a number of bytes.
    type Amount: Cumulative + Copy + Debug;
    /// Priority of a pair. The pairs with the highest rank get series.
    type Rank: Ord;

    /// Whether series start with the pair's full amount, if no other series has shown any of it.
    /// Otherwise they start at 0, and the earlier amount stays in the series of all other partners.
    const WHOLE: bool;

    /// Labels of the series that sums all partners without their own series.
    const OTHER: &'static str;

    /// Returns the partners of a subject that have their own rows.
    fn of(row: &SubjectRow) -> impl Iterator<Item = (&Self::Partner, Self::Amount)>;

    /// Returns whether the partner can have series.
    fn is_named(partner: &Self::Partner) -> bool;

    fn subject(_: &Self::Partner) -> Option<&Subject> {
        None
    }

    /// Returns the escaped labels of the partner; `None` until they are final.
    fn labels(partner: &Self::Partner, named: &Named<'_>) -> Option<Arc<str>>;

    /// Returns the rank of a pair with this amount; `None` if the amount is too small for series.
    fn rank(amount: &Self::Amount) -> Option<Self::Rank>;

    /// Returns the amount over all partners, including partners without their own row. It never
    /// grows more slowly than the sum of the rows.
    fn all(figures: &Figures) -> Self::Amount;
}

/// The series of one pair.
#[derive(Clone, Debug)]
pub(super) struct PairLine<A> {
    /// Identity labels of the subject, escaped.
    pub(super) labels: Arc<str>,
    /// Labels of the partner, escaped.
    pub(super) partner: Arc<str>,
    pub(super) born: Born,
    pub(super) amount: A,
}

/// The pairs of all levels, which share one limit.
#[derive(Debug)]
pub(super) struct Pairs<R: Relation> {
    room: usize,
    grace_ns: u64,
    subjects: HashMap<Subject, Partners<R>>,
    /// Number of pairs that should have series but got none because of the limit.
    overflowed: usize,
    other: Arc<str>,
    /// Time of the previous batch, nanoseconds since 1970.
    before_unix_ns: u64,
}

#[derive(Debug)]
struct Partners<R: Relation> {
    seen_ns: u64,
    /// When the counters of the first pairs were 0, in nanoseconds since 1970; 0 for the previous
    /// batch.
    start_unix_ns: u64,
    /// Whether the subject had series in the previous batch, so that the values of its pairs were
    /// shown.
    shown_before: bool,
    pairs: BTreeMap<R::Partner, Pair<R::Amount>>,
    /// Growth of the subject's pairs while they had series, including pairs that no longer exist.
    shown: R::Amount,
    /// When the subject got its first partner; 0 if it never had one.
    began_ns: u64,
    /// Value of the series of all other partners when the subject got its name.
    unnamed_rest: R::Amount,
    /// The series of the subject's pairs from before it got its name.
    unnamed: Vec<PairLine<R::Amount>>,
}

impl<R: Relation> Default for Partners<R> {
    fn default() -> Self {
        Self {
            seen_ns: 0,
            start_unix_ns: 0,
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
    /// Returns the subject's series under the labels of `row`. `other` labels the series of all
    /// partners without their own series.
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
                // Most subjects have no partner, so they need no such series.
                return lines;
            }
            born.began_ns = born.began_ns.max(self.began_ns);
        }
        lines.push(line(other, born, self.rest(row).since(&self.unnamed_rest)));
        lines
    }

    /// Returns the total of the series of all other partners, under all labels that the subject has
    /// had.
    fn rest(&self, row: &Shown<'_>) -> R::Amount {
        let [now, overflowed] = row.figures;
        R::all(now).since(&R::all(overflowed)).since(&self.shown)
    }

    /// Ends the series without the subject's name. The series with the name begin at 0.
    fn begin_named(&mut self, at: u64, row: &Shown<'_>, unnamed: Shown<'_>, other: &Arc<str>) {
        self.unnamed = self.lines(at, &unnamed, other);
        self.unnamed_rest = self.rest(row);
        for pair in self.pairs.values_mut() {
            pair.begin_again(row.born);
        }
    }
}

/// The growing pairs that have series, by subject.
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

    /// Takes series from a pair of the subject with the most series, if that subject has at least
    /// two more than `to`.
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
    /// When the pair's series began. They continue when the pair gets series again. `began_ns` is 0
    /// before the pair first gets series.
    born: Born,
    seen_ns: u64,
    grown_ns: u64,
    /// Labels of the partner, kept once they are final.
    labels: Option<Arc<str>>,
    now: A,
    /// How much of `now` is counted in the series of all other partners.
    charged: A,
    shown: bool,
    /// Time at which the pair got its series.
    shown_ns: u64,
    /// Whether no value of the pair was shown before it got its series.
    fresh: bool,
    /// Time at which the value of the pair's series last changed, or at which the pair got its
    /// series.
    changed_ns: u64,
    /// Value of the pair's row in the last batch. A row that was evicted restarts at 0.
    row: A,
}

impl<R: Relation> Pairs<R> {
    /// Creates an empty set. `grace_ns` is how long a pair keeps its series without growth if
    /// another pair needs series.
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

    /// Like [`Table::begin`].
    pub(super) fn begin(&mut self, before_unix_ns: u64) {
        self.before_unix_ns = before_unix_ns;
    }

    /// Sets when the counters of a subject were 0, in nanoseconds since 1970, if the next batch is
    /// the first with the subject. Like [`Table::date`].
    pub(super) fn date(&mut self, subject: &Subject, start_unix_ns: u64) {
        if !self.subjects.contains_key(subject) {
            let partners = Partners {
                start_unix_ns,
                ..Partners::default()
            };
            self.subjects.insert(subject.clone(), partners);
        }
    }

    /// Returns the number of pairs that should have series but got none because of the limit.
    pub(super) fn overflowed(&self) -> usize {
        self.overflowed
    }

    /// Processes the rows of a batch and decides which pairs have series.
    ///
    /// If a subject has series, `shown` returns its figures and how much of them is counted in the
    /// overflow row. The pairs of a subject never get series before the subject does.
    pub(super) fn observe<'a>(
        &mut self,
        at: u64,
        rows: &[&SubjectRow],
        shown: impl Fn(&Subject) -> Option<[&'a Figures; 2]>,
        named: &Named<'_>,
    ) {
        for row in rows {
            self.see(at, row);
        }
        self.subjects.retain(|_, partners| partners.seen_ns == at);
        let living: HashSet<&Subject> = rows.iter().map(|row| &row.subject).collect();
        for partners in self.subjects.values_mut() {
            partners.pairs.retain(|partner, pair| {
                let is_there = pair.seen_ns == at;
                if !is_there {
                    pair.leave();
                }
                // A subject that ended had its own grace period.
                let has_ended = R::subject(partner).is_some_and(|it| !living.contains(it));
                is_there || pair.is_listed(at) && !has_ended
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
        let start_unix_ns = match std::mem::take(&mut partners.start_unix_ns) {
            0 => self.before_unix_ns,
            start_unix_ns => start_unix_ns,
        };
        let Partners { pairs, shown, .. } = partners;
        // Both lists are sorted by partner and mostly equal, so the common case needs no search.
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
                let new = || Pair::new(at, start_unix_ns);
                let pair = pairs.entry(partner.clone()).or_insert_with(new);
                pair.count(at, &amount, shown);
            }
        }
    }

    /// Gives series to the pairs that rank first.
    ///
    /// A pair keeps its series while it grows or no other pair needs them. However, the subject
    /// with the most pairs gives up the series of one pair to a subject with fewer pairs, so that
    /// no subject can take the whole limit.
    ///
    /// After a pair has lost the right to its series, they are still shown until all readers have
    /// the last value. The number of such series is at most the limit. While the number is at the
    /// limit, no pair takes over the series of another pair.
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
            // The part that is counted in the overflow row stays there.
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
            // The newest pair loses its series first.
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

    /// Returns the series of a level after this batch.
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
    /// Records the current amount. Adds the growth to `shown` if the pair has series.
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

    /// Gives the pair its own series. Its earlier amount stays in the series of all other partners,
    /// unless the pair is fresh.
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

    /// Withdraws the pair's series, because its row no longer exists.
    fn leave(&mut self) {
        self.shown = false;
        self.row = A::default();
    }

    /// Returns whether the pair has series, or its old series are still shown.
    fn is_listed(&self, at: u64) -> bool {
        self.shown || self.stays(at)
    }

    /// Returns whether the pair's series are still shown although it has lost the right to have
    /// them. They are kept until a reader that scrapes every five minutes has seen the last value.
    fn stays(&self, at: u64) -> bool {
        self.born.began_ns > 0 && at.saturating_sub(self.changed_ns) <= YOUNG_NS
    }

    /// Returns the value of the pair's series.
    fn shown(&self) -> A {
        self.now.since(&self.charged)
    }

    /// Restarts the pair's series at 0. Another series includes the earlier amount.
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
