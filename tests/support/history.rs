//! Reads the reports of a sampler, which is a load that never pauses, and derives how much CPU time
//! the sampler had used at any moment.

use super::load::Load;

/// CPU time of a sampler over time. All times are in seconds of `CLOCK_MONOTONIC`.
pub(crate) struct History {
    /// Times before and after reading the CPU clock, and its value.
    readings: Vec<Reading>,
    /// Intervals in which the sampler did not run or was interrupted.
    jumps: Vec<(f64, f64)>,
}

#[derive(Clone, Copy)]
struct Reading {
    before: f64,
    after: f64,
    used: f64,
}

impl History {
    /// Ends the sampler and reads its report.
    pub(crate) fn of(sampler: &mut Load) -> Self {
        sampler.say("end");
        let mut this = Self {
            readings: Vec::new(),
            jumps: Vec::new(),
        };
        for note in sampler
            .next_message()
            .split(';')
            .filter(|note| !note.is_empty())
        {
            let times: Vec<f64> = note
                .split(' ')
                .map(|time| time.parse::<u64>().expect("a number") as f64 / 1e9)
                .collect();
            match times[..] {
                [from, to] => this.jumps.push((from, to)),
                [before, used, after] => this.readings.push(Reading {
                    before,
                    after,
                    used,
                }),
                _ => panic!("not a note: {note}"),
            }
        }
        this
    }

    /// Returns the minimum and maximum CPU time until `moment`, or `None` if `moment` is not
    /// between two readings. A jump may have been an interrupt, which counts, or another thread,
    /// which does not.
    pub(crate) fn used(&self, moment: f64) -> Option<(f64, f64)> {
        let past = self.readings.partition_point(|r| r.after <= moment);
        let next = self.readings.partition_point(|r| r.before < moment);
        let first = self.readings.get(past.checked_sub(1)?)?;
        let last = self.readings.get(next)?;
        let least = first.used + self.ran(first.after, moment);
        let most = first.used + moment - first.before;
        Some((
            least.max(last.used - (last.after - moment)),
            most.min(last.used - self.ran(moment, last.before)),
        ))
    }

    /// Returns how long the sampler certainly ran between two moments.
    fn ran(&self, from: f64, to: f64) -> f64 {
        let first = self.jumps.partition_point(|jump| jump.1 <= from);
        let inside = self.jumps[first..].iter().take_while(|jump| jump.0 < to);
        let jumped: f64 = inside.map(|jump| jump.1.min(to) - jump.0.max(from)).sum();
        (to - from - jumped).max(0.0)
    }
}
