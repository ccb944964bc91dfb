//! Sums over a time range of a history, in steps.

use std::collections::HashMap;
use std::sync::Arc;

use noctule_model::{Cause, EventCounters, Histogram, Measured};

use super::cpu::{CpuStrip, Strips};
use super::point::nanos;
use super::{OwnerId, PointRows, Power, TimePoint, TimelineView};

/// A query for a time range.
#[derive(Clone, Copy, Debug)]
pub struct TimeSpanQuery {
    /// Start, in nanoseconds since 1970.
    pub from_unix_ns: u64,
    /// End, in nanoseconds since 1970.
    pub to_unix_ns: u64,
    /// Maximum number of steps; at least 1.
    pub steps: usize,
    /// The owner whose waits are shown; `None` for the machine's waits.
    pub waits_of: Option<OwnerId>,
    /// A pair to show over time: victim, culprit.
    pub pair: Option<(OwnerId, OwnerId)>,
    /// Maximum number of CPUs to show one by one, from the lowest number.
    pub strips: usize,
}

/// Sums over a time range. A point is spread over the steps that it covers.
#[derive(Clone, Debug, Default)]
pub struct TimeSpan {
    /// Start of the first step, in nanoseconds since 1970. The start is a multiple of the step
    /// length, so that step boundaries do not depend on when the query is made.
    pub from_unix_ns: u64,
    /// Length of a step, in nanoseconds.
    pub step_ns: u64,
    /// The steps. A step that no point covers is a gap.
    pub buckets: Vec<SpanStep>,
    /// All owners of the points, in descending order of CPU time.
    pub owners: Vec<OwnerSum>,
    /// All victim-culprit pairs, in descending order of wait.
    pub pairs: Vec<PairSum>,
    /// Which counters are measured at the end.
    pub measured: Measured,
    /// CPUs online at the end.
    pub cpus: u32,
    /// The CPUs shown one by one, in ascending order.
    pub strips: Vec<CpuStrip>,
    /// Number of points that lack some owners because of the limit.
    pub crowded: usize,
    /// Number of points that lack some pairs because of the limit.
    pub crowded_pairs: usize,
    /// Sequence number of the last batch.
    pub sequence: u64,
    /// The time for which the owners' energy is known, in nanoseconds; 0 if it is unknown.
    pub energy_ns: u64,
}

/// Sums over one step. Times are in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct SpanStep {
    /// The time in this step that points cover; 0 for a gap.
    pub covered_ns: u64,
    /// Elapsed time summed over all CPUs.
    pub elapsed_ns: u64,
    /// The part of `elapsed_ns` in which the CPUs were idle.
    pub idle_ns: u64,
    /// The part of `elapsed_ns` that was charged to threads.
    pub used_ns: u64,
    /// Time that interrupts took; `None` unless it is known for every point.
    pub interrupt_ns: Option<u64>,
    /// Time that the host took; `None` unless it is known for every point.
    pub steal_ns: Option<u64>,
    /// Time that the host took, if it is included in used and idle time; `None` unless it is known
    /// for every point.
    pub steal_included_ns: Option<u64>,
    /// Waits by index of [`Cause`].
    pub wait_ns: [u64; Cause::ALL.len()],
    /// Histogram of the lengths of waits, spread like events. The histogram of an owner excludes
    /// points that did not keep the owner's waits.
    pub lengths: Histogram,
    /// Number of points that did not keep the histogram of the owner's waits.
    pub lengths_missing: usize,
    /// Events of the machine. The events of a point are assumed to be spread evenly over its time.
    /// If a point extends beyond the range, the count is rounded up, so two adjacent ranges may
    /// both include the same event.
    pub events: EventCounters,
    /// Number of losses. The losses of a point are spread over its time like its events.
    pub losses: u64,
    /// CPU time of the agent.
    pub agent_ns: u64,
    /// Waits of the queried pair (see [`TimeSpanQuery::pair`]).
    pub pair_ns: u64,
    /// Energy by zone.
    pub zones: Vec<ZoneSum>,
}

/// Energy of one zone in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneSum {
    /// Energy in microjoules.
    pub energy_uj: u64,
    /// The time in the step that readings of the meter cover, in nanoseconds; 0 if the meter could
    /// not be read.
    pub covered_ns: u64,
}

/// Sums of one owner. Times are in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct OwnerSum {
    pub id: OwnerId,
    /// Time on a CPU.
    pub cpu_ns: u64,
    /// Waits of other owners while this owner had the CPU.
    pub hurts_ns: u64,
    /// Waits of this owner by index of [`Cause`].
    pub wait_ns: [u64; Cause::ALL.len()],
    /// Active energy charged to this owner, in microjoules.
    pub energy_uj: u64,
    /// CPU time in each step.
    pub steps: Vec<u64>,
}

