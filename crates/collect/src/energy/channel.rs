//! One zone that is read: its counter, its sum, and what is wrong with it.

use std::sync::Arc;

use noctule_model::{FeatureState, ZoneReading};

use super::counter::Sum;
use super::found::{Found, Input};
use super::source::{EnergyFile, Joules, Open, words};

/// Zone and reader.
pub(super) struct Channel {
    pub(super) found: Found,
    reader: Option<Box<dyn Joules>>,
    sum: Sum,
    reading: ZoneReading,
    /// When it must be read again, whatever the batches do.
    due_ns: Option<u64>,
}

impl Channel {
    /// Opens it and reads it once: a zone that cannot be read has no figures.
    pub(super) fn open(
        found: Found,
        files: &dyn Open,
        clock: &dyn Fn() -> u64,
    ) -> Result<Self, String> {
        let mut channel = Self {
            reader: None,
            sum: Sum::new(found.shape()),
            reading: ZoneReading {
                energy_uj: 0,
                before_ns: 0,
                after_ns: 0,
                gaps: 0,
                state: FeatureState::On,
                reason: None,
            },
            due_ns: None,
            found,
        };
        channel.read(files, clock);
        match channel.reading.reason.take() {
            None => Ok(channel),
            Some(reason) => Err(reason.to_string()),
        }
    }

    pub(super) fn reading(&self) -> &ZoneReading {
        &self.reading
    }

    pub(super) fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// Reads it now. What fails makes it degraded, and is tried again at the next call.
    pub(super) fn read(&mut self, files: &dyn Open, clock: &dyn Fn() -> u64) {
        let before_ns = clock();
        let value = self.value(files);
        let after_ns = clock();
        let outcome = value.and_then(|value| {
            let added = self.sum.add(value, before_ns.midpoint(after_ns));
            self.reading.energy_uj = self.sum.energy_uj();
            (self.reading.before_ns, self.reading.after_ns) = (before_ns, after_ns);
            added.map_err(|fault| fault.words().to_owned())
        });
        self.due_ns = self.sum.within_ns().map(|within| after_ns + within);
        match outcome {
            Ok(()) => self.turn_on(),
            Err(reason) => self.degrade(&reason),
        }
    }

    fn value(&mut self, files: &dyn Open) -> Result<u64, String> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            closed => closed.insert(open(&self.found.input, files)?),
        };
        reader.microjoules().map_err(|error| {
            // The device can be another one when it comes back.
            self.reader = None;
            words(&error)
        })
    }

    fn turn_on(&mut self) {
        self.reading.state = FeatureState::On;
        self.reading.reason = None;
    }

    /// A stretch of faults is one gap.
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

fn open(input: &Input, files: &dyn Open) -> Result<Box<dyn Joules>, String> {
    match input {
        Input::Counter { file, .. } => {
            let attribute = files.open(file).map_err(|error| words(&error))?;
            Ok(Box::new(EnergyFile(attribute)))
        }
    }
}
