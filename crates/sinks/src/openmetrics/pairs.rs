//! Which pairs of a subject and a partner have series of their own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::Arc;

use noctule_model::{Cumulative, Subject, SubjectRow};

use super::budget::Table;
use super::figures::Figures;
use super::reader::{Reader, Seen};
use super::view::Born;

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
    seen: Seen,
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
}

impl<R: Relation> Default for Partners<R> {
    fn default() -> Self {
        Self {
            seen_ns: 0,
            shown_before: false,
            pairs: BTreeMap::new(),
            shown: R::Amount::default(),
            began_ns: 0,
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
    /// What its series had when a reader saw it last.
    scraped: A,
    /// It lost its place in this batch.
    lost: bool,
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
            seen: Seen::default(),
            before_unix_ns: 0,
        }
    }

    /// As [`Table::begin`].
    pub(super) fn begin(&mut self, before_unix_ns: u64) {
        self.before_unix_ns = before_unix_ns;
    }

    /// A reader has seen the batch that was taken then, which was observed last. A pair that loses its place leaves
    /// to the series of all others what no reader has seen of it.
    pub(super) fn shown_to(&mut self, reader: Reader, taken_ns: u64) {
        let seen = self.seen;
        let pairs = self
            .subjects
            .values_mut()
            .flat_map(|p| p.pairs.values_mut());
        for pair in pairs.filter(|pair| pair.shown && pair.shown_ns <= taken_ns) {
            // Its first look at it is at 0.
            if !seen.sees_zero(reader, pair.born, taken_ns) {
                pair.scraped = pair.shown();
            }
        }
        self.seen.note(reader, taken_ns);
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
        let follows = self.seen.is_known();
        for Partners { pairs, shown, .. } in self.subjects.values_mut() {
            pairs.retain(|_, pair| {
                let stays = pair.seen_ns == at;
                if !stays && pair.shown && follows {
                    pair.give_back(shown);
                }
                stays
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

    /// Places go to who ranks first. One that has a place keeps it while it grows, and as long as
    /// nobody else wants it; but a subject with fewer places than another takes one from the subject that has
    /// most, so that nobody can have all of them.
    fn place<'a>(
        &mut self,
        at: u64,
        shown: impl Fn(&Subject) -> Option<[&'a Figures; 2]>,
        named: &Named<'_>,
    ) {
        let (grace_ns, before_unix_ns) = (self.grace_ns, self.before_unix_ns);
        let quiet_ns = |pair: &Pair<_>| at.saturating_sub(pair.grown_ns);
        let mut taken = 0;
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
                let is_quiet = quiet_ns(pair) > grace_ns;
                if pair.shown && is_quiet {
                    quiet.push((subject, pair));
                } else if pair.shown {
                    held.push(pair);
                } else if !is_quiet && has_series {
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
        let mut free = self.room.saturating_sub(taken);
        self.overflowed = 0;
        for (_, subject, _, pair) in waiting {
            if free > 0 {
                free -= 1;
            } else if let Some((_, longest)) = quiet.pop() {
                longest.lose();
            } else if let Some(other) = holders.give_way(subject) {
                other.lose();
            } else {
                self.overflowed += 1;
                continue;
            }
            holders.count(subject);
            // Else all so far is in the series of all others and stays there: this one starts at 0.
            if pair.born.began_ns == 0 {
                pair.born.began_ns = at;
                if !pair.fresh {
                    pair.born.start_unix_ns = before_unix_ns;
                }
            }
            pair.shown = true;
            pair.shown_ns = at;
        }
        let follows = self.seen.is_known();
        for partners in self.subjects.values_mut() {
            for pair in partners.pairs.values_mut() {
                if std::mem::take(&mut pair.lost) && follows {
                    pair.give_back(&mut partners.shown);
                }
                if std::mem::take(&mut pair.fresh) && pair.shown {
                    pair.charged = R::Amount::default();
                    partners.shown += &pair.now;
                }
            }
        }
    }

    /// The series of a level, as of now.
    pub(super) fn lines(
        &self,
        table: &Table<Subject>,
        overflow: &Arc<str>,
    ) -> Vec<PairLine<R::Amount>> {
        let mut lines = Vec::new();
        let line = |labels: &Arc<str>, partner: &Arc<str>, born, amount| PairLine {
            labels: labels.clone(),
            partner: partner.clone(),
            born,
            amount,
        };
        for (subject, labels, [now, overflowed]) in table.shown() {
            let partners = self.subjects.get(subject);
            let pairs = partners.into_iter().flat_map(|p| p.pairs.values());
            let shown = pairs.filter(|pair| pair.shown);
            for (pair, name) in shown.filter_map(|pair| Some((pair, pair.labels.as_ref()?))) {
                lines.push(line(labels, name, pair.born, pair.shown()));
            }
            let began_ns = partners.map_or(0, |partners| partners.began_ns);
            let mut born = table.born(subject);
            if R::WHOLE {
                if began_ns == 0 {
                    // Most subjects have no partner.
                    continue;
                }
                born.began_ns = born.began_ns.max(began_ns);
            }
            let shown = partners.map_or_else(R::Amount::default, |p| p.shown);
            let rest = R::all(now).since(&R::all(overflowed)).since(&shown);
            lines.push(line(labels, &self.other, born, rest));
        }
        let overflowed = table.overflow();
        lines.extend(
            overflowed.map(|(figures, born)| line(overflow, &self.other, born, R::all(figures))),
        );
        lines
    }
}

impl<A: Cumulative> Pair<A> {
    /// Takes what it has now; what it grew by goes to `shown` if it has series.
    fn count(&mut self, at: u64, amount: &A, shown: &mut A) {
        let growth = amount.since(&self.now);
        self.seen_ns = at;
        if growth == A::default() {
            return;
        }
        self.grown_ns = at;
        self.now += &growth;
        if self.shown {
            *shown += &growth;
        } else {
            self.charged += &growth;
        }
    }

    fn lose(&mut self) {
        self.shown = false;
        self.lost = true;
    }

    /// What its series has.
    fn shown(&self) -> A {
        self.now.since(&self.charged)
    }

    /// What its series has and no reader has seen is with all others from now on: else nobody would ever
    /// see it, because the series ends. `shown` is of all pairs of the subject.
    fn give_back(&mut self, shown: &mut A) {
        let unseen = self.shown().since(&self.scraped);
        self.charged += &unseen;
        *shown = shown.since(&unseen);
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
            scraped: A::default(),
            lost: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use noctule_model::{
        Blamed, Cause, CgroupId, Counter, Counters, DestinationCounter, DestinationCounters,
        Measured, Owner, SubjectBlame, SubjectDestination,
    };

    use super::super::blame::{Blame, culprit_labels};
    use super::super::budget::Admission;
    use super::super::destinations::Destinations;
    use super::super::view::View;
    use super::*;

    const MS: u64 = 1_000_000;

    fn unit(name: &str) -> Subject {
        Subject::Unit(name.into())
    }

    /// A victim that waited for these culprits, in ms; the empty name stands for the unnamed.
    fn row(name: &str, blame: &[(&str, u64)]) -> SubjectRow {
        let culprit = |name: &str| match name {
            "" => Blamed::Unnamed,
            "kernel" => Blamed::Kernel,
            name => Blamed::Subject(Arc::new(unit(name))),
        };
        let mut counters = Counters::default();
        counters[Counter::Wait(Cause::Neighbour)] = blame.iter().map(|(_, ms)| ms * MS).sum();
        let blame = blame.iter().map(|(name, ms)| SubjectBlame {
            culprit: culprit(name),
            wait_ns: ms * MS,
        });
        SubjectRow {
            counters,
            blame: blame.collect(),
            ..SubjectRow::new(unit(name), Arc::new(Owner::unknown(CgroupId(1))))
        }
    }

    struct Steps<R: Relation> {
        table: Table<Subject>,
        pairs: Pairs<R>,
        scraped_ns: u64,
    }

    impl<R: Relation> Steps<R> {
        fn new(subjects: usize, pairs: usize) -> Self {
            Self {
                table: Table::new(subjects, 0),
                pairs: Pairs::new(pairs, 100),
                scraped_ns: 0,
            }
        }

        /// One batch.
        fn lines(&mut self, at: u64, rows: &[SubjectRow]) -> Vec<PairLine<R::Amount>> {
            for row in rows {
                let figures = Figures::of_subject(row);
                self.table.see(&row.subject, at, &figures, None);
            }
            self.table.sweep(at);
            for row in rows {
                let Subject::Unit(name) = &row.subject else {
                    continue;
                };
                self.table
                    .place(&row.subject, |_| Admission::Show(name.as_str().into()));
            }
            let rest = "rest".into();
            self.table.lines(at, &rest, Measured::NONE, None);
            let named = |s: &Subject| Some(culprit_labels(s, &Owner::unknown(CgroupId(1))));
            let shown = |s: &_| self.table.figures(s);
            self.pairs.observe(at, rows, shown, &named);
            self.pairs.lines(&self.table, &rest)
        }
    }

    impl Steps<Blame> {
        /// One batch: the series as `victim<culprit=ms`.
        fn step(&mut self, at: u64, rows: &[SubjectRow]) -> String {
            let show = |l: PairLine<u64>| {
                let name = l.partner.split('"').nth(1).expect("the label culprit");
                format!("{}<{name}={}", l.labels, l.amount / MS)
            };
            let lines = self.lines(at, rows).into_iter();
            lines.map(show).collect::<Vec<_>>().join(" ")
        }
    }

    impl Steps<Destinations> {
        /// One batch that a scrape shows, of a row with so many connects to each port: the series as
        /// `port=connects`, and their sum.
        fn scrape(&mut self, at: u64, connects: &[(u16, u64)]) -> (String, u64) {
            let mut row = row("v", &[]);
            for (port, connects) in connects {
                let mut counters = DestinationCounters::default();
                counters[DestinationCounter::Connects] = *connects;
                row.all_destinations += &counters;
                let destination = ([10, 0, 0, 1], *port).into();
                row.destinations.push(SubjectDestination {
                    destination,
                    counters,
                });
            }
            let lines = self.lines(at, &[row]);
            let view = View::Since(self.scraped_ns);
            self.scraped_ns = at;
            self.pairs.shown_to(Reader::Scrapes, at);
            let count = |l: &PairLine<DestinationCounters>| match view.is_new(l.born, at) {
                true => 0,
                false => l.amount[DestinationCounter::Connects],
            };
            let show = |l: &PairLine<_>| {
                let name = l.partner.split('"').nth(1).expect("the label destination");
                format!("{}={}", name.trim_start_matches("10.0.0.1:"), count(l))
            };
            let text = lines.iter().map(show).collect::<Vec<_>>().join(" ");
            (text, lines.iter().map(count).sum())
        }
    }

    #[test]
    fn a_pair_above_the_floor_starts_at_0_and_the_sum_closes() {
        let mut steps = Steps::new(9, 9);
        let cases = [
            (vec![], "v<_other=0"),
            (vec![("a", 9)], "v<_other=9"),
            (vec![("a", 9), ("", 50)], "v<_other=59"),
            (vec![("a", 12), ("", 50)], "v<unit:a=0 v<_other=62"),
            (vec![("a", 15), ("", 51)], "v<unit:a=3 v<_other=63"),
            (
                vec![("kernel", 20), ("a", 15), ("", 51)],
                "v<kernel=0 v<unit:a=3 v<_other=83",
            ),
            (
                vec![("kernel", 21), ("a", 17), ("", 51)],
                "v<kernel=1 v<unit:a=5 v<_other=83",
            ),
        ];
        for (at, (blame, expected)) in (1..).zip(cases) {
            assert_eq!(steps.step(at, &[row("v", &blame)]), expected);
        }
        assert_eq!(steps.pairs.overflowed(), 0);
    }

    #[test]
    fn places_go_to_the_most_blame_and_from_who_is_quiet() {
        let mut steps = Steps::new(9, 1);
        let blame = |a, b| [row("v", &[("a", a), ("b", b)])];
        assert_eq!(steps.step(1, &blame(20, 30)), "v<unit:b=0 v<_other=50");
        assert_eq!(steps.pairs.overflowed(), 1);
        // Others with more blame take nothing from one that grows.
        assert_eq!(steps.step(2, &blame(90, 31)), "v<unit:b=1 v<_other=120");
        assert_eq!(steps.step(102, &blame(91, 31)), "v<unit:b=1 v<_other=121");
        assert_eq!(steps.step(103, &blame(92, 31)), "v<unit:a=0 v<_other=122");
        // Its later growth is with all others; once it has a place again, it goes on from there.
        assert_eq!(steps.step(104, &blame(93, 35)), "v<unit:a=1 v<_other=126");
        assert_eq!(steps.pairs.overflowed(), 1);
        assert_eq!(steps.step(300, &blame(93, 36)), "v<unit:b=1 v<_other=127");
        assert_eq!(steps.step(301, &blame(93, 38)), "v<unit:b=3 v<_other=127");
    }

    /// Its first connects were seen: the next place is none to begin at 0 with, and the sum stays.
    #[test]
    fn a_destination_that_has_a_place_again_goes_on_from_what_it_had() {
        let mut steps: Steps<Destinations> = Steps::new(9, 1);
        steps.pairs.shown_to(Reader::Scrapes, 0);
        let cases = [
            (1, [(80, 7), (81, 3)], ("80=0 _other=0", 0)),
            (2, [(80, 7), (81, 3)], ("80=7 _other=3", 10)),
            // 80 is quiet for longer than the grace.
            (103, [(80, 7), (81, 4)], ("81=0 _other=4", 4)),
            (104, [(80, 7), (81, 5)], ("81=1 _other=4", 5)),
            // What it did without a place stays with all others.
            (105, [(80, 9), (81, 5)], ("81=1 _other=6", 7)),
            (300, [(80, 10), (81, 5)], ("80=7 _other=7", 14)),
            (301, [(80, 12), (81, 5)], ("80=9 _other=7", 16)),
        ];
        for (at, connects, (text, sum)) in cases {
            assert_eq!(steps.scrape(at, &connects), (text.to_owned(), sum));
        }
    }

    #[test]
    fn a_subject_with_fewer_places_takes_one_and_what_no_scrape_saw_stays_in_the_sum() {
        let mut steps = Steps::new(9, 2);
        steps.pairs.shown_to(Reader::Scrapes, 0);
        let rows = |a, b| [row("v", &[("a", a), ("b", b)])];
        let text = "v<unit:a=0 v<unit:b=0 v<_other=50";
        assert_eq!(steps.step(1, &rows(20, 30)), text);
        steps.pairs.shown_to(Reader::Scrapes, 1);
        let text = "v<unit:a=1 v<unit:b=5 v<_other=50";
        assert_eq!(steps.step(2, &rows(21, 35)), text);
        steps.pairs.shown_to(Reader::Scrapes, 2);
        // Of the 7 that b has now, 2 were in no scrape.
        let text = "v<unit:a=1 v<unit:b=7 v<_other=50";
        assert_eq!(steps.step(3, &rows(21, 37)), text);
        let with = |b| [row("v", &[("a", 21), ("b", b)]), row("w", &[("c", 11)])];
        let text = steps.step(4, &with(38));
        assert!(text.contains("v<unit:a=1 v<_other=53"), "{text}");
        assert!(text.contains("w<unit:c=0 w<_other=11"), "{text}");
        // Nobody has two more than v now.
        let text = steps.step(5, &with(39));
        assert!(text.contains("v<unit:a=1 v<_other=54"), "{text}");
        // Its series goes on from what it had in a scrape.
        let text = steps.step(6, &rows(21, 39));
        assert!(text.contains("v<unit:b=5 v<_other=54"), "{text}");
        // A pair that is gone from its table leaves what nobody saw, too.
        steps.pairs.shown_to(Reader::Scrapes, 6);
        let mut gone = row("v", &[("a", 21), ("b", 42)]);
        steps.step(7, &[gone.clone()]);
        gone.blame.remove(1);
        let text = steps.step(8, &[gone]);
        assert_eq!(text, "v<unit:a=1 v<_other=57");
    }

    #[test]
    fn what_is_gone_takes_nothing_back_and_gives_its_place_away() {
        let mut steps = Steps::new(9, 1);
        steps.step(1, &[row("v", &[("a", 20)])]);
        let text = steps.step(2, &[row("v", &[("a", 25), ("b", 15)])]);
        assert_eq!(text, "v<unit:a=5 v<_other=35");
        // The culprit is no subject any more: the counters still have it.
        let mut gone = row("v", &[("a", 25), ("b", 16)]);
        gone.blame.remove(0);
        assert_eq!(steps.step(3, &[gone]), "v<unit:b=0 v<_other=36");
        assert_eq!(steps.step(4, &[]), "");
        assert_eq!(steps.step(5, &[row("v", &[])]), "v<_other=0");
    }

    #[test]
    fn a_victim_without_series_has_no_pairs_but_is_in_the_overflow() {
        let mut steps = Steps::new(1, 9);
        let rows = |a, b| [row("v", &[("a", a)]), row("w", &[("b", b)])];
        let text = "v<unit:a=0 v<_other=20 rest<_other=30";
        assert_eq!(steps.step(1, &rows(20, 30)), text);
        let text = "v<unit:a=1 v<_other=20 rest<_other=35";
        assert_eq!(steps.step(2, &rows(21, 35)), text);
        // It gets the place that became free, and counts from there.
        let rows = [row("w", &[("b", 38)])];
        let text = "w<unit:b=0 w<_other=3 rest<_other=35";
        assert_eq!(steps.step(3, &rows), text);
    }
}