/// Waits of a victim behind a culprit, summed over a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairSum {
    /// The owner that waited.
    pub victim: OwnerId,
    /// The owner that had the CPU.
    pub culprit: OwnerId,
    /// The wait, in nanoseconds.
    pub wait_ns: u64,
}

impl OwnerSum {
    /// Returns the owner's total wait, in nanoseconds.
    pub fn waited_ns(&self) -> u64 {
        self.wait_ns.iter().sum()
    }
}

/// Minimum length of a step: the usual interval of batches.
const LEAST_STEP_NS: u64 = 1_000_000_000;

impl TimeSpan {
    /// Returns the mean power charged to an owner, in watts; `None` if it is unknown.
    pub fn watts(&self, owner: &OwnerSum) -> Option<f64> {
        let known = self.energy_ns > 0;
        known.then(|| owner.energy_uj as f64 * 1e3 / self.energy_ns as f64)
    }

    /// Returns whether waits are measured at the end. Returns `true` for a span that has only gaps.
    pub fn has_waits(&self) -> bool {
        let is_gap = |step: &SpanStep| step.covered_ns == 0;
        self.measured.has_waits() || self.buckets.iter().all(is_gap)
    }
}

impl TimelineView {
    /// Returns the sums over a range. A point is spread over the steps that it covers, by time. A
    /// late or long point thus leaves no gap.
    pub fn range(&self, query: &TimeSpanQuery) -> TimeSpan {
        let step_ns = self.step_ns(query);
        let from_unix_ns = query.from_unix_ns / step_ns * step_ns;
        let count = query
            .to_unix_ns
            .saturating_sub(from_unix_ns)
            .div_ceil(step_ns);
        // Rounding the start down adds at most one step.
        let count = (count as usize).min(query.steps + 1);
        let mut range = TimeSpan {
            from_unix_ns,
            step_ns,
            buckets: vec![SpanStep::default(); count],
            ..TimeSpan::default()
        };
        let mut sums = Sums::new(count);
        let mut powered = Powered::default();
        for point in self.overlapping(from_unix_ns, query.to_unix_ns) {
            let rows = point.rows.unpack();
            let waits = PointWaits::new(point, &rows, query.waits_of);
            for (at, part) in range.parts(point, query.to_unix_ns) {
                range.buckets[at].add(point, part);
                powered.add(point.power, part.of(point.length_ns));
                sums.add(&rows, &waits, at, part, query, &mut range.buckets[at]);
            }
            range.crowded += usize::from(point.more_owners > 0);
            range.crowded_pairs += usize::from(point.more_pairs > 0);
            range.measured = point.node.measured;
            range.cpus = point.node.cpus;
            range.sequence = point.sequence;
        }
        sums.finish(&mut range);
        range.energy_ns = powered.known_ns();
        range
    }

    /// Returns the length of a step. The length is at least the median length of the points, and a
    /// whole number of seconds, so that step boundaries do not move over time.
    fn step_ns(&self, query: &TimeSpanQuery) -> u64 {
        let length = query.to_unix_ns.saturating_sub(query.from_unix_ns);
        let step_ns = length.div_ceil(query.steps.max(1) as u64);
        let points = self.overlapping(query.from_unix_ns, query.to_unix_ns);
        let mut lengths: Vec<u64> = points.map(|point| point.length_ns).collect();
        let middle = lengths.len() / 2;
        let usual = match lengths.is_empty() {
            true => 0,
            false => *lengths.select_nth_unstable(middle).1,
        };
        // Rounds to seconds. Otherwise a batch that is late by milliseconds would make steps a
        // second longer.
        let usual = (usual + LEAST_STEP_NS / 2) / LEAST_STEP_NS * LEAST_STEP_NS;
        step_ns.max(usual).max(1).next_multiple_of(LEAST_STEP_NS)
    }

    /// Yields the points that overlap the range.
    fn overlapping(
        &self,
        from_unix_ns: u64,
        to_unix_ns: u64,
    ) -> impl Iterator<Item = &Arc<TimePoint>> {
        let inside = move |point: &&Arc<TimePoint>| {
            let begin = point.time_unix_ns.saturating_sub(point.length_ns);
            point.time_unix_ns > from_unix_ns && begin < to_unix_ns
        };
        self.points.iter().filter(inside)
    }
}

/// A part of a point, between two times since the point's start.
#[derive(Clone, Copy, Debug)]
struct Part {
    from_ns: u64,
    to_ns: u64,
    /// Length of the point.
    of_ns: u64,
    /// Whether this is the first part of the point in the range.
    is_first: bool,
    /// Whether this is the last part of the point in the range.
    is_last: bool,
}

