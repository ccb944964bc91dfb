//! Work on the CPUs in one tick, as far as it costs energy.

use noctule_model::{Counter, Measured, PackageUse};

/// Tested exponents of frequency. The energy of a cycle rises with the square of the voltage, and
/// voltage rises with frequency. The power of work therefore follows the frequency raised to an
/// exponent between 1 and 3.
pub(super) const EXPONENTS: [f64; 5] = [1.0, 1.5, 2.0, 2.5, 3.0];

/// Counters of one tick.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Work {
    /// Time on a CPU, in seconds.
    pub(super) seconds: f64,
    /// How many of `seconds` the SMT sibling was busy. 0 if not known.
    pub(super) shared_seconds: f64,
    /// 10^9 cycles; 0 if not measured.
    pub(super) gigacycles: f64,
    /// 10^6 last-level cache misses; 0 if not measured.
    pub(super) megamisses: f64,
}

impl Work {
    pub(super) fn new(growth: &PackageUse, measured: Measured) -> Self {
        let value = |counter, value: u64| {
            let value = if measured.has(counter) { value } else { 0 };
            value as f64
        };
        Self {
            seconds: growth.cpu_ns as f64 / 1e9,
            shared_seconds: value(Counter::SiblingBusy, growth.sibling_busy_ns) / 1e9,
            gigacycles: value(Counter::Cycles, growth.cycles) / 1e9,
            megamisses: value(Counter::CacheMisses, growth.cache_misses) / 1e6,
        }
    }

    /// Returns whether all work is zero.
    pub(super) fn is_nothing(&self) -> bool {
        self.seconds <= 0.0 && self.gigacycles <= 0.0 && self.megamisses <= 0.0
    }

    /// Returns the time with an idle and with a busy sibling, each multiplied by the frequency to
    /// the exponent. Without cycles, the frequency counts as 1.
    pub(super) fn weighed(&self, exponent: f64) -> (f64, f64) {
        if self.seconds <= 0.0 {
            return (self.gigacycles, 0.0);
        }
        let shared = (self.shared_seconds / self.seconds).clamp(0.0, 1.0);
        let all = self.seconds * power(self.gigahertz(), exponent);
        (all * (1.0 - shared), all * shared)
    }

    fn gigahertz(&self) -> f64 {
        if self.gigacycles > 0.0 {
            (self.gigacycles / self.seconds).clamp(0.05, 20.0)
        } else {
            1.0
        }
    }

    /// Subtracts `other`; no value drops below 0.
    pub(super) fn without(&self, other: &Self) -> Self {
        Self {
            seconds: (self.seconds - other.seconds).max(0.0),
            shared_seconds: (self.shared_seconds - other.shared_seconds).max(0.0),
            gigacycles: (self.gigacycles - other.gigacycles).max(0.0),
            megamisses: (self.megamisses - other.megamisses).max(0.0),
        }
    }

    /// Scales the work to the given time.
    pub(super) fn scaled_to(&self, seconds: f64) -> Self {
        if self.seconds <= 0.0 {
            return Self {
                seconds,
                ..Self::default()
            };
        }
        let factor = seconds / self.seconds;
        Self {
            seconds,
            shared_seconds: self.shared_seconds * factor,
            gigacycles: self.gigacycles * factor,
            // Interrupts are charged by time. The cache misses of interrupts are unknown.
            megamisses: 0.0,
        }
    }
}

impl std::ops::AddAssign<&Work> for Work {
    fn add_assign(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.shared_seconds += other.shared_seconds;
        self.gigacycles += other.gigacycles;
        self.megamisses += other.megamisses;
    }
}

/// Like `powf`, for the tested exponents, which are multiples of a half. This function is called
/// for every row at each tick.
fn power(base: f64, exponent: f64) -> f64 {
    let whole = base.powi(exponent as i32);
    if exponent.fract() == 0.0 {
        whole
    } else {
        whole * base.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_split_by_sibling_use_and_weighted_by_frequency() {
        let work = Work {
            seconds: 2.0,
            shared_seconds: 0.5,
            gigacycles: 8.0,
            megamisses: 0.0,
        };
        assert_eq!(work.weighed(1.0), (6.0, 2.0));
        assert_eq!(work.weighed(2.0), (24.0, 8.0));
        assert_eq!(work.weighed(1.5), (12.0, 4.0));
    }

    #[test]
    fn every_exponent_is_a_multiple_of_a_half() {
        for exponent in EXPONENTS {
            let exact = 3.1_f64.powf(exponent);
            assert!((power(3.1, exponent) - exact).abs() < 1e-9, "{exponent}");
        }
    }
}
