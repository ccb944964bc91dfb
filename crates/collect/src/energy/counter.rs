//! Turns a hardware counter into a sum that never decreases.

/// Minimum time for a measurement of power, because counters are updated only about once per
/// millisecond.
const SHORTEST_NS: u64 = 20_000_000;
/// Maximum time without movement for the counter of a zone that always uses power.
const STALL_NS: u64 = 10_000_000_000;
/// Longest time without movement after which the next step may still contain the energy of that
/// time.
const LATEST_STEP_NS: u64 = 120_000_000_000;
/// Power may grow to this multiple of the highest power so far before a wrap can go unnoticed.
const GROWTH: u64 = 4;
/// Shortest time between two readings of a counter that wraps.
const SOONEST_NS: u64 = 100_000_000;
const LATEST_NS: u64 = 60_000_000_000;

/// Properties of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// The largest value of the counter, after which it wraps to 0; `None` if it does not wrap.
    pub(super) range_uj: Option<u64>,
    /// The smallest step, in microjoules.
    pub(super) step_uj: u64,
    /// Upper bound of the power of the zone. A higher value is a fault of the meter.
    pub(super) most_watts: u64,
    /// Whether the zone always uses power, so that a working counter always advances.
    pub(super) always_moves: bool,
}

/// Why a reading is rejected or incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The value is smaller than before, and a wrap does not explain it.
    JumpedBack,
    /// The value grew by more than the machine can use.
    JumpedAhead,
    /// The counter kept its value for [`STALL_NS`].
    Stalled,
    /// More time passed than the counter needs to wrap, so a wrap may be unnoticed. The sum grows
    /// as if there had been no such wrap.
    MayHaveWrapped,
}

impl Fault {
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::JumpedBack => "the counter jumped back",
            Self::JumpedAhead => "the counter jumped by more than the machine can use",
            Self::Stalled => "the counter has not moved for 10 s",
            Self::MayHaveWrapped => {
                "the counter was not read for so long that it may have wrapped unnoticed"
            }
        }
    }
}

/// The accumulated energy of a counter.
#[derive(Debug)]
pub(super) struct Sum {
    shape: Shape,
    energy_uj: u64,
    /// Time whose energy will never be in the sum.
    lost_ns: u64,
    last: Option<Last>,
    /// Whether every value so far was 0; `None` before the first value.
    at_zero: Option<bool>,
    /// The highest power so far, in microwatts.
    peak_uw: u64,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    /// The last value; `None` if the next one must not be compared with it.
    value: Option<u64>,
    at_ns: u64,
    /// When the counter last moved.
    moved_ns: u64,
}

impl Sum {
    pub(super) fn new(shape: Shape) -> Self {
        Self {
            shape,
            energy_uj: 0,
            lost_ns: 0,
            last: None,
            at_zero: None,
            peak_uw: 0,
        }
    }

    /// Returns whether the counter is still at 0, although its zone always uses power.
    pub(super) fn has_counted_nothing(&self) -> bool {
        self.shape.always_moves && self.at_zero == Some(true)
    }

    /// Returns the microjoules since the first value.
    pub(super) fn energy_uj(&self) -> u64 {
        self.energy_uj
    }

    /// Returns the time up to which energy is counted; `None` before the first value.
    pub(super) fn at_ns(&self) -> Option<u64> {
        self.last.map(|last| last.at_ns)
    }

    /// Returns when the counter of a zone that always uses power last moved. Returns `None` before
    /// the first value, and for a zone that does not always use power.
    pub(super) fn moved_ns(&self) -> Option<u64> {
        let last = self.last.filter(|_| self.shape.always_moves)?;
        Some(last.moved_ns)
    }

    /// Returns how much time is missing from the sum, in nanoseconds.
    pub(super) fn lost_ns(&self) -> u64 {
        self.lost_ns
    }

