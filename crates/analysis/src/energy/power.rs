//! The power model of one zone: idle power and the cost of work.

use noctule_model::{Driver, Zone, ZoneKind};

use super::IdleKnowledge;
use super::fit::Fit;
use super::idle::{Envelope, Idle, IdleShare};
use super::work::{EXPONENTS, Work};

/// A fit is used if its error is below this fraction of the plain ratio's error.
const BETTER: f64 = 0.9;
/// Another fit replaces the current one if its error is below this fraction of the current error.
const CHANGE: f64 = 0.95;
/// Step of the idle power estimate in each tick after the start.
const FOLLOW: f64 = 0.05;
/// Number of ticks after which the estimate moves in small steps.
const SETTLED: u32 = 60;

/// Uncertainty of idle power given by the operator, as a fraction of that power.
const GIVEN_DOUBT: f64 = 0.05;

/// Work during the one or more ticks between two movements of the meter.
#[derive(Clone, Debug, Default)]
pub(super) struct Span {
    pub(super) seconds: f64,
    /// Used share of the CPU time, multiplied by seconds.
    load_seconds: f64,
    driven: f64,
    /// Work alone and with a busy sibling, for each exponent.
    weighed: [(f64, f64); EXPONENTS.len()],
}

impl Span {
    /// Returns the used share of the CPU time.
    pub(super) fn load(&self) -> f64 {
        match self.seconds > 0.0 {
            true => self.load_seconds / self.seconds,
            false => 0.0,
        }
    }
}

/// Learns from each tick and returns the weights to divide its energy.
#[derive(Clone, Debug)]
pub(super) struct Power {
    driver: Driver,
    share: IdleShare,
    /// Idle power given by the operator, in watts.
    given: Option<f64>,
    envelope: Envelope,
    ratio: Fit,
    fits: [Fit; EXPONENTS.len()],
    chosen: Option<usize>,
    idle: Option<Idle>,
    /// When the estimate of idle power was last updated.
    followed_ns: u64,
    ticks: u32,
    /// Whether learning has ended.
    settled: bool,
}

impl Power {
    pub(super) fn new(driver: Driver, kind: ZoneKind) -> Self {
        Self {
            driver,
            share: IdleShare::of(kind),
            given: None,
            envelope: Envelope::default(),
            ratio: Fit::default(),
            fits: std::array::from_fn(|_| Fit::default()),
            chosen: None,
            idle: None,
            followed_ns: 0,
            ticks: 0,
            settled: false,
        }
    }

    /// Takes over earlier knowledge about the zone's idle power.
    pub(super) fn know(&mut self, knowledge: &IdleKnowledge, zone: &Zone) {
        let mut given = knowledge.given.iter();
        let given = given.find(|(kind, _)| *kind == zone.kind);
        self.given = given.map(|(_, watts)| *watts);
        if let Some(share) = knowledge.published_share
            && matches!(zone.kind, ZoneKind::Package | ZoneKind::Core)
        {
            self.share = IdleShare::published(share);
        }
        let mut learned = knowledge.learned.iter();
        let learned = learned.find(|it| it.path == zone.path);
        self.idle = learned.map(|it| {
            let idle = Idle {
                watts: it.watts,
                half_width: it.half_width,
                observed: true,
            };
            idle.aged(it.age_seconds.saturating_mul(1_000_000_000))
        });
    }

    /// Returns the observed idle power and its half-width in watts. Returns `None` if the operator
    /// gave it.
    pub(super) fn observed(&self) -> Option<(f64, f64)> {
        let idle = self.idle.filter(|idle| idle.observed)?;
        self.given
            .is_none()
            .then_some((idle.watts, idle.half_width))
    }

    /// Returns a copy that does not learn, for dividing ticks again that it has already learned.
    pub(super) fn settled(&self) -> Self {
        Self {
            settled: true,
            ..self.clone()
        }
    }

