//! Compares two stretches of time, and tests whether the differences are more than noise.
//!
//! Each stretch is divided into blocks of a few seconds. A group has three figures in each block:
//! CPU use, run-queue latency summed over its threads, and the 99th percentile of its waits. The
//! Mann-Whitney rank-sum test compares the values in the blocks of both stretches. The test assumes
//! nothing about the distribution of the values, and is exact for few blocks.
//!
//! Blocks are compared rather than single waits or seconds, because neighbouring values depend on
//! each other. With many groups, some differ by chance. The Benjamini-Hochberg procedure bounds the
//! false discovery rate of all tests together.

mod rank;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use noctule_model::{Batch, Counter, Histogram, Level};

use crate::{ReportBuilder, Thresholds};
use rank::{false_discovery, least_probability, rank_sum};

/// Maximum expected share of false positives among the reported changes.
pub const FALSE_DISCOVERIES: f64 = 0.05;

/// Minimum number of blocks on each side for a test.
pub const LEAST_BLOCKS: usize = 5;

/// Shortest and longest block. Shorter blocks depend on each other; longer ones would be too few.
const SHORTEST_NS: u64 = 2_000_000_000;
const LONGEST_NS: u64 = 60_000_000_000;
/// Number of blocks in a stretch that is long enough, and the minimum that can find one change
/// among about a hundred groups. A shorter stretch has blocks of [`FINEST_NS`], the interval of
/// recordings.
const BLOCKS: u64 = 30;
const FEW_BLOCKS: u64 = 10;
const FINEST_NS: u64 = 1_000_000_000;

/// Returns the length of the blocks, in nanoseconds, given the length of the shorter stretch.
pub fn block_ns(shorter_ns: u64) -> u64 {
    match shorter_ns / FEW_BLOCKS {
        ..SHORTEST_NS => FINEST_NS,
        _ => (shorter_ns / BLOCKS).clamp(SHORTEST_NS, LONGEST_NS),
    }
}

/// Minimum number of waits in a block for a percentile.
const LEAST_WAITS: u64 = 20;

/// Figures of a group in one block or in a whole stretch.
#[derive(Clone, Debug, Default)]
pub struct Did {
    /// CPU time, nanoseconds.
    pub cpu_ns: u64,
    /// Time for which the group's threads were runnable but not running, in nanoseconds.
    pub wait_ns: u64,
    /// Histogram of the lengths of the waits in `wait_ns`, in nanoseconds.
    pub waits: Histogram,
}

impl Did {
    fn add(&mut self, other: &Self) {
        self.cpu_ns += other.cpu_ns;
        self.wait_ns += other.wait_ns;
        self.waits += &other.waits;
    }
}

/// Maximum number of blocks that are compared. In a longer stretch, only every second block is
/// compared, then only every fourth, and so on.
const MOST_BLOCKS: u32 = 2048;

/// A group over the blocks of a stretch.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Sum over all blocks.
    sum: Did,
    /// Figures in the blocks that are compared. If a block is not listed, the group did nothing in
    /// it.
    blocks: Vec<(u32, [Option<f64>; Figure::COUNT])>,
}

/// One of the two stretches of time.
#[derive(Clone, Debug)]
pub struct Stretch {
    level: Level,
    /// Whether only the command that the agent follows is included.
    followed: bool,
    block_ns: u64,
    window: Option<ReportBuilder>,
    groups: HashMap<String, Seen>,
    /// Number of blocks so far.
    blocks: u32,
    /// Every n-th block is compared; this is n.
    every: u32,
    /// Length of all blocks.
    length_ns: u64,
}

impl Stretch {
    /// Creates an empty stretch.
    pub fn new(level: Level, block_ns: u64) -> Self {
        Self {
            level,
            followed: false,
            block_ns,
            window: None,
            groups: HashMap::new(),
            blocks: 0,
            every: 1,
            length_ns: 0,
        }
    }

    /// Restricts the stretch to the command that the agent follows. At the level of processes each
    /// of its processes has a row; otherwise the command has one row.
    #[must_use]
    pub fn of_command(self) -> Self {
        Self {
            followed: true,
            ..self
        }
    }