    /// Adds a value read at `at_ns`. After a jump, the counter continues from its new value.
    pub(super) fn add(&mut self, value: u64, at_ns: u64) -> Result<(), Fault> {
        self.at_zero = Some(self.at_zero.unwrap_or(true) && value == 0);
        let now = Last {
            value: Some(value),
            at_ns,
            moved_ns: at_ns,
        };
        let Some(last) = self.last.replace(now) else {
            return Ok(());
        };
        let lasted_ns = at_ns.saturating_sub(last.at_ns);
        let Some(before) = last.value else {
            self.lost_ns += lasted_ns;
            return Ok(());
        };
        let moved = value != before;
        if !moved {
            self.last = Some(Last {
                moved_ns: last.moved_ns,
                ..now
            });
        }
        let stood_ns = at_ns.saturating_sub(last.moved_ns).min(LATEST_STEP_NS);
        let grown_ns = lasted_ns.max(stood_ns);
        let grown = self.grown(before, value);
        let Some(grown) = grown.filter(|grown| *grown <= self.most_uj(grown_ns)) else {
            self.lost_ns += lasted_ns;
            return Err(match value < before {
                true => Fault::JumpedBack,
                false => Fault::JumpedAhead,
            });
        };
        self.energy_uj += grown;
        if grown_ns >= SHORTEST_NS {
            let power_uw = u128::from(grown) * 1_000_000_000 / u128::from(grown_ns);
            self.peak_uw = self.peak_uw.max(power_uw as u64);
        }
        let hidden_ns = self.shortest_wrap_ns();
        if hidden_ns.is_some_and(|hidden| lasted_ns >= hidden) {
            return Err(Fault::MayHaveWrapped);
        }
        if self.shape.always_moves && at_ns.saturating_sub(last.moved_ns) >= STALL_NS && !moved {
            return Err(Fault::Stalled);
        }
        Ok(())
    }

    /// Makes the next value a new base instead of comparing it with the last one.
    pub(super) fn pause(&mut self) {
        if let Some(last) = &mut self.last {
            last.value = None;
        }
    }

    /// Returns the time within which the counter must be read again so that no wrap goes unnoticed.
    pub(super) fn within_ns(&self) -> Option<u64> {
        let range_uj = self.shape.range_uj?;
        let most_uw = (self.shape.most_watts * 1_000_000).max(GROWTH * self.peak_uw);
        let wrap_ns = u128::from(range_uj) * 1_000_000_000 / u128::from(most_uw.max(1));
        Some(((wrap_ns / 2) as u64).clamp(SOONEST_NS, LATEST_NS))
    }

    /// Returns the shortest time in which the counter can wrap, based on the highest power so far.
    fn shortest_wrap_ns(&self) -> Option<u64> {
        let range_uj = self.shape.range_uj?;
        let power_uw = GROWTH * self.peak_uw;
        (power_uw > 0).then(|| {
            let wrap_ns = u128::from(range_uj) * 1_000_000_000 / u128::from(power_uw);
            u64::try_from(wrap_ns).unwrap_or(u64::MAX)
        })
    }

    fn grown(&self, before: u64, now: u64) -> Option<u64> {
        if now >= before {
            return Some(now - before);
        }
        let range_uj = self.shape.range_uj?;
        // RAPL counts 2^32 units and reports the largest value as the range, so the wrap itself
        // takes one more unit.
        let unit = (range_uj / u64::from(u32::MAX)).max(1);
        range_uj.checked_sub(before).map(|left| left + unit + now)
    }

