use noctule_model::{
    Blamed, Cause, CgroupId, Counter, Counters, DestinationCounter, DestinationCounters, Measured,
    Owner, SubjectBlame, SubjectDestination,
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

/// A victim that waited for these culprits, in ms. An empty name stands for the unnamed culprit.
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

/// A subject with this number of connects to each port.
fn connected(connects: &[(u16, u64)]) -> SubjectRow {
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
    row
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

    /// Runs one batch.
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
        let rows: Vec<&SubjectRow> = rows.iter().collect();
        self.pairs.observe(at, &rows, shown, &named);
        self.pairs.lines(at, &self.table, &rest)
    }
}

impl Steps<Blame> {
    /// Runs one batch. Returns the series as `victim<culprit=ms`.
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
    /// Runs one batch and shows it to a scraper. `connects` has the number of connects to each
    /// port. Returns the series as `port=connects`, and their sum.
    fn scrape(&mut self, at: u64, connects: &[(u16, u64)]) -> (String, u64) {
        let lines = self.lines(at, &[connected(connects)]);
        let view = View::Since(self.scraped_ns);
        self.scraped_ns = at;
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
fn pairs_with_most_blame_replace_quiet_ones() {
    let mut steps = Steps::new(9, 1);
    let blame = |a, b| [row("v", &[("a", a), ("b", b)])];
    assert_eq!(steps.step(1, &blame(20, 30)), "v<unit:b=0 v<_other=50");
    assert_eq!(steps.pairs.overflowed(), 1);
    // A growing pair keeps its series, even if other pairs have more blame.
    assert_eq!(steps.step(2, &blame(90, 31)), "v<unit:b=1 v<_other=120");
    assert_eq!(steps.step(102, &blame(91, 31)), "v<unit:b=1 v<_other=121");
    let text = "v<unit:a=0 v<unit:b=1 v<_other=122";
    assert_eq!(steps.step(103, &blame(92, 31)), text);
    // Further growth of b is added to `_other`. If b gets series again, they continue from their
    // last values.
    let text = "v<unit:a=1 v<unit:b=1 v<_other=126";
    assert_eq!(steps.step(104, &blame(93, 35)), text);
    assert_eq!(steps.pairs.overflowed(), 1);
    let text = "v<unit:a=1 v<unit:b=1 v<_other=127";
    assert_eq!(steps.step(300, &blame(93, 36)), text);
    // By now each reader has received the last value of a.
    let late = 301 + YOUNG_NS;
    let text = "v<unit:b=3 v<_other=127";
    assert_eq!(steps.step(late, &blame(93, 38)), text);
}

/// The first connects were already shown. When the pair gets series again, they do not restart at
/// 0, and the sum is unchanged.
#[test]
fn readmitted_destination_continues_its_value() {
    let mut steps: Steps<Destinations> = Steps::new(9, 1);
    let cases = [
        (1, [(80, 7), (81, 3)], ("80=0 _other=0", 0)),
        (2, [(80, 7), (81, 3)], ("80=7 _other=3", 10)),
        // Port 80 has been quiet for longer than the grace period.
        (103, [(80, 7), (81, 4)], ("80=7 81=0 _other=4", 11)),
        (104, [(80, 7), (81, 5)], ("80=7 81=1 _other=4", 12)),
        // Growth without own series stays in `_other`.
        (105, [(80, 9), (81, 5)], ("80=7 81=1 _other=6", 14)),
        (300, [(80, 10), (81, 5)], ("80=7 81=1 _other=7", 15)),
        (301, [(80, 12), (81, 5)], ("80=9 81=1 _other=7", 17)),
    ];
    for (at, connects, (text, sum)) in cases {
        assert_eq!(steps.scrape(at, &connects), (text.to_owned(), sum));
    }
}

#[test]
fn first_destinations_start_when_their_subject_does() {
    let mut steps: Steps<Destinations> = Steps::new(9, 9);
    let mut starts = |at, before_unix_ns, connects: &[(u16, u64)]| {
        steps.pairs.begin(before_unix_ns);
        steps.pairs.date(&unit("v"), 500);
        let lines = steps.lines(at, &[connected(connects)]);
        let pairs = lines.iter().filter(|it| it.partner.contains("10.0.0.1"));
        pairs.map(|it| it.born.start_unix_ns).collect::<Vec<_>>()
    };
    assert_eq!(starts(1, 900, &[(80, 7)]), [500]);
    assert_eq!(starts(2, 1900, &[(80, 7), (81, 1)]), [500, 1900]);
}

#[test]
fn subject_with_fewer_places_takes_one_from_another() {
    let mut steps = Steps::new(9, 2);
    let rows = |a, b| [row("v", &[("a", a), ("b", b)])];
    let text = "v<unit:a=0 v<unit:b=0 v<_other=50";
    assert_eq!(steps.step(1, &rows(20, 30)), text);
    let text = "v<unit:a=1 v<unit:b=5 v<_other=50";
    assert_eq!(steps.step(2, &rows(21, 35)), text);
    let with = |b| [row("v", &[("a", 21), ("b", b)]), row("w", &[("c", 11)])];
    let text = steps.step(3, &with(38));
    assert!(text.contains("v<unit:a=1 v<unit:b=8 v<_other=50"), "{text}");
    assert!(text.contains("w<unit:c=0 w<_other=11"), "{text}");
    // v takes a series back only from a subject that has at least two more than v.
    let text = steps.step(4, &with(39));
    assert!(text.contains("v<unit:a=1 v<unit:b=8 v<_other=51"), "{text}");
    // Its series continue from their last value.
    let text = steps.step(5, &rows(21, 39));
    assert_eq!(text, "v<unit:a=1 v<unit:b=8 v<_other=51");
    assert_eq!(
        steps.step(6, &rows(21, 42)),
        "v<unit:a=1 v<unit:b=11 v<_other=51"
    );
}

#[test]
fn removed_pair_frees_its_place_without_a_decrease() {
    let mut steps = Steps::new(9, 1);
    steps.step(1, &[row("v", &[("a", 20)])]);
    let text = steps.step(2, &[row("v", &[("a", 25), ("b", 15)])]);
    assert_eq!(text, "v<unit:a=5 v<_other=35");
    // The culprit is no longer a subject. Its series end, and the counters still include the wait.
    let mut gone = row("v", &[("a", 25), ("b", 16)]);
    gone.blame.remove(0);
    let text = "v<unit:b=0 v<_other=36";
    assert_eq!(steps.step(3, &[gone]), text);
    assert_eq!(steps.step(4, &[]), "");
    assert_eq!(steps.step(5, &[row("v", &[])]), "v<_other=0");
}

/// A reader that adds up increases as `increase()` does.
struct Counting {
    every: u64,
    view: View,
    last: BTreeMap<[Arc<str>; 2], u64>,
    sum: u64,
}

impl Counting {
    fn count_increases(&mut self, at: u64, lines: &[PairLine<u64>]) {
        let mut values = BTreeMap::new();
        for line in lines {
            let value = match self.view.is_new(line.born, at) {
                true => 0,
                false => line.amount,
            };
            let series = [line.labels.clone(), line.partner.clone()];
            let before = self.last.get(&series).copied().unwrap_or(value);
            assert!(before <= value, "{series:?} fell");
            self.sum += value - before;
            assert_eq!(values.insert(series, value), None, "two series of one name");
        }
        self.last = values;
        self.view = View::Since(at);
    }
}

/// Pairs gain and lose series, disappear, and reappear at 0.
#[test]
fn every_reader_sees_the_full_increase_of_pairs() {
    const SECOND: u64 = 1_000_000_000;
    let mut random = 1_u64;
    let mut below = |most: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % most
    };
    let mut steps: Steps<Blame> = Steps::new(9, 3);
    let mut readers = [1, 7, 60].map(|every| Counting {
        every,
        view: View::Since(SECOND),
        last: BTreeMap::new(),
        sum: 0,
    });
    let mut waits = [[0; 4]; 3];
    let mut all = [0; 3];
    for second in 2..1900 {
        let mut rows = Vec::new();
        for (victim, name) in ["u", "v", "w"].into_iter().enumerate() {
            for wait in &mut waits[victim] {
                let grows = second > 120 && second < 1400 && below(8) == 0;
                let growth = if grows { below(40) } else { 0 };
                *wait += growth;
                all[victim] += growth;
                if below(60) == 0 {
                    *wait = 0;
                }
            }
            let culprits = ["a", "b", "c", "d"].into_iter().zip(waits[victim]);
            let there: Vec<_> = culprits.filter(|(_, wait)| *wait > 0).collect();
            let mut row = row(name, &there);
            row.counters[Counter::Wait(Cause::Neighbour)] = all[victim] * MS;
            rows.push(row);
        }
        // The culprits still exist.
        rows.extend(["a", "b", "c", "d"].map(|name| row(name, &[])));
        let at = second * SECOND;
        let lines = steps.lines(at, &rows);
        assert!(lines.len() <= rows.len() + 2 * 3);
        for reader in readers.iter_mut().filter(|it| second % it.every == 0) {
            reader.count_increases(at, &lines);
        }
    }
    let all = all.iter().sum::<u64>() * MS;
    assert_eq!(readers.map(|reader| reader.sum), [all; 3]);
}

#[test]
fn a_victim_without_series_has_no_pairs_but_is_in_the_overflow() {
    let mut steps = Steps::new(1, 9);
    let rows = |a, b| [row("v", &[("a", a)]), row("w", &[("b", b)])];
    let text = "v<unit:a=0 v<_other=20 rest<_other=30";
    assert_eq!(steps.step(1, &rows(20, 30)), text);
    let text = "v<unit:a=1 v<_other=20 rest<_other=35";
    assert_eq!(steps.step(2, &rows(21, 35)), text);
    // The row gets the free series and counts from this point.
    let rows = [row("w", &[("b", 38)])];
    let text = "w<unit:b=0 w<_other=3 rest<_other=35";
    assert_eq!(steps.step(3, &rows), text);
}