impl Part {
    /// Returns the share of this part in an amount of the whole point. The shares of all parts add
    /// up exactly to `whole`.
    fn of(self, whole: u64) -> u64 {
        let until = |ns: u64| match ns >= self.of_ns {
            true => whole,
            false => (u128::from(whole) * u128::from(ns) / u128::from(self.of_ns)) as u64,
        };
        match self.from_ns {
            // A point of length 0 has one part, which gets the whole amount.
            0 => until(self.to_ns),
            from_ns => until(self.to_ns) - until(from_ns),
        }
    }

    /// Returns how many of `whole` discrete items are in this part. The point is divided into
    /// `whole` equal intervals with an item in the middle of each, so a single item is in the
    /// middle of the point. If the point extends beyond the range, the number is rounded up.
    fn count(self, whole: u64) -> u64 {
        let of = u128::from(self.of_ns);
        let until = |ns: u64, up: u128| match ns >= self.of_ns {
            true => whole,
            false => ((u128::from(whole) * u128::from(ns) + up) / of) as u64,
        };
        let half = of / 2;
        let from = if self.is_first { 0 } else { half };
        let to = if self.is_last {
            of.saturating_sub(1)
        } else {
            half
        };
        match self.from_ns {
            0 => until(self.to_ns, to),
            from_ns => until(self.to_ns, to) - until(from_ns, from),
        }
    }
}

impl TimeSpan {
    /// Yields the steps that a point covers before the end of the span, each with the part of the
    /// point that is in the step.
    fn parts(
        &self,
        point: &TimePoint,
        to_unix_ns: u64,
    ) -> impl Iterator<Item = (usize, Part)> + use<> {
        let (from_unix_ns, step_ns, count) = (self.from_unix_ns, self.step_ns, self.buckets.len());
        let of_ns = point.length_ns;
        let end = point.time_unix_ns;
        let begin = end.saturating_sub(of_ns);
        let step = move |unix_ns: u64| (unix_ns.saturating_sub(from_unix_ns) / step_ns) as usize;
        // A point that ends on a boundary belongs to the step before it.
        let last = step(end.min(to_unix_ns).saturating_sub(1));
        let first = step(begin).min(last);
        (first..=last).filter(move |at| *at < count).map(move |at| {
            let border = from_unix_ns + at as u64 * step_ns;
            let part = Part {
                from_ns: border.saturating_sub(begin).min(of_ns),
                to_ns: (border + step_ns)
                    .min(to_unix_ns)
                    .saturating_sub(begin)
                    .min(of_ns),
                of_ns,
                is_first: at == first,
                is_last: at == last,
            };
            (at, part)
        })
    }
}

/// The time for which meters were read.
#[derive(Default)]
struct Powered {
    read_ns: u64,
    /// Length of the current period in which a meter did not move, and of the longest one.
    still_ns: u64,
    longest_still_ns: u64,
}

impl Powered {
    /// Maximum part of a range in which a meter may stand still at a time. The energy of such a
    /// period is in the point after it, which may be outside the range.
    const MOST_STILL: u64 = 10;

    fn add(&mut self, power: Power, ns: u64) {
        self.still_ns = match power {
            Power::Unknown => return,
            Power::Still => self.still_ns + ns,
            Power::Charged => 0,
        };
        self.longest_still_ns = self.longest_still_ns.max(self.still_ns);
        self.read_ns += ns;
    }

    fn known_ns(&self) -> u64 {
        match self.longest_still_ns * Self::MOST_STILL > self.read_ns {
            true => 0,
            false => self.read_ns,
        }
    }
}

/// Sums that are collected in addition to the machine's steps.
struct Sums {
    owners: HashMap<OwnerId, OwnerSum>,
    pairs: HashMap<(OwnerId, OwnerId), u64>,
    lengths: Vec<Lengths>,
    strips: Strips,
}

impl Sums {
    fn new(count: usize) -> Self {
        Self {
            owners: HashMap::new(),
            pairs: HashMap::new(),
            lengths: vec![Lengths::default(); count],
            strips: Strips::new(count),
        }
    }

    fn add(
        &mut self,
        rows: &PointRows,
        waits: &PointWaits,
        at: usize,
        part: Part,
        query: &TimeSpanQuery,
        bucket: &mut SpanStep,
    ) {
        for owner in &rows.owners {
            let sum = self.owners.entry(owner.id).or_insert_with(|| OwnerSum {
                id: owner.id,
                steps: vec![0; self.lengths.len()],
                ..OwnerSum::default()
            });
            let cpu_ns = part.of(nanos(owner.cpu_us));
            sum.cpu_ns += cpu_ns;
            sum.hurts_ns += part.of(nanos(owner.hurts_us));
            sum.energy_uj += part.of(owner.energy_uj);
            sum.steps[at] += cpu_ns;
            for (sum, us) in sum.wait_ns.iter_mut().zip(owner.wait_us) {
                *sum += part.of(nanos(us));
            }
        }
        for pair in &rows.pairs {
            let wait_ns = part.of(nanos(pair.wait_us));
            let key = (pair.victim, pair.culprit);
            *self.pairs.entry(key).or_default() += wait_ns;
            if query.pair == Some(key) {
                bucket.pair_ns += wait_ns;
            }
        }
        let of = |ns| part.of(ns);
        self.strips.add(&rows.cpus, of, at, query.strips);
        bucket.add_waits(waits, part, &mut self.lengths[at]);
    }