    /// Adds a batch. All batches must be added, in order.
    pub fn add(&mut self, batch: &Batch) {
        let needed = match self.level {
            _ if self.followed => batch.clone(),
            Level::Process => batch.clone(),
            _ => batch.without_processes(),
        };
        let Some(window) = &mut self.window else {
            self.window = Some(ReportBuilder::new(needed));
            return;
        };
        window.add(needed);
        let length_ns = batch.taken_ns.saturating_sub(window.started_ns());
        // If a batch comes slightly early, the block ends anyway. Otherwise it would be longer by a
        // whole interval.
        if length_ns >= self.block_ns - self.block_ns / 20 {
            let groups = groups(window, self.level, self.followed);
            self.end_block(groups, length_ns);
            let window = self.window.take();
            self.window = window.map(|it| ReportBuilder::new(it.into_last()));
        }
    }

    fn end_block(&mut self, groups: HashMap<String, Did>, length_ns: u64) {
        let place = self.blocks;
        let compared = place.is_multiple_of(self.every);
        for (name, did) in groups {
            let seen = self.groups.entry(name).or_default();
            seen.sum.add(&did);
            if compared {
                let figures = Figure::ALL.map(|figure| figure.of(&did, length_ns));
                seen.blocks.push((place, figures));
            }
        }
        self.blocks += 1;
        self.length_ns += length_ns;
        if self.blocks() > MOST_BLOCKS as usize {
            self.every *= 2;
            for seen in self.groups.values_mut() {
                let every = self.every;
                seen.blocks.retain(|(place, _)| place.is_multiple_of(every));
            }
        }
    }

    /// Returns the number of blocks that are compared.
    pub fn blocks(&self) -> usize {
        self.blocks.div_ceil(self.every) as usize
    }

    /// Returns the length of all blocks, in nanoseconds.
    pub fn length_ns(&self) -> u64 {
        self.length_ns
    }

    /// Returns the length of the time after the last complete block, in nanoseconds. No block
    /// includes this time.
    pub fn left_out_ns(&self) -> u64 {
        let begun = self.window.as_ref();
        begun.map_or(0, |it| it.ended_ns().saturating_sub(it.started_ns()))
    }

    /// Returns the values of a figure of a group in the blocks. A block without the group counts as
    /// 0, except for [`Figure::Length`].
    fn figures(&self, name: &str, figure: Figure) -> Vec<f64> {
        let blocks = self.groups.get(name).map_or(&[][..], |seen| &seen.blocks);
        let there = blocks.iter().filter_map(|(_, all)| all[figure as usize]);
        let absent = match figure {
            Figure::Use | Figure::Waiting => self.blocks() - blocks.len(),
            Figure::Length => 0,
        };
        there.chain(std::iter::repeat_n(0.0, absent)).collect()
    }
}

/// Returns the figures of each group by name. Cgroup and container ids differ between runs.
fn groups(window: &ReportBuilder, level: Level, followed: bool) -> HashMap<String, Did> {
    let mut groups: HashMap<String, Did> = HashMap::new();
    if level == Level::Process {
        for row in window.report(level, followed).rows {
            let name = row.process.map(|process| process.comm.text());
            let did = groups.entry(name.unwrap_or_default()).or_default();
            did.cpu_ns += row.counters[Counter::CpuTime];
        }
        return groups;
    }
    for row in window.waits(level, followed, &Thresholds::default()).rows {
        let did = groups.entry(row.party.name(level)).or_default();
        did.add(&Did {
            cpu_ns: row.cpu_ns,
            wait_ns: row.total_ns(),
            waits: row.histogram,
        });
    }
    groups
}

/// A figure that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Use,
    Waiting,
    Length,
}

impl Figure {
    const COUNT: usize = 3;
    const ALL: [Self; Self::COUNT] = [Self::Use, Self::Waiting, Self::Length];

    fn of(self, did: &Did, block_ns: u64) -> Option<f64> {
        let share = |ns: u64| (block_ns > 0).then(|| ns as f64 / block_ns as f64);
        match self {
            Self::Use => share(did.cpu_ns),
            Self::Waiting => share(did.wait_ns),
            Self::Length if did.waits.count() < LEAST_WAITS => None,
            Self::Length => did.waits.quantile(0.99).map(|ns| ns as f64),
        }
    }
}

/// Result of the test of one figure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tested {
    /// Probability of such a difference if nothing changed; `None` with too few blocks, or if the
    /// figure was always 0.
    pub p: Option<f64>,
    /// Whether the difference counts as a change rather than noise. Over all tests, at most 5% of
    /// the reported changes are expected to be noise.
    pub changed: bool,
}

