//! The power that a zone takes when nothing runs, from the lower envelope of power over load.

/// Bins of load; they are narrow near idle: bin n ends at ((n + 1) / BINS)².
const BINS: usize = 24;
/// Ticks that a bin remembers.
const DEPTH: usize = 24;
/// A bin with fewer ticks says nothing.
const ENOUGH: usize = 3;
/// What a bin saw longer ago than this is forgotten: fans, temperature and settings change.
const OLD_NS: u64 = 1_800_000_000_000;
/// A slope is taken over this much load at least, because over less it is noise.
const BASE: f64 = 0.08;

/// Idle power and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Idle {
    /// Watts.
    pub(super) watts: f64,
    /// Half of the width of the interval in which it is likely to be, in watts.
    pub(super) half_width: f64,
}

/// What power a zone took at each load.
///
/// Within a bin the lower third counts and not the minimum: one tick in which the meter lagged must
/// not set the floor for ever. Bins far from idle serve for the slope only.
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

/// The figure of a bin.
#[derive(Clone, Copy, Debug)]
struct Point {
    load: f64,
    watts: f64,
    spread: f64,
}

impl Default for Envelope {
    fn default() -> Self {
        Self {
            bins: std::array::from_fn(|_| Bin::default()),
        }
    }
}

impl Envelope {
    /// Notes a tick: the share of the zone's CPU time that was used, and the power.
    pub(super) fn note(&mut self, at_ns: u64, load: f64, watts: f64) {
        let load = load.clamp(0.0, 1.0);
        let place = ((load.sqrt() * BINS as f64) as usize).min(BINS - 1);
        self.bins[place].note(at_ns, Tick { load, watts });
    }

    /// The least load that it knows of; `None` before there is any.
    pub(super) fn least_load(&self, now_ns: u64) -> Option<f64> {
        self.points(now_ns).next().map(|point| point.load)
    }

    /// Extends the envelope to a load of 0.
    ///
    /// Where all ticks had one load, nothing separates idle power from that of work: the estimate is then
    /// the share of power that belongs to the time that was not used, and its half-width is the rest.
    pub(super) fn estimate(&self, now_ns: u64) -> Option<Idle> {
        let points = self.points(now_ns);
        let first = points.clone().next()?;
        let slopes = points
            .filter(|point| point.load - first.load >= BASE)
            .map(|point| (point.watts - first.watts) / (point.load - first.load));
        // The lower envelope: the flattest way up from the lowest point.
        match slopes.reduce(f64::min) {
            Some(slope) => {
                let below = (slope.max(0.0) * first.load).min(first.watts);
                Some(Idle {
                    watts: first.watts - below,
                    half_width: first.spread + 0.3 * below,
                })
            }
            None => {
                let work = first.watts * first.load;
                Some(Idle {
                    watts: first.watts - work,
                    half_width: first.spread + work,
                })
            }
        }
    }

    fn points(&self, now_ns: u64) -> impl Iterator<Item = Point> + Clone {
        let fresh = move |bin: &&Bin| now_ns.saturating_sub(bin.newest_ns) <= OLD_NS;
        let known = self.bins.iter().filter(fresh);
        // Few ticks in all are better than nothing, and the width says so.
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
        // What is from long ago must not stand beside what is new.
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
        // The loads of the lower half, to which that power belongs.
        let low = &ticks[..ticks.len().div_ceil(2)];
        let load = low.iter().map(|tick| tick.load).sum::<f64>() / low.len() as f64;
        Some(Point {
            load,
            watts: third,
            spread: (middle - third) + middle / (10.0 * ticks.len() as f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn envelope(ticks: impl IntoIterator<Item = (f64, f64)>) -> (Envelope, u64) {
        let mut envelope = Envelope::default();
        let mut at_ns = 0;
        for (load, watts) in ticks {
            at_ns += SECOND;
            envelope.note(at_ns, load, watts);
        }
        (envelope, at_ns)
    }

    #[test]
    fn a_machine_that_is_idle_at_times_tells_its_idle_power() {
        let ticks = (0..60).map(|i| match i % 3 {
            0 => (0.004, 20.1),
            1 => (0.5, 45.0),
            _ => (0.9, 70.0),
        });
        let (envelope, now) = envelope(ticks);
        let idle = envelope.estimate(now).expect("an estimate");
        assert!((idle.watts - 20.0).abs() < 0.3, "{idle:?}");
        assert!(idle.half_width < 1.0, "{idle:?}");
    }

    #[test]
    fn it_is_extended_from_the_least_load() {
        let ticks = (0..60).map(|i| {
            let load = 0.2 + 0.1 * f64::from(i % 6);
            (load, 20.0 + 50.0 * load)
        });
        let (envelope, now) = envelope(ticks);
        let idle = envelope.estimate(now).expect("an estimate");
        assert!((idle.watts - 20.0).abs() < 0.5, "{idle:?}");
        assert!(idle.half_width > 1.0, "{idle:?}");
    }

    #[test]
    fn one_low_tick_is_not_the_floor() {
        let ticks = (0..30).map(|i| (0.001, if i == 7 { 2.0 } else { 20.0 }));
        let (envelope, now) = envelope(ticks);
        assert_eq!(
            envelope.estimate(now).expect("an estimate").watts.round(),
            20.0
        );
    }

    #[test]
    fn one_load_alone_tells_nothing_and_says_so() {
        let (envelope, now) = envelope((0..20).map(|_| (1.0, 80.0)));
        let idle = envelope.estimate(now).expect("an estimate");
        assert_eq!(idle.watts, 0.0);
        assert!(idle.half_width >= 80.0);
        assert!(Envelope::default().estimate(now).is_none());
    }

    #[test]
    fn it_follows_a_machine_whose_idle_power_rises() {
        let (mut envelope, now) = envelope((0..30).map(|_| (0.001, 20.0)));
        for tick in 1..=DEPTH as u64 {
            envelope.note(now + tick * SECOND, 0.001, 26.0);
        }
        let later = now + 30 * SECOND;
        let idle = envelope.estimate(later).expect("an estimate");
        assert!((idle.watts - 26.0).abs() < 0.5, "{idle:?}");
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let (mut envelope, now) = envelope((0..30).map(|_| (0.001, 20.0)));
        let later = now + OLD_NS + SECOND;
        for _ in 0..5 {
            envelope.note(later, 0.3, 40.0);
        }
        let least = envelope.least_load(later).expect("some load");
        assert!((least - 0.3).abs() < 1e-9);
    }
}
