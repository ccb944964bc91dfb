//! Integrates power to energy.

/// Why a sample is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The value is negative, or more than the machine can use.
    Implausible,
    /// The time since the previous sample is too long to estimate the energy.
    Paused,
}

impl Fault {
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Implausible => {
                "the sensor reports negative power, or more than the machine can use"
            }
            Self::Paused => "the sensor was not read for so long that the energy is unknown",
        }
    }
}

/// The area below power samples, interpolated linearly.
#[derive(Debug)]
pub(super) struct Integral {
    most_uw: u64,
    longest_ns: u64,
    /// Twice the energy, in femtojoules (microwatts times nanoseconds), so that no rounding is
    /// necessary.
    doubled: u128,
    /// Time whose energy is lost permanently.
    lost_ns: u64,
    last: Option<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at_ns: u64,
    /// The power of the last sample; `None` if the next sample is not connected to this one. 0 for
    /// a meter that does not report power.
    power_uw: Option<u64>,
}

impl Integral {
    pub(super) fn new(most_watts: u64, longest_ns: u64) -> Self {
        Self {
            most_uw: most_watts * 1_000_000,
            longest_ns,
            doubled: 0,
            lost_ns: 0,
            last: None,
        }
    }

    /// Returns the microjoules since the first sample.
    pub(super) fn energy_uj(&self) -> u64 {
        (self.doubled / 2_000_000_000) as u64
    }

    /// Returns the time up to which energy is counted; `None` before the first sample.
    pub(super) fn at_ns(&self) -> Option<u64> {
        self.last.map(|last| last.at_ns)
    }

    /// Returns how much time is missing from the integral, in nanoseconds.
    pub(super) fn lost_ns(&self) -> u64 {
        self.lost_ns
    }

    /// Adds a power sample in microwatts.
    pub(super) fn add(&mut self, power_uw: i64, at_ns: u64) -> Result<(), Fault> {
        let power_uw = u64::try_from(power_uw).map_err(|_| Fault::Implausible)?;
        if power_uw > self.most_uw {
            return Err(Fault::Implausible);
        }
        let Some((before_uw, lasted_ns)) = self.follow(power_uw, at_ns) else {
            return Ok(());
        };
        if lasted_ns > self.longest_ns {
            self.lost_ns += lasted_ns;
            return Err(Fault::Paused);
        }
        self.doubled += u128::from(before_uw + power_uw) * u128::from(lasted_ns);
        Ok(())
    }

    /// Adds the energy used since the previous sample, in microjoules; `None` if not known.
    pub(super) fn add_used(&mut self, used_uj: Option<i64>, at_ns: u64) -> Result<(), Fault> {
        if used_uj.is_none() {
            self.pause();
        }
        let Some((_, lasted_ns)) = self.follow(0, at_ns) else {
            return Ok(());
        };
        let most = u128::from(self.most_uw) * u128::from(lasted_ns);
        let used = used_uj.and_then(|uj| u128::try_from(uj).ok());
        let used = used.map(|uj| uj * 1_000_000_000);
        let Some(used) = used.filter(|used| *used <= most) else {
            self.lost_ns += lasted_ns;
            return Err(Fault::Implausible);
        };
        self.doubled += 2 * used;
        Ok(())
    }

    /// Disconnects the next sample from the last one.
    pub(super) fn pause(&mut self) {
        if let Some(last) = &mut self.last {
            last.power_uw = None;
        }
    }

    /// Marks the time up to `at_ns` as not measured. The next sample is not connected to an earlier
    /// one.
    pub(super) fn skip(&mut self, at_ns: u64) {
        self.pause();
        if let Some(last) = &mut self.last {
            self.lost_ns += at_ns.saturating_sub(last.at_ns);
            last.at_ns = at_ns;
        }
    }

    /// If this sample is connected to the previous one, returns the power of the previous sample
    /// and the time since that sample.
    fn follow(&mut self, power_uw: u64, at_ns: u64) -> Option<(u64, u64)> {
        let before = self.last.replace(Sample {
            at_ns,
            power_uw: Some(power_uw),
        })?;
        let lasted_ns = at_ns.saturating_sub(before.at_ns);
        if before.power_uw.is_none() {
            self.lost_ns += lasted_ns;
        }
        Some((before.power_uw?, lasted_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn power_that_rises_evenly_is_integrated_exactly() {
        let mut integral = Integral::new(1000, 5 * SECOND);
        // From 0 W to 100 W in 10 s is 500 J, regardless of when samples are taken.
        for tenth in [0, 3, 4, 11, 30, 31, 70, 100] {
            let at_ns = 7 * SECOND + tenth * SECOND / 10;
            assert_eq!(integral.add(tenth as i64 * 1_000_000, at_ns), Ok(()));
        }
        assert_eq!(integral.energy_uj(), 500_000_000);
    }

    #[test]
    fn implausible_readings_add_nothing_and_are_interpolated() {
        for bad in [-1, 1_000_000_001, i64::MAX] {
            let mut integral = Integral::new(1000, 5 * SECOND);
            assert_eq!(integral.add(20_000_000, 0), Ok(()));
            assert_eq!(integral.add(bad, SECOND), Err(Fault::Implausible));
            assert_eq!(integral.energy_uj(), 0);
            assert_eq!(integral.add(20_000_000, 2 * SECOND), Ok(()));
            assert_eq!(integral.energy_uj(), 40_000_000);
            assert_eq!(integral.lost_ns(), 0);
        }
    }

    #[test]
    fn no_energy_is_estimated_over_a_pause() {
        let mut integral = Integral::new(1000, 5 * SECOND);
        assert_eq!(integral.add(20_000_000, 0), Ok(()));
        assert_eq!(integral.add(20_000_000, 6 * SECOND), Err(Fault::Paused));
        assert_eq!(integral.add(20_000_000, 7 * SECOND), Ok(()));
        assert_eq!(integral.energy_uj(), 20_000_000);
        assert_eq!(integral.lost_ns(), 6 * SECOND);
        integral.pause();
        assert_eq!(integral.add(20_000_000, 8 * SECOND), Ok(()));
        assert_eq!(integral.energy_uj(), 20_000_000);
        assert_eq!(integral.lost_ns(), 7 * SECOND);
    }
}