    /// Adds a tick to a span. `everybody` yields all work, one item per row.
    pub(super) fn extend<'a>(
        &self,
        span: &mut Span,
        seconds: f64,
        load: f64,
        everybody: impl Iterator<Item = &'a Work>,
    ) {
        span.seconds += seconds;
        span.load_seconds += load * seconds;
        for work in everybody {
            span.driven += self.driven(work);
            if self.is_fitted() {
                for (sum, exponent) in span.weighed.iter_mut().zip(EXPONENTS) {
                    let (alone, shared) = work.weighed(exponent);
                    sum.0 += alone;
                    sum.1 += shared;
                }
            }
        }
    }

    /// Learns from a span and the energy that the meter counted in it. Returns the energy that the
    /// current model predicted beforehand, in microjoules.
    pub(super) fn learn(&mut self, at_ns: u64, span: &Span, energy_uj: u64) -> Option<f64> {
        if span.seconds <= 0.0 {
            return None;
        }
        if self.settled {
            // The model has already learned this tick. Returns a value that is off by the model's
            // usual error.
            let fit = self.fit();
            let error = fit.is_ready().then(|| fit.error() * span.seconds * 1e6);
            return error.map(|error| energy_uj as f64 - error);
        }
        self.ticks = self.ticks.saturating_add(1);
        let watts = energy_uj as f64 / 1e6 / span.seconds;
        let ratio = [1.0, span.driven / span.seconds, 0.0];
        let terms = |(alone, shared): &(f64, f64)| {
            let per_second = |work: f64| work / span.seconds;
            [1.0, per_second(*alone), per_second(*shared)]
        };
        let expected = match self.chosen {
            Some(place) => self.fits[place].predict(&terms(&span.weighed[place])),
            None => self.ratio.predict(&ratio),
        };
        let known = self.ratio.is_ready();
        self.ratio.learn(&ratio, watts);
        if self.is_fitted() {
            for (fit, weighed) in self.fits.iter_mut().zip(&span.weighed) {
                fit.learn(&terms(weighed), watts);
            }
            self.choose();
        }
        self.envelope.note(at_ns, span.load(), watts);
        self.follow(at_ns);
        known.then_some(expected * span.seconds * 1e6)
    }

    pub(super) fn idle(&self) -> Option<Idle> {
        self.idle
    }

    /// Returns the exponent of frequency, if a fit is in use.
    pub(super) fn exponent(&self) -> Option<f64> {
        self.chosen.map(|place| EXPONENTS[place])
    }

    /// Returns the weight of the work in the active energy. Weights of one tick have the same unit.
    pub(super) fn weight(&self, work: &Work) -> f64 {
        match self.chosen {
            Some(place) => {
                let (alone, shared) = work.weighed(EXPONENTS[place]);
                self.fits[place].work_watts(alone, shared)
            }
            None => self.driven(work),
        }
    }

    /// Returns the model in use.
    fn fit(&self) -> &Fit {
        self.chosen.map_or(&self.ratio, |place| &self.fits[place])
    }

    /// Returns the work as an amount of the zone's driver, such as 10^9 cycles.
    fn driven(&self, work: &Work) -> f64 {
        match self.driver {
            Driver::Cycles => work.gigacycles,
            Driver::CpuTime => work.seconds,
            Driver::CacheMisses => work.megamisses,
            Driver::Parts | Driver::Nothing => 0.0,
        }
    }

    /// Memory power depends on accesses, regardless of the frequency of the cores.
    fn is_fitted(&self) -> bool {
        matches!(self.driver, Driver::Cycles | Driver::CpuTime)
    }

    /// Selects the fit with the best predictions, if it is better than the plain ratio.
    fn choose(&mut self) {
        let ready = |fit: &Fit| fit.is_ready() && fit.work_watts(1.0, 1.0) > 0.0;
        let best = (0..self.fits.len())
            .filter(|&place| ready(&self.fits[place]))
            .min_by(|&a, &b| self.fits[a].error().total_cmp(&self.fits[b].error()));
        let Some(best) = best else { return };
        let error = |place: usize| self.fits[place].error();
        if error(best) >= BETTER * self.ratio.error() {
            self.chosen = None;
            return;
        }
        self.chosen = match self.chosen {
            Some(now) if error(best) >= CHANGE * error(now) => Some(now),
            _ => Some(best),
        };
    }

    /// Moves the estimate of idle power towards the current one.
    fn follow(&mut self, at_ns: u64) {
        let Some(now) = self.estimate_idle(at_ns) else {
            return;
        };
        let passed_ns = match self.followed_ns {
            0 => 0,
            before => at_ns.saturating_sub(before),
        };
        self.followed_ns = at_ns;
        let before = self.idle.map(|before| before.aged(passed_ns));
        self.idle = Some(match before {
            // An observed value stays until another estimate is more certain. The result never
            // exceeds the current power.
            Some(before)
                if before.observed && !now.observed && before.half_width < now.half_width =>
            {
                let least = self.envelope.least_watts(at_ns);
                Idle {
                    watts: least.map_or(before.watts, |least| before.watts.min(least)),
                    ..before
                }
            }
            // A much more certain value replaces the estimate immediately.
            Some(before)
                if self.ticks > SETTLED
                    && before.observed == now.observed
                    && now.half_width > 0.5 * before.half_width =>
            {
                let step = |from: f64, to: f64| from + FOLLOW * (to - from);
                Idle {
                    watts: step(before.watts, now.watts),
                    half_width: step(before.half_width, now.half_width),
                    ..now
                }
            }
            _ => now,
        });
    }

    /// Estimates idle power. If the zone is sometimes idle, the envelope is used. Otherwise the
    /// estimate is the envelope or the fit, whichever is more certain, within the bounds.
    fn estimate_idle(&self, at_ns: u64) -> Option<Idle> {
        let (bounds, near_idle) = self.envelope.bounds(at_ns, self.share)?;
        if let Some(given) = self.given {
            return Some(Idle {
                watts: self.envelope.least_watts(at_ns)?.min(given),
                half_width: GIVEN_DOUBT * given,
                observed: true,
            });
        }
        let extended = self.envelope.estimate(at_ns, &bounds);
        if near_idle {
            let observed = extended.unwrap_or_else(|| bounds.idle());
            return Some(Idle {
                watts: observed.watts.min(bounds.most),
                observed: true,
                ..observed
            });
        }
        let learned = [extended, self.fitted(bounds.usual)].into_iter().flatten();
        let surest = learned.reduce(Idle::surer);
        Some(surest.map_or(bounds.idle(), |idle| bounds.join(idle)))
    }

    /// Returns the idle power of the fit with the smallest error, even if another model divides the
    /// energy. `usual` is the idle power to assume if nothing is known about it.
    fn fitted(&self, usual: f64) -> Option<Idle> {
        let fits = std::iter::once(&self.ratio).chain(&self.fits);
        let mut ready: Vec<&Fit> = fits.filter(|fit| fit.is_ready()).collect();
        ready.sort_by(|a, b| a.error().total_cmp(&b.error()));
        let (best, others) = ready.split_first()?;
        let watts = best.idle_watts();
        // The real exponent is usually between two of the tested ones.
        let next = others.first().map_or(watts, |next| next.idle_watts());
        Some(Idle {
            watts,
            half_width: best.idle_doubt(usual)? + (watts - next).abs(),
            observed: false,
        })
    }
}
