//! Estimates the idle power of a zone from the lower envelope of power over load.

use noctule_model::ZoneKind;

/// Number of bins of load. The bins are narrow near idle: bin n ends at ((n + 1) / BINS)².
const BINS: usize = 24;
/// Number of ticks that a bin keeps.
const DEPTH: usize = 24;
/// Minimum number of ticks in a bin.
const ENOUGH: usize = 3;
/// A bin without a tick for this long is ignored, because fans, temperature and settings change.
const OLD_NS: u64 = 1_800_000_000_000;
/// Minimum difference in load for a slope; less is noise.
const BASE: f64 = 0.08;
/// Up to this load, the envelope itself is idle power. Above it, the envelope must be extrapolated.
const NEAR_IDLE: f64 = 0.03;

/// Different kinds of work may cost more or less than their counters suggest, by up to this
/// fraction. A slope between two loads has this uncertainty.
const KINDS_OF_WORK: f64 = 0.2;
/// Uncertainty added for each hour since idle power was observed, as a fraction of idle power.
const DOUBT_PER_HOUR: f64 = 0.05;

/// Idle power and its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Idle {
    pub(super) watts: f64,
    /// Half-width of the confidence interval, in watts.
    pub(super) half_width: f64,
    /// Whether the zone was nearly idle when its idle power was learned.
    pub(super) observed: bool,
}

impl Idle {
    pub(super) fn surer(self, other: Self) -> Self {
        match other.half_width < self.half_width {
            true => other,
            false => self,
        }
    }

    /// Returns the estimate, with its uncertainty after this time without an observation.
    pub(super) fn aged(self, passed_ns: u64) -> Self {
        let hours = passed_ns as f64 / 3.6e12;
        Self {
            half_width: self.half_width + DOUBT_PER_HOUR * self.watts * hours,
            ..self
        }
    }
}

/// Idle power as a fraction of full power: the bounds, and the value to assume without better
/// knowledge (docs/decisions/33-idle-power.md).
#[derive(Clone, Copy, Debug)]
pub(super) struct IdleShare {
    least: f64,
    usual: f64,
    most: f64,
}

impl IdleShare {
    pub(super) const fn of(kind: ZoneKind) -> Self {
        match kind {
            ZoneKind::Package | ZoneKind::Core => Self {
                least: 0.05,
                usual: 0.3,
                most: 0.6,
            },
            // Memory is refreshed even when idle, and the rest of the machine has fans and disks.
            _ => Self {
                least: 0.1,
                usual: 0.5,
                most: 0.9,
            },
        }
    }

    /// Returns bounds around a published share. Machines with this processor differ by up to a
    /// factor of two.
    pub(super) fn published(share: f64) -> Self {
        Self {
            least: 0.5 * share,
            usual: share,
            most: (2.0 * share).min(0.9),
        }
    }

    /// Returns the bounds of idle power if this is the only known point.
    fn at(self, point: &Point) -> Bounds {
        let part = |share: f64| share / (share + point.load * (1.0 - share)) * point.high;
        Bounds {
            least: part(self.least),
            usual: part(self.usual),
            // If power varies at one load, for example with the frequency, full power may be higher
            // than observed.
            most: part(self.most) + (point.high - point.watts),
        }
    }
}

/// Bounds of idle power, and the value to assume without better knowledge, in watts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) least: f64,
    pub(super) usual: f64,
    pub(super) most: f64,
}

impl Bounds {
    /// Returns the estimate from the bounds alone, for a zone that was never nearly idle.
    pub(super) fn idle(&self) -> Idle {
        Idle {
            watts: self.usual,
            half_width: (self.usual - self.least).max(self.most - self.usual),
            observed: false,
        }
    }

    /// Combines an estimate with the bounds, weighted by precision. The half-width of the result is
    /// the smaller of the two.
    pub(super) fn join(&self, idle: Idle) -> Idle {
        let own = self.idle();
        let weight = |idle: &Idle| idle.half_width.max(1e-9).powi(-2);
        let (ours, its) = (weight(&own), weight(&idle));
        let watts = (own.watts * ours + idle.watts * its) / (ours + its);
        Idle {
            watts: watts.clamp(self.least, self.most),
            half_width: own.half_width.min(idle.half_width),
            observed: false,
        }
    }
}

/// Power of a zone at each load.
///
/// Each bin uses its lower third rather than its minimum, so that one tick with a lagging meter
/// does not set the floor forever. Bins far from idle only serve for the slope.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    bins: [Bin; BINS],
}

