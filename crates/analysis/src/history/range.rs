//! A range of time of a history, in steps.

use std::collections::HashMap;
use std::sync::Arc;

use noctule_model::{Cause, EventCounters, Histogram, Measured};

use super::cpu::{CpuStrip, Strips};
use super::point::nanos;
use super::{OwnerId, TimePoint, TimelineView};

/// Which part of a history, and how finely.
#[derive(Clone, Copy, Debug)]
pub struct TimeSpanQuery {
    /// Begin, nanoseconds since 1970.
    pub from_unix_ns: u64,
    /// End, nanoseconds since 1970.
    pub to_unix_ns: u64,
    /// Most steps; at least 1.
    pub steps: usize,
    /// Whose waits; `None`: those of the machine.
    pub waits_of: Option<OwnerId>,
    /// The pair that is followed over time: victim, culprit.
    pub pair: Option<(OwnerId, OwnerId)>,
    /// CPUs that are shown one by one, at most: the first ones.
    pub strips: usize,
}

/// The sums of a range. A point belongs to the step in which it ended.
#[derive(Clone, Debug, Default)]
pub struct TimeSpan {
    /// Begin of the first step, nanoseconds since 1970: a multiple of the step, so that steps of one
    /// length are the same whenever they are asked for.
    pub from_unix_ns: u64,
    /// Length of a step, nanoseconds.
    pub step_ns: u64,
    /// The steps; one without points is a gap.
    pub buckets: Vec<SpanStep>,
    /// Everybody who is in a point, most CPU time first.
    pub owners: Vec<OwnerSum>,
    /// Who made whom wait, most first.
    pub pairs: Vec<PairSum>,
    /// What is measured, at the end.
    pub measured: Measured,
    /// CPUs online at the end.
    pub cpus: u32,
    /// As many of them as were asked for, in ascending order.
    pub strips: Vec<CpuStrip>,
    /// Points in which owners found no place.
    pub crowded: usize,
    /// Number of the last batch.
    pub sequence: u64,
}

/// The sums of one step.
#[derive(Clone, Debug, Default)]
pub struct SpanStep {
    /// Length of its points, nanoseconds; 0: a gap.
    pub covered_ns: u64,
    /// Time of all CPUs.
    pub elapsed_ns: u64,
    /// The part in which they were idle.
    pub idle_ns: u64,
    /// The part that threads used.
    pub used_ns: u64,
    /// What interrupts took; `None` where it is not known of each point.
    pub interrupt_ns: Option<u64>,
    /// What the host took; likewise.
    pub steal_ns: Option<u64>,
    /// What the host took where that is included in used and idle time; likewise.
    pub steal_included_ns: Option<u64>,
    /// What was waited, by index of [`Cause`], nanoseconds.
    pub wait_ns: [u64; Cause::ALL.len()],
    /// How long each wait was. Of an owner without its crowded points.
    pub lengths: Histogram,
    /// Points of which the lengths of the owner's waits were not kept.
    pub lengths_missing: usize,
    /// Events of the machine.
    pub events: EventCounters,
    /// What was lost.
    pub losses: u64,
    /// CPU time of the agent, nanoseconds.
    pub agent_ns: u64,
    /// What the pair waited, nanoseconds.
    pub pair_ns: u64,
    /// Energy by zone, microjoules.
    pub zones: Vec<u64>,
}

/// The sums of one owner.
#[derive(Clone, Debug, Default)]
pub struct OwnerSum {
    /// Who.
    pub id: OwnerId,
    /// Time on a CPU, nanoseconds.
    pub cpu_ns: u64,
    /// What others waited while it had the CPU, nanoseconds.
    pub hurts_ns: u64,
    /// What it waited, by index of [`Cause`], nanoseconds.
    pub wait_ns: [u64; Cause::ALL.len()],
    /// CPU time in each step, nanoseconds.
    pub steps: Vec<u64>,
}

/// The sum of one pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairSum {
    /// Who waited.
    pub victim: OwnerId,
    /// Who had the CPU.
    pub culprit: OwnerId,
    /// For how long, nanoseconds.
    pub wait_ns: u64,
}

impl OwnerSum {
    /// All that it waited, nanoseconds.
    pub fn waited_ns(&self) -> u64 {
        self.wait_ns.iter().sum()
    }
}

/// No step is shorter than the usual tick.
const LEAST_STEP_NS: u64 = 1_000_000_000;

impl TimeSpan {
    /// Whether waits are measured at the end. A span without points has only gaps, and says yes.
    pub fn has_waits(&self) -> bool {
        let is_gap = |step: &SpanStep| step.covered_ns == 0;
        self.measured.has_waits() || self.buckets.iter().all(is_gap)
    }
}

