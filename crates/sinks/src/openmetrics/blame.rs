//! Which pairs of a victim and a culprit have series of their own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use noctule_model::{Blamed, Cause, Counter, Counters, Subject, SubjectRow};

use super::budget::Table;

/// A pair with less blame in total has no series: most pairs met once, by chance.
const FLOOR_NS: u64 = 10_000_000;

/// The culprit of all that has no series of its own.
const OTHER: &str = "_other";

/// One series.
#[derive(Clone, Debug)]
pub(super) struct BlameLine {
    /// Identity labels of the victim, escaped.
    pub(super) labels: Arc<str>,
    /// Value of the label `culprit`, not escaped.
    pub(super) culprit: Arc<str>,
    pub(super) wait_ns: u64,
}

/// The pairs of all levels: they share one number of places.
#[derive(Debug)]
pub(super) struct Pairs {
    room: usize,
    grace_ns: u64,
    victims: HashMap<Subject, Victim>,
    /// Pairs that should have a series and found no place.
    folded: usize,
    other: Arc<str>,
}

#[derive(Debug, Default)]
struct Victim {
    seen_ns: u64,
    pairs: BTreeMap<Blamed, Pair>,
    /// What its pairs added while they had series, those that are gone included.
    shown_ns: u64,
}

#[derive(Debug)]
struct Pair {
    seen_ns: u64,
    grown_ns: u64,
    culprit: Arc<str>,
    now: u64,
    /// The part that is in the series of all others.
    charged: u64,
    shown: bool,
}

impl Pairs {
    /// `grace_ns`: how long a pair that does not grow keeps its place when others want it.
    pub(super) fn new(room: usize, grace_ns: u64) -> Self {
        Self {
            room,
            grace_ns,
            victims: HashMap::new(),
            folded: 0,
            other: OTHER.into(),
        }
    }

    /// How many pairs should have a series and found no place.
    pub(super) fn folded(&self) -> usize {
        self.folded
    }

    /// Takes the subjects of a batch and gives places away. `shown` says whether a subject has
    /// series; those of its blame come with them or later.
    pub(super) fn observe(
        &mut self,
        at: u64,
        rows: &[SubjectRow],
        shown: impl Fn(&Subject) -> bool,
    ) {
        for row in rows {
            self.see(at, row);
        }
        self.victims.retain(|_, victim| victim.seen_ns == at);
        for victim in self.victims.values_mut() {
            victim.pairs.retain(|_, pair| pair.seen_ns == at);
        }
        self.place(at, shown);
    }

    fn see(&mut self, at: u64, row: &SubjectRow) {
        if !self.victims.contains_key(&row.subject) {
            self.victims.insert(row.subject.clone(), Victim::default());
        }
        let Some(victim) = self.victims.get_mut(&row.subject) else {
            return;
        };
        victim.seen_ns = at;
        for blame in &row.blame {
            if !victim.pairs.contains_key(&blame.culprit) {
                let Some(culprit) = label(&blame.culprit) else {
                    continue;
                };
                victim
                    .pairs
                    .insert(blame.culprit.clone(), Pair::new(at, culprit));
            }
            let Some(pair) = victim.pairs.get_mut(&blame.culprit) else {
                continue;
            };
            let growth = blame.wait_ns.saturating_sub(pair.now);
            pair.seen_ns = at;
            pair.now += growth;
            if growth > 0 {
                pair.grown_ns = at;
            }
            if pair.shown {
                victim.shown_ns += growth;
            } else {
                pair.charged += growth;
            }
        }
    }

    /// Places go to who has the most blame. One that has a place keeps it while it grows, and as
    /// long as nobody else wants it.
    fn place(&mut self, at: u64, shown: impl Fn(&Subject) -> bool) {
        let grace_ns = self.grace_ns;
        let quiet_ns = |pair: &Pair| at.saturating_sub(pair.grown_ns);
        let mut taken = 0;
        let mut quiet = Vec::new();
        let mut waiting = Vec::new();
        for (subject, victim) in &mut self.victims {
            let has_series = shown(subject);
            for (culprit, pair) in &mut victim.pairs {
                taken += usize::from(pair.shown);
                let is_quiet = quiet_ns(pair) > grace_ns;
                if pair.shown && is_quiet {
                    quiet.push(pair);
                } else if !pair.shown && !is_quiet && has_series && pair.now >= FLOOR_NS {
                    waiting.push((subject, culprit, pair));
                }
            }
        }
        waiting.sort_by(|a, b| {
            let order = (Reverse(a.2.now), a.0, a.1);
            order.cmp(&(Reverse(b.2.now), b.0, b.1))
        });
        quiet.sort_by_key(|pair| quiet_ns(pair));
        let mut free = self.room.saturating_sub(taken);
        self.folded = 0;
        for (.., pair) in waiting {
            if free > 0 {
                free -= 1;
            } else if let Some(longest) = quiet.pop() {
                longest.shown = false;
            } else {
                self.folded += 1;
                continue;
            }
            // All so far is in the series of all others and stays there: this one starts at 0.
            pair.shown = true;
        }
    }

