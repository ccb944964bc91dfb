//! A counter of the hardware becomes a sum that only goes up.

/// Shorter stretches say nothing about power: counters are updated about once in a millisecond.
const SHORTEST_NS: u64 = 20_000_000;
/// The counter of a zone that always uses some power must move within that time.
const STALL_NS: u64 = 10_000_000_000;
/// A step of a counter that stood still has the energy of that time, up to so much.
const LATEST_STEP_NS: u64 = 120_000_000_000;
/// The power may grow to that many times the highest seen before a wrap can hide.
const GROWTH: u64 = 4;
/// Bounds of the time between two reads of a counter that wraps.
const SOONEST_NS: u64 = 100_000_000;
const LATEST_NS: u64 = 60_000_000_000;

/// How the counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// The largest value; it is followed by 0. `None`: it does not wrap.
    pub(super) range_uj: Option<u64>,
    /// The smallest step, in microjoules.
    pub(super) step_uj: u64,
    /// No zone of this kind uses more power; more is no measurement.
    pub(super) most_watts: u64,
    /// What it covers always uses some power.
    pub(super) always_moves: bool,
}

/// Why what was read does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is less than before by more than a wrap explains.
    JumpedBack,
    /// It grew by more than the machine can use.
    JumpedAhead,
    /// It has not moved for [`STALL_NS`].
    Stalled,
    /// So much time went by that it can have wrapped unseen. What is known counts.
    MayHaveWrapped,
}

impl Fault {
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::JumpedBack => "the counter jumped back",
            Self::JumpedAhead => "the counter jumped by more than the machine can use",
            Self::Stalled => "the counter has not moved for 10 s",
            Self::MayHaveWrapped => {
                "the counter was not read for so long that it can have wrapped unseen"
            }
        }
    }
}

/// The sum of what a counter counted.
#[derive(Debug)]
pub(super) struct Sum {
    shape: Shape,
    energy_uj: u64,
    /// Time whose energy is not in the sum and never will be.
    lost_ns: u64,
    last: Option<Last>,
    /// Whether each value so far was 0; `None` before the first.
    at_zero: Option<bool>,
    /// The highest power seen, in microwatts.
    peak_uw: u64,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    /// `None`: the next value is not compared with it.
    value: Option<u64>,
    at_ns: u64,
    /// When it moved last.
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

    /// It has not left 0, and what it covers always uses some power.
    pub(super) fn has_counted_nothing(&self) -> bool {
        self.shape.always_moves && self.at_zero == Some(true)
    }

    /// Microjoules since the first value.
    pub(super) fn energy_uj(&self) -> u64 {
        self.energy_uj
    }

    /// Up to which moment it counts; `None`: it has not begun.
    pub(super) fn at_ns(&self) -> Option<u64> {
        self.last.map(|last| last.at_ns)
    }

    /// When a counter that always moves moved last; `None`: it need not, or has not begun.
    pub(super) fn moved_ns(&self) -> Option<u64> {
        let last = self.last.filter(|_| self.shape.always_moves)?;
        Some(last.moved_ns)
    }

    /// How much time is missing in the sum, in nanoseconds.
    pub(super) fn lost_ns(&self) -> u64 {
        self.lost_ns
    }

    /// Takes the value that was read at that moment. After a jump the counter goes on from its new
    /// value.
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

    /// The next value is not compared with the last one: the counter goes on from it.
    pub(super) fn pause(&mut self) {
        if let Some(last) = &mut self.last {
            last.value = None;
        }
    }

    /// When it must be read again so that no wrap hides, counted from the last read.
    pub(super) fn within_ns(&self) -> Option<u64> {
        let range_uj = self.shape.range_uj?;
        let most_uw = (self.shape.most_watts * 1_000_000).max(GROWTH * self.peak_uw);
        let wrap_ns = u128::from(range_uj) * 1_000_000_000 / u128::from(most_uw.max(1));
        Some(((wrap_ns / 2) as u64).clamp(SOONEST_NS, LATEST_NS))
    }

    /// How long a wrap takes at least, by the power that was seen.
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
        // RAPL counts 2^32 units and reports the last one: the wrap itself takes a unit more.
        let unit = (range_uj / u64::from(u32::MAX)).max(1);
        range_uj.checked_sub(before).map(|left| left + unit + now)
    }

    fn most_uj(&self, lasted_ns: u64) -> u64 {
        // A counter that is updated late has the energy of a longer stretch.
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
    fn a_counter_of_32_bits_wraps_without_losing_a_unit() {
        // 2^32 units of 61 uJ.
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
    fn a_counter_of_microjoules_wraps_without_losing_one() {
        // Wraps every 3 s at 30 W, and is read as often as it asks for.
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
    fn faults_add_nothing_and_the_counter_goes_on() {
        // What the counter reads after 1,000 J, and why that does not count.
        let cases = [
            (None, 10, Fault::JumpedBack),
            (Some(262_143_328_850), 10, Fault::JumpedBack),
            (None, 9_000_000_000_000, Fault::JumpedAhead),
            (Some(262_143_328_850), 200_000_000_000, Fault::JumpedAhead),
            // More than the range itself.
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
    fn a_counter_that_stands_still_is_told_unless_it_may() {
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
    fn a_step_after_a_counter_stood_still_is_of_all_that_time() {
        // 85 W, and not 1,275 W.
        let mut sum = sum(Some(262_143_328_850));
        assert_eq!(sum.add(5, 0), Ok(()));
        for second in 1..15 {
            let told = sum.add(5, second * SECOND);
            assert_eq!(told.is_ok(), second < 10, "{second}");
        }
        assert_eq!(sum.add(1_275_000_005, 15 * SECOND), Ok(()));
        assert_eq!(sum.energy_uj(), 1_275_000_000);
        // It is not taken for the power of a second: the counter need not be read more often.
        assert_eq!(sum.within_ns(), Some(LATEST_NS));
        // What stood still for hours does not take hours of energy.
        let much = 1_275_000_005 + 3_600_000_000_000;
        let told = (16..3616).map(|second| sum.add(1_275_000_005, second * SECOND));
        assert_eq!(told.last(), Some(Err(Fault::Stalled)));
        assert_eq!(sum.add(much, 3616 * SECOND), Err(Fault::JumpedAhead));
        assert_eq!(sum.energy_uj(), 1_275_000_000);
    }

    #[test]
    fn a_wrap_that_can_have_hidden_is_told() {
        // 100 J/s seen of a range of 1,000 J: a wrap takes 2.5 s at four times that.
        let mut sum = sum(Some(1_000_000_000));
        assert_eq!(sum.add(0, 0), Ok(()));
        assert_eq!(sum.add(100_000_000, SECOND), Ok(()));
        assert_eq!(sum.add(200_000_000, 4 * SECOND), Err(Fault::MayHaveWrapped));
        assert_eq!(sum.energy_uj(), 200_000_000);
    }

    #[test]
    fn how_soon_it_must_be_read_follows_range_and_power() {
        assert_eq!(sum(None).within_ns(), None);
        // Intel's usual range at 1 kW takes 262 s.
        assert_eq!(sum(Some(262_143_328_850)).within_ns(), Some(LATEST_NS));
        let mut amd = sum(Some(65_532_610_987));
        assert_eq!(amd.within_ns(), Some(32_766_305_493));
        assert_eq!(amd.add(0, 0), Ok(()));
        assert_eq!(amd.add(800_000_000, SECOND), Ok(()));
        assert_eq!(amd.within_ns(), Some(10_239_470_466));
    }
}