    fn finish(self, range: &mut TimeSpan) {
        for (bucket, lengths) in range.buckets.iter_mut().zip(self.lengths) {
            bucket.lengths = Histogram::from_counts(lengths.0);
        }
        range.strips = self.strips.finish();
        range.owners = self.owners.into_values().collect();
        range
            .owners
            .sort_unstable_by_key(|owner| (std::cmp::Reverse(owner.cpu_ns), owner.id));
        let sum = |((victim, culprit), wait_ns)| PairSum {
            victim,
            culprit,
            wait_ns,
        };
        range.pairs = self.pairs.into_iter().map(sum).collect();
        range
            .pairs
            .sort_unstable_by_key(|p| (std::cmp::Reverse(p.wait_ns), p.victim, p.culprit));
    }
}

/// Counts by bucket of [`Histogram`]; empty until the first count.
#[derive(Clone, Default)]
struct Lengths(Vec<u64>);

impl Lengths {
    fn add(&mut self, bucket: usize, count: u64) {
        if self.0.is_empty() {
            self.0 = vec![0; Histogram::BUCKETS];
        }
        self.0[bucket] += count;
    }
}

impl SpanStep {
    fn add(&mut self, point: &TimePoint, part: Part) {
        let first = self.covered_ns == 0;
        let known = |sum: Option<u64>, more: Option<u64>| match first {
            true => more.map(|more| part.of(more)),
            false => Some(sum? + part.of(more?)),
        };
        let node = &point.node;
        self.interrupt_ns = known(self.interrupt_ns, node.interrupt_ns);
        self.steal_ns = known(self.steal_ns, node.steal_ns);
        self.steal_included_ns = known(self.steal_included_ns, node.steal_included_ns);
        self.covered_ns += part.of(point.length_ns);
        self.elapsed_ns += part.of(node.elapsed_ns);
        self.idle_ns += part.of(node.idle_ns);
        self.used_ns += part.of(node.used_ns);
        self.events += &node.events.map(|count| part.count(count));
        self.losses += part.count(node.losses);
        self.agent_ns += part.of(node.agent_ns);
        let zones = point.zones.len().max(self.zones.len());
        self.zones.resize(zones, ZoneSum::default());
        for (sum, more) in self.zones.iter_mut().zip(&point.zones) {
            if let Some(more) = more {
                sum.energy_uj += part.of(*more);
                sum.covered_ns += part.of(point.length_ns);
            }
        }
    }

    fn add_waits(&mut self, waits: &PointWaits, part: Part, lengths: &mut Lengths) {
        for (sum, ns) in self.wait_ns.iter_mut().zip(waits.wait_ns) {
            *sum += part.of(ns);
        }
        for &(bucket, count) in &waits.lengths {
            lengths.add(bucket, part.count(count));
        }
        self.lengths_missing += usize::from(waits.missing && part.is_last);
    }
}

/// The waits of a point, of the machine or of one owner.
#[derive(Default)]
struct PointWaits {
    /// Waits by index of [`Cause`].
    wait_ns: [u64; Cause::ALL.len()],
    /// Buckets of [`Histogram`] and their counts.
    lengths: Vec<(usize, u64)>,
    /// Whether the point did not keep the histogram.
    missing: bool,
}

impl PointWaits {
    fn new(point: &TimePoint, rows: &PointRows, of: Option<OwnerId>) -> Self {
        let Some(of) = of else {
            let buckets = point.node.lengths.buckets();
            let buckets = buckets.map(|(bound, count)| (Histogram::bucket(bound), count));
            return Self {
                wait_ns: point.node.wait_ns,
                lengths: buckets.collect(),
                missing: false,
            };
        };
        let Some(owner) = rows.owners.iter().find(|owner| owner.id == of) else {
            // The owner was idle, or was left out because the point has a limit of owners.
            return Self {
                missing: point.more_owners > 0,
                ..Self::default()
            };
        };
        let kept = point.rows.lengths_of(of);
        Self {
            wait_ns: owner.wait_us.map(nanos),
            missing: kept.is_none(),
            lengths: (kept.iter().flatten())
                .map(|&(bucket, count)| (bucket.into(), count.into()))
                .collect(),
        }
    }
}