/// A group in both stretches.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The group's name, unescaped.
    pub name: String,
    /// The group's figures in the first stretch.
    pub before: Did,
    /// The group's figures in the second stretch.
    pub after: Did,
    /// CPU use.
    pub usage: Tested,
    /// Run-queue latency.
    pub waiting: Tested,
    /// The 99th percentile of the waits.
    pub length: Tested,
    /// The Kolmogorov-Smirnov distance between the distributions of waits, from 0 to 1. `None` if
    /// either stretch has no waits.
    pub distance: Option<f64>,
}

impl Difference {
    /// Returns whether any figure changed.
    pub fn changed(&self) -> bool {
        self.usage.changed || self.waiting.changed || self.length.changed
    }
}

/// Compares two stretches. Groups that changed come first, ordered by how much their CPU time and
/// waits changed.
pub fn differences(before: &Stretch, after: &Stretch) -> Vec<Difference> {
    let names: BTreeSet<&String> = before.groups.keys().chain(after.groups.keys()).collect();
    let mut rows: Vec<Difference> = Vec::new();
    let mut tests: Vec<Option<f64>> = Vec::new();
    for name in names {
        for figure in Figure::ALL {
            let (a, b) = (before.figures(name, figure), after.figures(name, figure));
            let enough = a.len() >= LEAST_BLOCKS && b.len() >= LEAST_BLOCKS;
            // A figure that is always 0 cannot differ by chance, so it does not count as a test.
            let varies = a.iter().chain(&b).any(|value| *value != 0.0);
            tests.push((enough && varies).then(|| rank_sum(&a, &b)));
        }
        let sum = |stretch: &Stretch| stretch.groups.get(name).map(|seen| seen.sum.clone());
        let (did, did_after) = (
            sum(before).unwrap_or_default(),
            sum(after).unwrap_or_default(),
        );
        rows.push(Difference {
            distance: distance(&did.waits, &did_after.waits),
            name: name.clone(),
            before: did,
            after: did_after,
            usage: Tested::default(),
            waiting: Tested::default(),
            length: Tested::default(),
        });
    }
    let changed = false_discovery(&tests, FALSE_DISCOVERIES);
    let tested = |place: usize| Tested {
        p: tests[place],
        changed: changed[place],
    };
    for (place, row) in rows.iter_mut().enumerate() {
        let first = place * Figure::ALL.len();
        row.usage = tested(first);
        row.waiting = tested(first + 1);
        row.length = tested(first + 2);
    }
    let (length, length_after) = (before.length_ns().max(1), after.length_ns().max(1));
    let moved = |row: &Difference| {
        let share = |ns: u64, length: u64| ns as f64 / length as f64;
        let part =
            |before: u64, after: u64| (share(after, length_after) - share(before, length)).abs();
        part(row.before.cpu_ns, row.after.cpu_ns) + part(row.before.wait_ns, row.after.wait_ns)
    };
    rows.sort_by(|a, b| {
        let changed = b.changed().cmp(&a.changed());
        changed.then_with(|| moved(b).total_cmp(&moved(a)))
    });
    rows
}

/// Returns whether the tests can find a change that only one of these rows has.
pub fn can_find_one(before: &Stretch, after: &Stretch, rows: &[Difference]) -> bool {
    let tests = rows
        .iter()
        .flat_map(|row| [row.usage, row.waiting, row.length]);
    let tests = tests.filter(|tested| tested.p.is_some()).count();
    least_probability(before.blocks(), after.blocks()) * tests as f64 <= FALSE_DISCOVERIES
}

fn distance(a: &Histogram, b: &Histogram) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let mut counts: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    a.buckets()
        .for_each(|(from, count)| counts.entry(from).or_default().0 += count);
    b.buckets()
        .for_each(|(from, count)| counts.entry(from).or_default().1 += count);
    let (all_a, all_b) = (a.count() as f64, b.count() as f64);
    let (mut below_a, mut below_b, mut most) = (0, 0, 0.0_f64);
    for (in_a, in_b) in counts.into_values() {
        below_a += in_a;
        below_b += in_b;
        most = most.max((below_a as f64 / all_a - below_b as f64 / all_b).abs());
    }
    Some(most)
}

#[cfg(test)]
mod tests;
