//! Interpolates the counter of a meter at the time of a batch.

use noctule_model::ZoneReading;

/// Tracks the readings of one zone and interpolates between the two readings around a batch.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    last: Option<Point>,
    /// Energy returned so far, counted from the first reading, in microjoules.
    given_uj: u64,
    /// Offset added to each reading, because a source that restarts counts from 0 again.
    offset_uj: u64,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    at_ns: u64,
    energy_uj: u64,
    gaps: u64,
    lost_ns: u64,
}

/// Energy that the meter counted in a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Metered {
    /// Energy in microjoules.
    pub(super) energy_uj: u64,
    /// Whether energy of the tick is missing or came late. Such a tick cannot be used to measure
    /// power.
    pub(super) gap: bool,
    /// If energy since the previous reading was lost, how much of the time before the batch counts,
    /// in nanoseconds. Energy for the remaining time is never charged.
    pub(super) counted_ns: Option<u64>,
    /// Time between the batch and the nearest reading, in nanoseconds.
    pub(super) skew_ns: u64,
}

impl Clock {
    /// Returns the energy between the previous batch and this one. Returns `None` for the first
    /// reading, which is the base.
    pub(super) fn advance(&mut self, reading: &ZoneReading, batch_ns: u64) -> Option<Metered> {
        let at_ns = reading.before_ns / 2 + reading.after_ns / 2;
        let Some(last) = self.last else {
            self.offset_uj = reading.energy_uj.wrapping_neg();
            self.last = Some(Point {
                at_ns,
                energy_uj: 0,
                gaps: reading.gaps,
                lost_ns: reading.lost_ns,
            });
            return None;
        };
        let mut energy_uj = reading.energy_uj.wrapping_add(self.offset_uj);
        let mut lost_ns = reading.lost_ns.saturating_sub(last.lost_ns);
        // The counter decreased, as the wrapping difference shows. Counting continues from the last
        // value.
        if energy_uj.wrapping_sub(last.energy_uj) > u64::MAX / 2 {
            self.offset_uj = last.energy_uj.wrapping_sub(reading.energy_uj);
            energy_uj = last.energy_uj;
            lost_ns = at_ns.saturating_sub(last.at_ns);
        }
        let now = Point {
            at_ns: at_ns.max(last.at_ns),
            energy_uj,
            gaps: reading.gaps,
            lost_ns: reading.lost_ns,
        };
        let here = between(&last, &now, batch_ns);
        self.last = Some(now);
        let energy_uj = here.saturating_sub(self.given_uj);
        self.given_uj += energy_uj;
        let near = [last.at_ns, now.at_ns].map(|at| at.abs_diff(batch_ns));
        Some(Metered {
            energy_uj,
            gap: reading.gaps != last.gaps || lost_ns > 0,
            counted_ns: (lost_ns > 0).then(|| {
                let passed_ns = batch_ns.saturating_sub(last.at_ns);
                passed_ns.saturating_sub(lost_ns)
            }),
            skew_ns: near[0].min(near[1]),
        })
    }
}

/// Interpolates the counter linearly between two readings. Never returns more than the later one.
fn between(from: &Point, to: &Point, at_ns: u64) -> u64 {
    if at_ns >= to.at_ns || to.at_ns == from.at_ns {
        return to.energy_uj;
    }
    let part = u128::from(at_ns.saturating_sub(from.at_ns));
    let whole = u128::from(to.at_ns - from.at_ns);
    let growth = u128::from(to.energy_uj - from.energy_uj);
    from.energy_uj + (growth * part / whole) as u64
}

#[cfg(test)]
mod tests {
    use noctule_model::FeatureState;

    use super::*;

    fn reading(at_ns: u64, energy_uj: u64) -> ZoneReading {
        ZoneReading {
            energy_uj,
            before_ns: at_ns,
            after_ns: at_ns,
            gaps: 0,
            lost_ns: 0,
            failed_ns: 0,
            state: FeatureState::On,
            reason: None,
        }
    }

    /// Returns the energy of each tick. Batches are at multiples of 1000.
    fn energies(readings: &[ZoneReading]) -> Vec<u64> {
        let mut clock = Clock::default();
        let moments = (1..).map(|tick| tick * 1000);
        let ticks = readings.iter().zip(moments);
        ticks
            .filter_map(|(reading, at)| clock.advance(reading, at))
            .map(|metered| metered.energy_uj)
            .collect()
    }

    #[test]
    fn readings_after_the_batch_are_interpolated_and_nothing_is_lost() {
        let readings = [
            reading(1100, 7_000),
            reading(2100, 8_000),
            reading(3100, 10_000),
            reading(4000, 10_900),
        ];
        assert_eq!(energies(&readings), [900, 1_900, 1_100]);
    }

    #[test]
    fn reading_before_the_batch_counts_unchanged() {
        let readings = [reading(900, 0), reading(1900, 50), reading(2900, 90)];
        assert_eq!(energies(&readings), [50, 40]);
    }

    #[test]
    fn stalled_meter_reports_its_energy_when_it_moves() {
        let stalled = reading(1900, 50);
        let readings = [
            reading(900, 0),
            stalled.clone(),
            stalled,
            reading(3900, 150),
        ];
        assert_eq!(energies(&readings), [50, 0, 100]);
    }

    #[test]
    fn meter_that_jumps_back_continues_its_sum() {
        let readings = [
            reading(1000, 500),
            reading(2000, 600),
            reading(3000, 20),
            reading(4000, 90),
        ];
        assert_eq!(energies(&readings), [100, 0, 70]);
    }

    #[test]
    fn counters_near_their_end_do_not_overflow() {
        let top = u64::MAX - 10;
        assert_eq!(energies(&[reading(1000, top), reading(2000, top + 5)]), [5]);
    }

    #[test]
    fn meter_gap_is_reported_once() {
        let mut clock = Clock::default();
        clock.advance(&reading(1000, 1), 1000);
        let mut late = reading(2000, 9);
        late.gaps = 1;
        let metered = clock.advance(&late, 2000).expect("a tick");
        assert!(metered.gap);
        late = ZoneReading {
            gaps: 1,
            ..reading(3000, 10)
        };
        let metered = clock.advance(&late, 3000).expect("a tick");
        assert!(!metered.gap);
    }
}