#[derive(Clone, Debug, Default)]
struct Bin {
    ticks: Vec<Tick>,
    next: usize,
    newest_ns: u64,
    point: Option<Point>,
}

#[derive(Clone, Copy, Debug)]
struct Tick {
    load: f64,
    watts: f64,
}

/// Summary of a bin.
#[derive(Clone, Copy, Debug)]
struct Point {
    load: f64,
    /// Power at one third and at five sixths of the ticks, sorted by power.
    watts: f64,
    high: f64,
    spread: f64,
}

impl Point {
    /// Extrapolates the line from a point at a higher load through this one to a load of 0. `usual`
    /// is the idle power to assume if nothing is known about it.
    fn extended(&self, higher: &Self, usual: f64) -> Idle {
        let apart = higher.load - self.load;
        let slope = (higher.watts - self.watts) / apart;
        let below = (slope.max(0.0) * self.load).min(self.watts);
        let noise = (self.spread + higher.spread) * self.load / apart;
        let work = below.max(self.watts - usual);
        Idle {
            watts: self.watts - below,
            half_width: self.spread + noise + KINDS_OF_WORK * work * higher.load / apart,
            observed: false,
        }
    }
}

impl Default for Envelope {
    fn default() -> Self {
        Self {
            bins: std::array::from_fn(|_| Bin::default()),
        }
    }
}

impl Envelope {
    /// Records a tick: the used share of the zone's CPU time, and the power.
    pub(super) fn note(&mut self, at_ns: u64, load: f64, watts: f64) {
        let load = load.clamp(0.0, 1.0);
        let place = ((load.sqrt() * BINS as f64) as usize).min(BINS - 1);
        self.bins[place].note(at_ns, Tick { load, watts });
    }

    /// Extrapolates the envelope to a load of 0. Returns `None` unless two loads far enough apart
    /// were seen.
    pub(super) fn estimate(&self, now_ns: u64, bounds: &Bounds) -> Option<Idle> {
        let mut points = self.points(now_ns);
        let first = points.next()?;
        let above = points.filter(|point| point.load - first.load >= BASE);
        let extended = above.map(|point| first.extended(&point, bounds.usual));
        extended.reduce(Idle::surer)
    }

    /// Returns the bounds of idle power, and whether the zone was nearly idle at the lowest load.
    /// Returns `None` without a tick.
    pub(super) fn bounds(&self, now_ns: u64, share: IdleShare) -> Option<(Bounds, bool)> {
        let first = self.points(now_ns).next()?;
        let bounds = share.at(&first);
        let most = self.least_watts(now_ns)?.min(bounds.most);
        let bounds = Bounds {
            least: bounds.least.min(most),
            usual: bounds.usual.min(most),
            most,
        };
        Some((bounds, first.load <= NEAR_IDLE))
    }

    /// Returns the lowest power at any load.
    pub(super) fn least_watts(&self, now_ns: u64) -> Option<f64> {
        let watts = self.points(now_ns).map(|point| point.watts);
        watts.reduce(f64::min)
    }

    fn points(&self, now_ns: u64) -> impl Iterator<Item = Point> + Clone {
        let fresh = move |bin: &&Bin| now_ns.saturating_sub(bin.newest_ns) <= OLD_NS;
        let known = self.bins.iter().filter(fresh);
        // A bin with too few ticks is better than none, and its half-width is larger.
        let least = match known.clone().any(|bin| bin.ticks.len() >= ENOUGH) {
            true => ENOUGH,
            false => 1,
        };
        known
            .filter(move |bin| bin.ticks.len() >= least)
            .filter_map(|bin| bin.point)
    }
}

impl Bin {
    fn note(&mut self, at_ns: u64, tick: Tick) {
        // Old ticks must not be mixed with new ones.
        if at_ns.saturating_sub(self.newest_ns) > OLD_NS {
            self.ticks.clear();
            self.next = 0;
        }
        self.newest_ns = at_ns;
        if self.ticks.len() < DEPTH {
            self.ticks.push(tick);
        } else {
            self.ticks[self.next] = tick;
        }
        self.next = (self.next + 1) % DEPTH;
        self.point = self.figure();
    }