    /// The series of a level, as of now.
    pub(super) fn lines(&self, table: &Table<Subject>, overflow: &Arc<str>) -> Vec<BlameLine> {
        let mut lines = Vec::new();
        for (subject, labels, counters) in table.shown() {
            let victim = self.victims.get(subject);
            let pairs = victim.into_iter().flat_map(|victim| victim.pairs.values());
            for pair in pairs.filter(|pair| pair.shown) {
                lines.push(BlameLine {
                    labels: labels.clone(),
                    culprit: pair.culprit.clone(),
                    wait_ns: pair.now - pair.charged,
                });
            }
            let shown_ns = victim.map_or(0, |victim| victim.shown_ns);
            lines.push(self.rest(labels, &counters, shown_ns));
        }
        let folded = table
            .overflow()
            .map(|f| self.rest(overflow, &f.counters, 0));
        lines.extend(folded);
        lines
    }

    /// What a victim waited for others, less what has series of its own. Grows by no less than 0,
    /// for the blame of pairs is part of the counters.
    fn rest(&self, labels: &Arc<str>, counters: &Counters, shown_ns: u64) -> BlameLine {
        let others =
            counters[Counter::Wait(Cause::Neighbour)] + counters[Counter::Wait(Cause::System)];
        BlameLine {
            labels: labels.clone(),
            culprit: self.other.clone(),
            wait_ns: others.saturating_sub(shown_ns),
        }
    }
}

impl Pair {
    fn new(at: u64, culprit: String) -> Self {
        Self {
            seen_ns: at,
            grown_ns: at,
            culprit: culprit.into(),
            now: 0,
            charged: 0,
            shown: false,
        }
    }
}

/// The value of the label `culprit`; `None` for who is never told apart.
fn label(culprit: &Blamed) -> Option<String> {
    let Blamed::Subject(subject) = culprit else {
        return (*culprit == Blamed::Kernel).then(|| "kernel".to_owned());
    };
    match &**subject {
        Subject::Container(id) => Some(format!("container:{id}")),
        Subject::Unit(unit) => Some(format!("unit:{unit}")),
        Subject::Cgroup(path) => Some(format!("cgroup:{path}")),
        Subject::Overflow => None,
    }
}

#[cfg(test)]
mod tests {
    use noctule_model::{CgroupId, Histogram, Measured, Owner, SubjectBlame};

    use super::super::budget::Verdict;
    use super::super::figures::Figures;
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
            subject: unit(name),
            owner: Arc::new(Owner::unknown(CgroupId(1))),
            counters,
            frequency_hertz: None,
            waits: Histogram::default(),
            blame: blame.collect(),
            verdict: None,
        }
    }

    struct Steps {
        table: Table<Subject>,
        pairs: Pairs,
    }

    impl Steps {
        fn new(subjects: usize, pairs: usize) -> Self {
            Self {
                table: Table::new(subjects, 0),
                pairs: Pairs::new(pairs, 100),
            }
        }

        /// One batch: the series as `victim<culprit=ms`.
        fn step(&mut self, at: u64, rows: &[SubjectRow]) -> String {
            for row in rows {
                let figures = Figures {
                    counters: row.counters,
                    ..Figures::default()
                };
                self.table.see(&row.subject, at, &figures, None);
            }
            self.table.sweep(at);
            for row in rows {
                let Subject::Unit(name) = &row.subject else {
                    continue;
                };
                self.table
                    .place(&row.subject, |_| Verdict::Show(name.as_str().into()));
            }
            let rest = "rest".into();
            self.table.lines(at, &rest, Measured::NONE, None);
            self.pairs.observe(at, rows, |s| self.table.shows(s));
            let show = |l: BlameLine| format!("{}<{}={}", l.labels, l.culprit, l.wait_ns / MS);
            let lines = self.pairs.lines(&self.table, &rest);
            lines.into_iter().map(show).collect::<Vec<_>>().join(" ")
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
        assert_eq!(steps.pairs.folded(), 0);
    }

    #[test]
    fn places_go_to_the_most_blame_and_from_who_is_quiet() {
        let mut steps = Steps::new(9, 1);
        let blame = |a, b| [row("v", &[("a", a), ("b", b)])];
        assert_eq!(steps.step(1, &blame(20, 30)), "v<unit:b=0 v<_other=50");
        assert_eq!(steps.pairs.folded(), 1);
        // Others with more blame take nothing from one that grows.
        assert_eq!(steps.step(2, &blame(90, 31)), "v<unit:b=1 v<_other=120");
        assert_eq!(steps.step(102, &blame(91, 31)), "v<unit:b=1 v<_other=121");
        assert_eq!(steps.step(103, &blame(92, 31)), "v<unit:a=0 v<_other=122");
        // Its later growth is with all others; once it has a place again, it goes on from there.
        assert_eq!(steps.step(104, &blame(93, 35)), "v<unit:a=1 v<_other=126");
        assert_eq!(steps.pairs.folded(), 1);
        assert_eq!(steps.step(300, &blame(93, 36)), "v<unit:b=1 v<_other=127");
        assert_eq!(steps.step(301, &blame(93, 38)), "v<unit:b=3 v<_other=127");
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

    #[test]
    fn labels_of_culprits_tell_what_they_are() {
        let name = || "x".to_owned();
        let subject = |subject| Blamed::Subject(Arc::new(subject));
        let cases = [
            (Blamed::Kernel, Some("kernel")),
            (subject(Subject::Container(name())), Some("container:x")),
            (subject(Subject::Unit(name())), Some("unit:x")),
            (subject(Subject::Cgroup(name())), Some("cgroup:x")),
            (subject(Subject::Overflow), None),
            (Blamed::Unnamed, None),
        ];
        for (culprit, expected) in cases {
            assert_eq!(label(&culprit).as_deref(), expected);
        }
    }
}