impl TimelineView {
    /// Adds the points up.
    pub fn range(&self, query: &TimeSpanQuery) -> TimeSpan {
        let length = query.to_unix_ns.saturating_sub(query.from_unix_ns);
        let step_ns = length.div_ceil(query.steps.max(1) as u64);
        // Whole seconds: the borders stay where they are while time goes on.
        let step_ns = step_ns.max(1).next_multiple_of(LEAST_STEP_NS);
        let from_unix_ns = query.from_unix_ns / step_ns * step_ns;
        let count = query
            .to_unix_ns
            .saturating_sub(from_unix_ns)
            .div_ceil(step_ns);
        // With the borders moved there is one more at most.
        let count = (count as usize).min(query.steps + 1);
        let mut range = TimeSpan {
            from_unix_ns,
            step_ns,
            buckets: vec![SpanStep::default(); count],
            ..TimeSpan::default()
        };
        let mut owners: HashMap<OwnerId, OwnerSum> = HashMap::new();
        let mut pairs: HashMap<(OwnerId, OwnerId), u64> = HashMap::new();
        let mut lengths: Vec<Lengths> = vec![Lengths::default(); count];
        let mut strips = Strips::new(count);
        for point in self.within(from_unix_ns, query.to_unix_ns) {
            // A point that ends at a border belongs to the step before it.
            let at = point.time_unix_ns.saturating_sub(from_unix_ns + 1) / step_ns;
            let Some(bucket) = range.buckets.get_mut(at as usize) else {
                continue;
            };
            bucket.add(point);
            for owner in &point.owners {
                let sum = owners.entry(owner.id).or_insert_with(|| OwnerSum {
                    id: owner.id,
                    steps: vec![0; count],
                    ..OwnerSum::default()
                });
                let cpu_ns = nanos(owner.cpu_us);
                sum.cpu_ns += cpu_ns;
                sum.hurts_ns += nanos(owner.hurts_us);
                sum.steps[at as usize] += cpu_ns;
                for (sum, us) in sum.wait_ns.iter_mut().zip(owner.wait_us) {
                    *sum += nanos(us);
                }
            }
            for pair in &point.pairs {
                let wait_ns = nanos(pair.wait_us);
                *pairs.entry((pair.victim, pair.culprit)).or_default() += wait_ns;
                if query.pair == Some((pair.victim, pair.culprit)) {
                    bucket.pair_ns += wait_ns;
                }
            }
            strips.add(point, at as usize, query.strips);
            bucket.add_waits(point, query.waits_of, &mut lengths[at as usize]);
            range.crowded += usize::from(point.more_owners > 0);
            range.measured = point.node.measured;
            range.cpus = point.node.cpus;
            range.sequence = point.sequence;
        }
        for (bucket, lengths) in range.buckets.iter_mut().zip(lengths) {
            bucket.lengths = Histogram::from_counts(lengths.0);
        }
        range.strips = strips.finish();
        range.owners = owners.into_values().collect();
        range
            .owners
            .sort_unstable_by_key(|owner| (std::cmp::Reverse(owner.cpu_ns), owner.id));
        let sum = |((victim, culprit), wait_ns)| PairSum {
            victim,
            culprit,
            wait_ns,
        };
        range.pairs = pairs.into_iter().map(sum).collect();
        range
            .pairs
            .sort_unstable_by_key(|p| (std::cmp::Reverse(p.wait_ns), p.victim, p.culprit));
        range
    }

    fn within(&self, from_unix_ns: u64, to_unix_ns: u64) -> impl Iterator<Item = &Arc<TimePoint>> {
        let inside = move |point: &&Arc<TimePoint>| {
            point.time_unix_ns > from_unix_ns && point.time_unix_ns <= to_unix_ns
        };
        self.points.iter().filter(inside)
    }
}

/// Counts by bucket of [`Histogram`]; empty as long as there is none.
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
    fn add(&mut self, point: &TimePoint) {
        let first = self.covered_ns == 0;
        let known = |sum: Option<u64>, more: Option<u64>| match first {
            true => more,
            false => Some(sum? + more?),
        };
        let node = &point.node;
        self.interrupt_ns = known(self.interrupt_ns, node.interrupt_ns);
        self.steal_ns = known(self.steal_ns, node.steal_ns);
        self.steal_included_ns = known(self.steal_included_ns, node.steal_included_ns);
        self.covered_ns += point.length_ns;
        self.elapsed_ns += node.elapsed_ns;
        self.idle_ns += node.idle_ns;
        self.used_ns += node.used_ns;
        self.events += &node.events;
        self.losses += node.losses;
        self.agent_ns += node.agent_ns;
        let zones = point.zones.len().max(self.zones.len());
        self.zones.resize(zones, 0);
        for (sum, more) in self.zones.iter_mut().zip(&point.zones) {
            *sum += more;
        }
    }

    fn add_waits(&mut self, point: &TimePoint, of: Option<OwnerId>, lengths: &mut Lengths) {
        let Some(of) = of else {
            for (sum, ns) in self.wait_ns.iter_mut().zip(point.node.wait_ns) {
                *sum += ns;
            }
            for (bound, count) in point.node.lengths.buckets() {
                lengths.add(Histogram::bucket(bound), count);
            }
            return;
        };
        let Some(owner) = point.owners.iter().find(|owner| owner.id == of) else {
            // It did nothing, or found no place.
            self.lengths_missing += usize::from(point.more_owners > 0);
            return;
        };
        for (sum, us) in self.wait_ns.iter_mut().zip(owner.wait_us) {
            *sum += nanos(us);
        }
        match &owner.lengths {
            None => self.lengths_missing += 1,
            Some(kept) => {
                for &(bucket, count) in kept {
                    lengths.add(usize::from(bucket), u64::from(count));
                }
            }
        }
    }
}