    fn figure(&self) -> Option<Point> {
        let mut ticks = self.ticks.clone();
        ticks.sort_by(|a, b| a.watts.total_cmp(&b.watts));
        let third = ticks.get(ticks.len().checked_sub(1)? / 3)?.watts;
        let middle = ticks.get(ticks.len() / 2)?.watts;
        // The mean load of the ticks with the lowest power, to which that power belongs.
        let low = &ticks[..ticks.len().div_ceil(2)];
        let load = low.iter().map(|tick| tick.load).sum::<f64>() / low.len() as f64;
        Some(Point {
            load,
            watts: third,
            high: ticks[(ticks.len() - 1) * 5 / 6].watts,
            spread: (middle - third) + middle / (10.0 * ticks.len() as f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const SHARE: IdleShare = IdleShare::of(ZoneKind::Package);

    fn envelope(ticks: impl IntoIterator<Item = (f64, f64)>) -> (Envelope, u64) {
        let mut envelope = Envelope::default();
        let mut at_ns = 0;
        for (load, watts) in ticks {
            at_ns += SECOND;
            envelope.note(at_ns, load, watts);
        }
        (envelope, at_ns)
    }

    fn estimate(envelope: &Envelope, now_ns: u64) -> Option<Idle> {
        let (bounds, _) = envelope.bounds(now_ns, SHARE)?;
        let extended = envelope.estimate(now_ns, &bounds);
        Some(extended.unwrap_or_else(|| bounds.idle()))
    }

    #[test]
    fn idle_moments_reveal_idle_power() {
        let ticks = (0..60).map(|i| match i % 3 {
            0 => (0.004, 20.1),
            1 => (0.5, 45.0),
            _ => (0.9, 70.0),
        });
        let (envelope, now) = envelope(ticks);
        let idle = estimate(&envelope, now).expect("an estimate");
        assert!((idle.watts - 20.0).abs() < 0.3, "{idle:?}");
        assert!(idle.half_width < 1.0, "{idle:?}");
    }

    #[test]
    fn idle_power_is_extrapolated_from_the_lowest_load() {
        let ticks = (0..60).map(|i| {
            let load = 0.2 + 0.1 * f64::from(i % 6);
            (load, 20.0 + 50.0 * load)
        });
        let (envelope, now) = envelope(ticks);
        let idle = estimate(&envelope, now).expect("an estimate");
        assert!((idle.watts - 20.0).abs() < 0.5, "{idle:?}");
        assert!(idle.half_width > 1.0, "{idle:?}");
    }

    #[test]
    fn single_low_reading_is_ignored() {
        let ticks = (0..30).map(|i| (0.001, if i == 7 { 2.0 } else { 20.0 }));
        let (envelope, now) = envelope(ticks);
        assert_eq!(
            estimate(&envelope, now).expect("an estimate").watts.round(),
            20.0
        );
    }

    #[test]
    fn single_load_level_gives_wide_bounds() {
        for (load, watts, within) in [(1.0, 80.0, 0.0..=50.0), (0.5, 65.0, 10.0..=50.0)] {
            let (envelope, now) = envelope((0..20).map(|_| (load, watts)));
            let idle = estimate(&envelope, now).expect("an estimate");
            let [least, most] = [-1.0, 1.0].map(|side| idle.watts + side * idle.half_width);
            assert!(within.contains(&idle.watts), "{load}: {idle:?}");
            assert!(least <= 0.12 * watts && most >= 0.6 * watts, "{idle:?}");
            assert!(!idle.observed);
        }
        assert!(estimate(&Envelope::default(), 0).is_none());
    }

    #[test]
    fn idle_power_never_exceeds_the_lowest_power_seen() {
        let ticks = (0..40).map(|i| [(0.01, 20.0), (0.5, 15.0)][i % 2]);
        let (envelope, now) = envelope(ticks);
        let (bounds, observed) = envelope.bounds(now, SHARE).expect("ticks");
        assert_eq!((bounds.most, observed), (15.0, true));
    }

    #[test]
    fn estimate_follows_rising_idle_power() {
        let (mut envelope, now) = envelope((0..30).map(|_| (0.001, 20.0)));
        for tick in 1..=DEPTH as u64 {
            envelope.note(now + tick * SECOND, 0.001, 26.0);
        }
        let later = now + 30 * SECOND;
        let idle = estimate(&envelope, later).expect("an estimate");
        assert!((idle.watts - 26.0).abs() < 0.5, "{idle:?}");
    }

    #[test]
    fn old_readings_are_forgotten() {
        let (mut envelope, now) = envelope((0..30).map(|_| (0.001, 20.0)));
        let later = now + OLD_NS + SECOND;
        for _ in 0..5 {
            envelope.note(later, 0.3, 40.0);
        }
        assert_eq!(envelope.least_watts(later), Some(40.0));
    }
}