    fn most_uj(&self, lasted_ns: u64) -> u64 {
        // A counter that is updated late contains the energy of a longer time.
        let lasted_ns = u128::from(lasted_ns) + u128::from(SHORTEST_NS);
        let most = u128::from(self.shape.most_watts) * lasted_ns / 1000;
        u64::try_from(most)
            .unwrap_or(u64::MAX)
            .saturating_add(2 * self.shape.step_uj)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn sum(range_uj: Option<u64>) -> Sum {
        Sum::new(Shape {
            range_uj,
            step_uj: 61,
            most_watts: 1000,
            always_moves: true,
        })
    }

    #[test]
    fn counter_of_32_bits_wraps_without_loss() {
        // 2^32 units of 61 µJ.
        let unit = 61;
        let mut sum = sum(Some(u64::from(u32::MAX) * unit));
        let mut raw = u32::MAX - 10_000_000;
        let mut counted = 0_u64;
        for second in 0..20 {
            assert_eq!(sum.add(u64::from(raw) * unit, second * SECOND), Ok(()));
            assert_eq!(sum.energy_uj(), counted * unit);
            raw = raw.wrapping_add(1_500_000);
            counted += 1_500_000;
        }
        assert!(raw < u32::MAX - 10_000_000, "it wrapped");
    }

    #[test]
    fn microjoule_counter_wraps_without_loss() {
        // The counter wraps every 3 s at 30 W, and is read as often as it requires.
        let (range, watts) = (90_000_000 - 1, 30);
        let mut sum = sum(Some(range));
        let (mut now, mut true_uj) = (0, 0);
        for _ in 0..1000 {
            assert_eq!(sum.add(true_uj % (range + 1), now), Ok(()));
            assert_eq!(sum.energy_uj(), true_uj);
            let step = sum.within_ns().expect("it wraps");
            now += step;
            true_uj += watts * step / 1000;
        }
        assert!(true_uj > 20 * range, "it wrapped often");
    }

    #[test]
    fn faults_add_nothing_and_counting_continues() {
        // The value after 1,000 J, and why it is rejected.
        let cases = [
            (None, 10, Fault::JumpedBack),
            (Some(262_143_328_850), 10, Fault::JumpedBack),
            (None, 9_000_000_000_000, Fault::JumpedAhead),
            (Some(262_143_328_850), 200_000_000_000, Fault::JumpedAhead),
            // The jump is larger than the range.
            (Some(500), 10, Fault::JumpedBack),
        ];
        for (range, value, fault) in cases {
            let mut sum = sum(range);
            assert_eq!(sum.add(1_000_000_000, 0), Ok(()));
            assert_eq!(sum.add(1_000_000_000 + 50, SECOND), Ok(()));
            assert_eq!(sum.add(value, 2 * SECOND), Err(fault), "{value}");
            assert_eq!(sum.energy_uj(), 50);
            assert_eq!(sum.add(value + 7, 3 * SECOND), Ok(()));
            assert_eq!(sum.energy_uj(), 57);
            assert_eq!(sum.lost_ns(), SECOND);
        }
    }

    #[test]
    fn stalled_counter_is_reported_unless_allowed_to_stall() {
        let mut still = sum(None);
        let mut idle = Sum::new(Shape {
            always_moves: false,
            ..still.shape
        });
        for second in 0..10 {
            assert_eq!(still.add(5, second * SECOND), Ok(()));
            assert_eq!(idle.add(5, second * SECOND), Ok(()));
        }
        assert_eq!(still.add(5, 10 * SECOND), Err(Fault::Stalled));
        assert_eq!(idle.add(5, 10 * SECOND), Ok(()));
        assert_eq!(still.add(6, 11 * SECOND), Ok(()));
        assert_eq!(still.energy_uj(), 1);
    }

    #[test]
    fn step_after_a_stall_covers_the_whole_stall() {
        // The power is 85 W, not 1,275 W.
        let mut sum = sum(Some(262_143_328_850));
        assert_eq!(sum.add(5, 0), Ok(()));
        for second in 1..15 {
            let told = sum.add(5, second * SECOND);
            assert_eq!(told.is_ok(), second < 10, "{second}");
        }
        assert_eq!(sum.add(1_275_000_005, 15 * SECOND), Ok(()));
        assert_eq!(sum.energy_uj(), 1_275_000_000);
        // The step is not interpreted as the power of one second, so the counter does not have to
        // be read more often.
        assert_eq!(sum.within_ns(), Some(LATEST_NS));
        // A counter that did not move for hours cannot contain the energy of hours.
        let much = 1_275_000_005 + 3_600_000_000_000;
        let told = (16..3616).map(|second| sum.add(1_275_000_005, second * SECOND));
        assert_eq!(told.last(), Some(Err(Fault::Stalled)));
        assert_eq!(sum.add(much, 3616 * SECOND), Err(Fault::JumpedAhead));
        assert_eq!(sum.energy_uj(), 1_275_000_000);
    }

    #[test]
    fn possible_hidden_wrap_is_reported() {
        // The highest power is 100 W, and the range 1,000 J. At four times that power, a wrap takes
        // 2.5 s.
        let mut sum = sum(Some(1_000_000_000));
        assert_eq!(sum.add(0, 0), Ok(()));
        assert_eq!(sum.add(100_000_000, SECOND), Ok(()));
        assert_eq!(sum.add(200_000_000, 4 * SECOND), Err(Fault::MayHaveWrapped));
        assert_eq!(sum.energy_uj(), 200_000_000);
    }

    #[test]
    fn read_interval_follows_range_and_power() {
        assert_eq!(sum(None).within_ns(), None);
        // Intel's usual range takes 262 s at 1 kW.
        assert_eq!(sum(Some(262_143_328_850)).within_ns(), Some(LATEST_NS));
        let mut amd = sum(Some(65_532_610_987));
        assert_eq!(amd.within_ns(), Some(32_766_305_493));
        assert_eq!(amd.add(0, 0), Ok(()));
        assert_eq!(amd.add(800_000_000, SECOND), Ok(()));
        assert_eq!(amd.within_ns(), Some(10_239_470_466));
    }
}
