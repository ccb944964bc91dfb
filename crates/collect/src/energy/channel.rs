//! One zone: its meter, its accumulated energy and its faults.

use std::io;
use std::sync::Arc;

use noctule_model::{FeatureState, ZoneReading};

use super::Moment;
use super::battery::Battery;
use super::counter::{self, Sum};
use super::found::{Found, Input, most_watts};
use super::integral::{self, Integral};
use super::perf::PerfEvents;
use super::source::{EnergyFile, Meter, Open, PowerFile, Value, words};

/// Longest time without a sample over which power is integrated: a fixed time, and a number of
/// sampling intervals. The longer of the two applies.
const LONGEST_NS: u64 = 5_000_000_000;
const LONGEST_INTERVALS: u64 = 4;

/// Shortest suspension that is recognized. The two clocks are read one after the other, so a
/// shorter difference may be noise.
const SHORTEST_SUSPENSION_NS: u64 = 100_000_000;
const SUSPENDED: &str = "the machine was suspended: the energy used during the suspension, and just before it, is not \
        counted";

/// A zone and its meter.
pub(super) struct Channel {
    found: Found,
    /// The open meter; `None` before the first reading and after a failure. The meter is opened
    /// again for the next reading, because the device may have been replaced.
    open: Option<Box<dyn Meter>>,
    /// Accumulated energy of a counter.
    sum: Sum,
    /// Energy integrated from power.
    integral: Integral,
    reading: ZoneReading,
    /// How long the machine had been suspended at the last attempt.
    suspended_ns: Option<u64>,
    /// When the meter must be read again, independently of batches.
    due_ns: Option<u64>,
    /// The current failure, if any.
    failing: Option<Failing>,
}

#[derive(Clone, Copy, Debug)]
struct Failing {
    since_ns: u64,
    earlier_ns: u64,
}

impl Channel {
    /// Opens the meter and reads it once. Returns the reason if it cannot be read.
    pub(super) fn open(
        found: &Found,
        files: &dyn Open,
        clock: &dyn Fn() -> Moment,
    ) -> Result<Self, String> {
        let longest_ns = found.input.interval_ns().unwrap_or(0) * LONGEST_INTERVALS;
        let mut channel = Self {
            open: None,
            sum: Sum::new(found.shape()),
            integral: Integral::new(most_watts(found.kind), longest_ns.max(LONGEST_NS)),
            reading: ZoneReading::of(0),
            suspended_ns: None,
            due_ns: None,
            failing: None,
            found: found.clone(),
        };
        channel.read(files, clock);
        match channel.reading.reason.take() {
            None => Ok(channel),
            Some(reason) => Err(reason.to_string()),
        }
    }

    /// Returns whether this is a counter that should move but is still at 0.
    pub(super) fn has_counted_nothing(&self) -> bool {
        self.sum.has_counted_nothing()
    }

    pub(super) fn reading(&self) -> &ZoneReading {
        &self.reading
    }

    pub(super) fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// Reads the meter now. If that fails, the zone is degraded, and the next call tries again.
    pub(super) fn read(&mut self, files: &dyn Open, clock: &dyn Fn() -> Moment) {
        let before_ns = clock().at_ns;
        // A counter that does not move has been failing since it last moved.
        let worked_ns = self.sum.moved_ns().unwrap_or(self.reading.after_ns);
        let value = self.value(files);
        let after = clock();
        let after_ns = after.at_ns;
        let resumed = self.has_resumed(after.suspended_ns);
        if resumed {
            // The counter may have continued, stopped or restarted during suspension. The step of
            // the counter does not show how much energy was used while processes ran.
            self.sum.pause();
            self.integral.pause();
        }
        let outcome = value.and_then(|value| {
            let at_ns = before_ns.midpoint(after_ns);
            let added = self.add(value, at_ns);
            self.reading.energy_uj = self.sum.energy_uj() + self.integral.energy_uj();
            self.reading.lost_ns = self.sum.lost_ns() + self.integral.lost_ns();
            // A sample with impossible power is ignored, so the energy is still the value of the
            // previous sample.
            if self.sum.at_ns().max(self.integral.at_ns()) == Some(at_ns) {
                (self.reading.before_ns, self.reading.after_ns) = (before_ns, after_ns);
            }
            added.map_err(str::to_owned)
        });
        let outcome = match resumed {
            true => outcome.and_then(|()| Err(SUSPENDED.to_owned())),
            false => outcome,
        };
        let interval_ns = self.found.input.interval_ns();
        let within_ns = interval_ns.or_else(|| self.sum.within_ns());
        self.due_ns = within_ns.map(|within| after_ns + within);
        match outcome {
            Ok(()) => {
                self.count_failed(after_ns);
                self.failing = None;
                self.reading.state = FeatureState::On;
                self.reading.reason = None;
            }
            Err(reason) => {
                self.failing.get_or_insert(Failing {
                    since_ns: worked_ns,
                    earlier_ns: self.reading.failed_ns,
                });
                self.count_failed(after_ns);
                self.degrade(&reason);
            }
        }
    }

    /// Returns whether the machine was suspended since the last attempt.
    fn has_resumed(&mut self, suspended_ns: u64) -> bool {
        let before = self.suspended_ns.replace(suspended_ns);
        before.is_some_and(|before| suspended_ns.saturating_sub(before) >= SHORTEST_SUSPENSION_NS)
    }

    fn value(&mut self, files: &dyn Open) -> Result<Value, String> {
        let open = self
            .open
            .take()
            .map_or_else(|| open(&self.found, files), Ok);
        let read = open.and_then(|mut open| {
            let value = open.read()?;
            self.open = Some(open);
            Ok(value)
        });
        read.map_err(|error| words(&error))
    }

    /// Adds a value. If the value is rejected, returns the reason.
    fn add(&mut self, value: Value, at_ns: u64) -> Result<(), &'static str> {
        match value {
            Value::Counted(value) => self.sum.add(value, at_ns).map_err(counter::Fault::words),
            Value::Power(power_uw) => {
                let added = self.integral.add(power_uw, at_ns);
                added.map_err(integral::Fault::words)
            }
            Value::Used(used_uj) => {
                let added = self.integral.add_used(used_uj, at_ns);
                added.map_err(integral::Fault::words)
            }
            Value::Idle(why) => {
                self.integral.skip(at_ns);
                Err(why)
            }
        }
    }

    /// Updates the length of the current failure, if any.
    fn count_failed(&mut self, now_ns: u64) {
        if let Some(failing) = self.failing {
            let failed_ns = now_ns.saturating_sub(failing.since_ns);
            self.reading.failed_ns = failing.earlier_ns + failed_ns;
        }
    }

    /// Degrades the zone. Consecutive faults count as one gap.
    fn degrade(&mut self, reason: &str) {
        if self.reading.state == FeatureState::On {
            self.reading.gaps += 1;
        }
        self.reading.state = FeatureState::Degraded;
        if self.reading.reason.as_deref() != Some(reason) {
            self.reading.reason = Some(Arc::from(reason));
        }
    }
}

fn open(found: &Found, files: &dyn Open) -> io::Result<Box<dyn Meter>> {
    Ok(match &found.input {
        Input::Counter { file, .. } => Box::new(EnergyFile(files.open(file)?)),
        Input::Perf { event, cpus } => Box::new(PerfEvents::open(&found.device, event, cpus)?),
        Input::Power { file, .. } => Box::new(PowerFile(files.open(file)?)),
        Input::Model => return Err(io::ErrorKind::Unsupported.into()),
        Input::Battery { how, .. } => Box::new(Battery::open(&found.device, *how, files)?),
    })
}
